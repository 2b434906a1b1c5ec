"""The objects that make up an installation, in the order in which they are applied. Pure.

They are those of manifests/operator, changed as the overlays there change them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, ObjectKey, key_of

NAME: Final = "tf-operator"
"""Of the operator's objects, and of its namespace unless another one is named."""
OWNER_LABEL: Final = "app.kubernetes.io/managed-by"
OWNER: Final = "tfjob"
_RBAC: Final = "rbac.authorization.k8s.io"
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        NAMESPACES,
        CRDS,
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource(_RBAC, "v1", "clusterroles", "ClusterRole", is_namespaced=False),
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", is_namespaced=False),
        Resource(_RBAC, "v1", "roles", "Role"),
        Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        Resource("", "v1", "services", "Service"),
        Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        DEPLOYMENTS,
    )
}
"""By kind, all that an installation may have, also of another release; in the order of application."""
_ORDER: Final = tuple(RESOURCES)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Values:
    """What differs from one installation to another."""

    image: str
    namespace: str = NAME
    job_namespaces: tuple[str, ...] = ()
    """Where jobs are served; everywhere if there are none."""
    features: tuple[str, ...] = ()


def features() -> tuple[str, ...]:
    """What an installation can have in addition: names of overlays."""
    return tuple(_load_packaged()["features"])


def needs_everywhere(feature: str) -> bool:
    """Whether the operator gets rights in all namespaces for it."""
    return any(body["kind"] == "ClusterRoleBinding" for body in _load_packaged()["features"][feature]["objects"])


def oldest_release() -> tuple[int, int]:
    """The oldest minor release of Kubernetes that is supported."""
    major, _, minor = str(_load_packaged()["kubernetes"]).partition(".")
    return int(major), int(minor)


def make_objects(values: Values, crd: Body) -> list[Json]:
    """All objects of an installation; ``crd`` is the definition of the jobs."""
    packaged = _load_packaged()
    added = [packaged["features"][name] for name in sorted(set(values.features))]
    bodies = [crd, *packaged["objects"], *(body for feature in added for body in feature["objects"])]
    arguments = [argument for feature in added for argument in feature["arguments"]]
    if values.job_namespaces:
        bodies = [body for body in bodies if not _is_binding_of_everywhere(body)]
        bodies += [_within(packaged["roleBinding"], name) for name in sorted(set(values.job_namespaces))]
        arguments = [*(f"--namespace={name}" for name in sorted(set(values.job_namespaces))), *arguments]
    copies = [_copy(body) for body in bodies]
    for body in copies:
        if body["kind"] == "Deployment":
            _fill_in(body, values.image, arguments, [feature["deployment"] for feature in added])
        _move(body, values.namespace)
        body["metadata"].setdefault("labels", {})[OWNER_LABEL] = OWNER
    return sorted(copies, key=lambda body: _ORDER.index(body["kind"]))


def set_image(bodies: Iterable[Json], image: str) -> None:
    for body in bodies:
        if body["kind"] == "Deployment":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            container["image"] = image


def resource_of(body: Body) -> Resource:
    return RESOURCES[body["kind"]]


def name_of(body: Body) -> str:
    """As in ``Deployment tf-operator/tf-operator``."""
    return f"{body['kind']} {key_of(body)}"


def identity_of(body: Body) -> tuple[str, ObjectKey]:
    """What tells one object of an installation from another."""
    return body["kind"], key_of(body)


@cache
def _load_packaged() -> Json:
    text = resources.files(__package__).joinpath("objects.json").read_text(encoding="utf-8")
    packaged: Json = json.loads(text)
    return packaged


def _copy(body: Body) -> Json:
    """One that may be changed."""
    copied: Json = json.loads(json.dumps(body))
    return copied


def _is_binding_of_everywhere(body: Body) -> bool:
    """Whether by this the operator has its rights in all namespaces."""
    return (body["kind"], key_of(body).name) == ("ClusterRoleBinding", NAME)


def _within(role_binding: Body, namespace: str) -> Json:
    return {**role_binding, "metadata": {**role_binding["metadata"], "namespace": namespace}}


def _fill_in(deployment: Json, image: str, arguments: list[str], changes: list[Json]) -> None:
    for change in changes:
        _merge(deployment["spec"], change)
    set_image([deployment], image)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["args"] = [*container["args"], *arguments]


def _merge(target: Json, change: Mapping[str, Any]) -> None:
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = value


def _move(body: Json, namespace: str) -> None:
    """Put an object into the operator's namespace, with those whom it names."""
    metadata = body["metadata"]
    if body["kind"] == "Namespace":
        metadata["name"] = namespace
    if metadata.get("namespace") == NAME:
        metadata["namespace"] = namespace
    for subject in body.get("subjects", ()):
        subject["namespace"] = namespace
