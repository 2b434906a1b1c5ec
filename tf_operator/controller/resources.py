"""The resources that controllers watch and write, by the names under which own writes are recorded."""

from collections.abc import Iterable
from dataclasses import astuple
from typing import Final

from tf_operator.api import constants
from tf_operator.api.profile import OPERATOR_LABEL
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import selector_text

PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
VOLCANO_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
PLUGIN_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")


def jobs_of(api: ServedAPI) -> Resource:
    """The jobs of a served API."""
    return Resource(*astuple(api.resource))


def child_selector(apis: Iterable[ServedAPI]) -> str:
    """The children of the jobs of these APIs: their caches are shared, and hold nothing else of the cluster."""
    names = sorted({profile.labels.operator_name for api in apis for profile in api.profiles})
    if len(names) == 1:
        return selector_text({OPERATOR_LABEL: names[0]})
    return f"{OPERATOR_LABEL} in ({','.join(names)})"


def pod_groups(gang_scheduler: str) -> Resource | None:
    """The PodGroups of a gang scheduler; ``None`` without one."""
    if not gang_scheduler:
        return None
    return VOLCANO_GROUPS if gang_scheduler == constants.VOLCANO else PLUGIN_GROUPS
