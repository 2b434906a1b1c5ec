"""The PodGroups of gang schedulers, as far as an operator sees them: two kinds, two groups, specs of their own."""

from support.api import Api
from support.crds import create_crd
from support.resources import Json, Resource

VOLCANO = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
PLUGINS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups")


async def create_pod_group_crds(admin: Api) -> None:
    for resource in (VOLCANO, PLUGINS):
        await create_crd(admin, pod_group_crd(resource))


def pod_group_crd(resource: Resource) -> Json:
    """A CustomResourceDefinition that takes nearly any spec and has a status."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    # As the one of scheduler-plugins has it; Volcano's has no bound.
    spec = anything | ({"properties": {"minMember": {"type": "integer", "minimum": 1}}} if resource == PLUGINS else {})
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": anything}}},
    }
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": resource.plural, "singular": "podgroup"}
    # The names of the k8s.io groups are protected: a CRD there has to say who approved of it.
    approval = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified, "annotations": approval},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
