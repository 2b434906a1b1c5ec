"""The schema of a pod template, for use inside a CRD, from the API server's own description of pods.

A CRD takes no references, so everything is put in place. What is left out, and why:

- enumerations, defaults and unions: they would refuse what a newer API server accepts, and store what nobody wrote;
- descriptions: they are 200 kB, and ``kubectl explain pod.spec`` has them;
- keys of lists that pods may repeat (the names of environment variables, the numbers of ports): the API server
  would refuse a job with a pod that it accepts.

Every object takes unknown fields: one that a newer release of Kubernetes has added reaches the pod (decision 0006).
"""

from collections.abc import Mapping
from typing import Any, Final

from crd import core
from crd.core import Definitions

Schema = dict[str, Any]

QUANTITY: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "x-kubernetes-int-or-string": True,
}
INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
# As 1.9 has it. Names and owners of pods are given by the operator; the rest is the API server's.
METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "annotations": TEXTS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": TEXTS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
KNOWN: Final[Mapping[str, Schema]] = {
    core.OBJECT_META: METADATA,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
}
# Lists whose keys pods may repeat: the API server warns at most.
REPEATABLE: Final = frozenset({"env", "ports", "hostAliases", "imagePullSecrets"})
# The rules of kubeflow.yaml look at each container; the API server wants to know how much work that can be. No pod has
# that many containers, and a longer name is none.
MOST_CONTAINERS: Final = 1000
LONGEST_NAME: Final = 63
COPIED: Final = ("type", "format", "required", "x-kubernetes-map-type")


def pod_template(definitions: Definitions) -> Schema:
    """The schema of PodTemplateSpec; both its parts can be relied on by rules, as both are required."""
    schema = _Translation(definitions).schema({"$ref": core.POD_TEMPLATE})
    schema["required"] = ["spec"]
    containers = schema["properties"]["spec"]["properties"]["containers"]
    containers["maxItems"] = MOST_CONTAINERS
    containers["items"]["properties"]["name"]["maxLength"] = LONGEST_NAME
    return schema


class _Translation:
    """From a description with references to a structural schema."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def schema(self, node: Mapping[str, Any], *, name: str = "") -> Schema:
        """Translate one node; *name* is that of the property it describes."""
        reference = _reference(node)
        if reference in KNOWN:
            return dict(KNOWN[reference])
        if reference:
            return self.schema(self._definitions[reference], name=name)
        return self._in_place(node, name)

    def _in_place(self, node: Mapping[str, Any], name: str) -> Schema:
        schema: Schema = {key: node[key] for key in COPIED if key in node}
        if "properties" in node:
            properties = node["properties"]
            schema["properties"] = {key: self.schema(properties[key], name=key) for key in sorted(properties)}
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if "additionalProperties" in node:
            schema["additionalProperties"] = self.schema(node["additionalProperties"])
        if "items" in node:
            schema |= {"items": self.schema(node["items"]), **_list_kind(node, name)}
        return schema


def _reference(node: Mapping[str, Any]) -> str:
    """The definition that a node stands for, or nothing; with a default beside it, a reference is in an allOf."""
    parts = [node, *node.get("allOf", ())]
    return next((core.target(part["$ref"]) for part in parts if "$ref" in part), "")


def _list_kind(node: Mapping[str, Any], name: str) -> Schema:
    """How two writers of a list are merged: element by element where elements have keys, else as a whole."""
    if node.get("x-kubernetes-list-type") != "map" or name in REPEATABLE:
        return {}
    return {key: node[key] for key in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")}
