"""What the embedded API server knows of the fields of built-in kinds: names and types, without descriptions.

They are taken from the models of the ``kubernetes`` package, which are generated from the same OpenAPI description that
an API server serves, so no server has to run. Formats of numbers are not in them: those of pods come from
``core-v1.json``. How server-side apply merges lists comes from ``lists.json``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crd import lists

FILE: Final = Path("tf_operator/local/apiserver/validation/built_in.json")
ROOTS: Final = (
    "CoreV1Event",
    "EventsV1Event",
    "V1ClusterRole",
    "V1ClusterRoleBinding",
    "V1ConfigMap",
    "V1CronJob",
    "V1CustomResourceDefinition",
    "V1DaemonSet",
    "V1Deployment",
    "V1EndpointSlice",
    "V1Endpoints",
    "V1Ingress",
    "V1Job",
    "V1Lease",
    "V1MutatingWebhookConfiguration",
    "V1Namespace",
    "V1NetworkPolicy",
    "V1Node",
    "V1PersistentVolume",
    "V1PersistentVolumeClaim",
    "V1Pod",
    "V1PriorityClass",
    "V1ReplicaSet",
    "V1ReplicationController",
    "V1ResourceQuota",
    "V1Role",
    "V1RoleBinding",
    "V1Secret",
    "V1Service",
    "V1ServiceAccount",
    "V1StatefulSet",
    "V1ValidatingWebhookConfiguration",
    "V2HorizontalPodAutoscaler",
)
_QUANTITY: Final = {"oneOf": [{"type": "string"}, {"type": "number"}]}
_ANY_SCHEMA: Final = {"$ref": "V1JSONSchemaProps"}
_OF_SCHEMAS: Final[Mapping[str, Any]] = {
    "items": _ANY_SCHEMA,
    "additionalProperties": _ANY_SCHEMA | {"x-or-boolean": True},
    "additionalItems": {},
    "dependencies": {},
}
"""Fields of schemas that have several types."""
_QUANTITY_FIELDS: Final = frozenset({"sizeLimit", "divisor"})
_QUANTITIES: Final = {
    "V2HPAScalingRules": ("tolerance",),
    "V2MetricTarget": ("averageValue", "value"),
    "V2MetricValueStatus": ("averageValue", "value"),
}
"""By definition the fields that are quantities, where others of the same name are texts."""
_QUANTITY_MAPS: Final = frozenset(
    {"limits", "requests", "capacity", "allocatable", "hard", "used", "overhead", "allocatedResources"}
)


def text(core: Mapping[str, Any], merging: Mapping[str, Any]) -> str:
    """The file: one definition to a line.

    ``core`` is what an API server says of pod templates, ``merging`` how lists are merged.
    """
    from kubernetes.client import models  # noqa: PLC0415 - slow, and only for this generator
    from pydantic.json_schema import models_json_schema  # noqa: PLC0415

    _, schema = models_json_schema([(getattr(models, name), "validation") for name in ROOTS], by_alias=True)
    definitions = {name: _definition(definition) for name, definition in sorted(schema["$defs"].items())}
    definitions["V1JSONSchemaProps"]["properties"] |= _OF_SCHEMAS
    for name, quantities in _QUANTITIES.items():
        definitions[name]["properties"] |= dict.fromkeys(quantities, _QUANTITY)
    for name, definition in core.items():
        fields = definitions.get(f"V1{name.rpartition('.')[2]}", {}).get("properties", {})
        for field, schema in definition.get("properties", {}).items():
            if schema.get("type") == "integer" and field in fields:
                fields[field] = {"type": "integer", "format": schema["format"]}
    lists.annotate(definitions, merging)
    lines = (
        f"{json.dumps(name)}:{json.dumps(definition, separators=(',', ':'))}"
        for name, definition in definitions.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _definition(model: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: _field(name, field) for name, field in model.get("properties", {}).items()}
    required = {"required": sorted(model["required"])} if model.get("required") else {}
    return {"type": "object", "properties": properties} | required


def _field(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema(field)
    if name in _QUANTITY_FIELDS:
        return _QUANTITY
    if name in _QUANTITY_MAPS and schema.get("additionalProperties") == {"type": "string"}:
        return {"type": "object", "additionalProperties": _QUANTITY}
    return schema


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One of several types: a number or a text, or any number."""
    if len(parts) == 1:
        return parts[0]
    types = {part.get("type") for part in parts}
    return {"type": "number"} if types == {"integer", "number"} else {"x-kubernetes-int-or-string": True}


def _schema(field: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in field:
        return {"$ref": field["$ref"].rpartition("/")[2]}
    if "anyOf" in field:
        return _either([_schema(part) for part in field["anyOf"] if part != {"type": "null"}])
    if field.get("type") == "array":
        return {"type": "array", "items": _schema(field["items"])}
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), Mapping):
        return {"type": "object", "additionalProperties": _schema(field["additionalProperties"])}
    return {name: field[name] for name in ("type", "format") if name in field}
