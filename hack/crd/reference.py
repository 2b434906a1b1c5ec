"""The tables of fields in docs/api.md, from the source of the CRD.

The page is written by hand, except for what stands between two markers for each of spec and status.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from crd.definition import Field
from pages.parts import between, plain

# What a reader does not need: the operator's own memory, and the fields of every condition in Kubernetes.
HIDDEN: Final = (
    "spec.elasticPolicy.metrics[]",
    "status.compactRestartRecords",
    "status.restartRecords",
    "status.conditions[].",
    "status.queue.admittedPodsDigest",
    "status.queue.node",
    "status.elastic.specWorkers",
    "status.elastic.resizedTime",
    "status.replicaStatuses.<Type>.startedIndexes",
    "status.replicaStatuses.<Type>.failedIndexes",
    "status.replicaStatuses.<Type>.clusterSize",
    "status.replicaStatuses.<Type>.labelSelector",
    "status.lastReconcileTime",
    "status.progressClock",
    "status.trainerStatus.metrics[].",
    "status.reportedBy",
    "status.allRunningTime",
    "status.firstRunTime",
    "status.cleanUpTime",
    "status.origin",
    "status.runtimeId",
    "status.restarting",
    "status.pending.uid",
    "status.pending.startTime",
)
# The items of lists and maps: the row above says what they are, those below what they have.
ITEMS: Final = ("[]", "<Type>")


def fill(page: str, fields: Iterable[Field]) -> str:
    """Return the page with new tables between its markers."""
    visible = [field for field in fields if not field.path.startswith(HIDDEN) and not field.path.endswith(ITEMS)]
    ours = {field.path for field in visible if field.note == "ours"}
    for top in ("spec", "status"):
        rows = [_item(field, ours) for field in visible if field.path.startswith(f"{top}.")]
        page = between(page, f"fields of {top}", "\n".join(rows))
    return page


def _item(field: Field, ours: Collection[str]) -> str:
    """A field with its type, and how it was in 1.9: of the spec only, because 1.9 had few fields of the status."""
    note = f" *In 1.9: {plain(field.note)}.*" if field.note else ""
    if field.note == "ours":
        note = "" if _parent(field.path) in ours else " *Ours.*"
    meaning = plain(str(field.schema.get("description", "")))
    return f"- `{field.path}` ({kind(field.schema)}): {meaning}{note if field.path.startswith('spec.') else ''}"


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def kind(schema: Mapping[str, Any]) -> str:
    parts = [_type(schema)]
    if "enum" in schema:
        parts = [", ".join(f"`{value or chr(34) * 2}`" for value in schema["enum"])]
    if "minimum" in schema or "maximum" in schema:
        parts.append(_bounds(schema))
    if "default" in schema:
        parts.append(f"default {_default(schema['default'])}")
    return "; ".join(parts)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "pod template" if schema["$ref"] == "pod-template" else str(schema["$ref"])
    if schema.get("format") == "date-time":
        return "time"
    if schema["type"] == "array":
        return "list"
    return "map" if "additionalProperties" in schema else str(schema["type"])


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{low} to {high}" if high is not None else f"at least {low}"


def _default(value: object) -> str:
    return f"`{value!r}`".lower() if isinstance(value, bool | dict) else f"`{value}`"
