"""``status.fixed`` of an older version: what a write in this version cannot change, because only v1 has a field for it.

An older version is checked by its own schema, and its rules see neither v1 nor annotations. They see the status, which
the API server takes from the stored object in every write but one to ``/status``. So whether replicas may change is
told there, and what only v1 has is restored from there: whatever a write does to the annotations, it neither suspends
a job nor gives it to somebody else. A job that is created has no status yet; its annotations count.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator.dialects.json_values import count_of, object_of, present
from tf_operator.dialects.kubeflow.versions.v1alpha2_to_v1beta2 import REPLICAS
from tf_operator.job import constants, defaults
from tf_operator.job.record import ReplicaType
from tf_operator.meta import Body, metadata_of, text_of

FIELD: Final = "fixed"
FIELDS: Final = "fields"
INCOMPLETE: Final = "incomplete"
_EMPTY: Final = "emptyStatus"
_ELASTIC: Final = "elasticPolicy"


def of(body: Body) -> Body | None:
    """What is fixed of an object in an older version; ``None`` for one that is being created."""
    value = object_of(body, "status").get(FIELD)
    return value if isinstance(value, Mapping) else None


def add(status: Body, job: Body, fields: str | None) -> dict[str, Any]:
    """The status field in an older version of a job in v1, with what is fixed; ``fields`` is what only v1 has.

    ``fields``: ``None`` when it is too large to be kept. What is no status stays as it is.
    """
    body = status.get("status", {})
    if not isinstance(body, Mapping):
        return dict(status)
    spec = object_of(job, "spec")
    note = present(
        **{FIELDS: fields, INCOMPLETE: fields is None, _EMPTY: body == {} and "status" in status},
        counts=_counts(spec, text_of(metadata_of(job), "name")),
        noOtherTypes=not _is_suspended(spec),
    )
    return {"status": {**body, FIELD: note}}


def remove(parts: Body) -> dict[str, Any]:
    """The parts of an object without it."""
    whole = parts.get("status")
    if not isinstance(whole, Mapping) or FIELD not in whole:
        return dict(parts)
    status = {name: value for name, value in whole.items() if name != FIELD}
    if status or object_of(whole, FIELD).get(_EMPTY) is True:
        return {**parts, "status": status}
    return {name: value for name, value in parts.items() if name != "status"}


def _counts(spec: Body, name: str) -> dict[str, dict[str, int]]:
    """From how many to how many replicas of a type there may be, by the rules of v1; nothing of a type that is free.

    A type that stands there twice, in two spellings, may have what either may: their order is not kept everywhere.
    """
    counts: dict[str, dict[str, int]] = {}
    for kind, least, most in _bounds(spec, name):
        other = counts.get(kind, {"least": least, "most": most})
        counts[kind] = {"least": min(least, other["least"]), "most": max(most, other["most"])}
    return counts


def _bounds(spec: Body, name: str) -> Iterator[tuple[str, int, int]]:
    """The same for each entry: its type, and the least and the most."""
    elastic = object_of(spec, _ELASTIC)
    ranges = {ReplicaType.WORKER.label: elastic, ReplicaType.PS.label: object_of(elastic, "parameterServers")}
    for key, entry in object_of(spec, REPLICAS).items():
        kind, count = key.lower(), _count_in(entry)
        if most := count_of(ranges.get(kind, {}), "maxReplicas"):
            bounds = count_of(ranges[kind], "minReplicas") or 1, most
        elif _is_suspended(spec):
            continue
        elif kind == ReplicaType.WORKER.label and spec.get("enableDynamicWorker") is True:
            bounds = 0, max(count, _most_with_a_service(name, kind))
        else:
            bounds = count, count
        yield kind, *bounds


def _count_in(entry: object) -> int:
    count = entry.get("replicas") if isinstance(entry, Mapping) else None
    return count if isinstance(count, int) and count >= 0 else defaults.REPLICAS


def _most_with_a_service(name: str, kind: str) -> int:
    """Of how many replicas the last one's Service, ``<name>-<type>-<index>``, has a possible name."""
    digits = constants.LONGEST_NAME - len(f"{name}-{kind}-")
    most: int = 10 ** max(digits, 0)
    return min(constants.MOST_REPLICAS, most)


def _is_suspended(spec: Body) -> bool:
    return object_of(spec, "runPolicy").get("suspend") is True
