"""v1alpha2, v1beta1 and v1beta2: the replicas of v1, with the policies of a job directly in its spec.

Their operators deleted the running pods of a finished job unless the job said otherwise; v1 keeps them. So an absent
``cleanPodPolicy`` is written out on the way to v1. So is what the API server would add to the stored object: what is
there after the way back needs no note.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tf_operator.dialects.json_values import object_of
from tf_operator.meta import Body

CLEAN: Final = "cleanPodPolicy"
ADDED_BY_V1: Final[Body] = {"suspend": False}
"""Defaults in ``runPolicy`` of v1 that older versions have no field for."""
_DEFAULT_IN_V1: Final = "None"
_DEFAULT_BEFORE: Final = "Running"
_POLICIES: Final = (CLEAN, "ttlSecondsAfterFinished")
_LATER_POLICIES: Final = ("activeDeadlineSeconds", "backoffLimit")
_REPLICA_STATUSES: Final = "replicaStatuses"
REPLICAS: Final = "tfReplicaSpecs"
"""The same in all versions, but for what only v1 has."""
_ENTRIES: Final = f"{REPLICAS}[]"
"""What is noted of replicas, under a name that no field has."""
_ONLY_IN_V1: Final = ("oomPolicy",)
"""Of each entry of the replicas."""


@dataclass(frozen=True, slots=True)
class FlatVersion:
    """One older version: how its ``spec`` and ``status`` are written in v1, and the other way round."""

    name: str
    policies: tuple[str, ...]
    """What stands in ``spec`` here and in ``spec.runPolicy`` in v1."""
    replica_statuses: str = _REPLICA_STATUSES

    def spec_to_v1(self, spec: Body) -> dict[str, Any]:
        policies = {**ADDED_BY_V1, CLEAN: _DEFAULT_BEFORE} | {
            name: spec[name] for name in self.policies if name in spec
        }
        return {"runPolicy": policies} | _pick(spec, (REPLICAS,))

    def spec_from_v1(self, spec: Body) -> dict[str, Any]:
        policies = {CLEAN: _DEFAULT_IN_V1} | dict(object_of(spec, "runPolicy"))
        return _pick(policies, self.policies) | _without_later_fields(_pick(spec, (REPLICAS,)))

    def status_to_v1(self, parts: Body) -> dict[str, Any]:
        return self._rename(parts)

    def status_from_v1(self, parts: Body, _spec: object) -> dict[str, Any]:
        return self._rename(parts)

    def normalized(self, spec: Body, _uid: str) -> dict[str, Any]:
        """The spec: nothing is shown in it that nobody gave."""
        return dict(spec)

    def with_implied_fields(self, spec: Body, _runtime_id: str | None) -> dict[str, Any]:
        """The spec: nothing is shown in it that nobody gave."""
        return dict(spec)

    def split(self, spec: Body) -> dict[str, Any]:
        return {name: value for name, value in spec.items() if name != REPLICAS}

    def join(self, spec: Body, own: Body) -> dict[str, Any]:
        """The spec with these fields in place of its own; the replicas stay."""
        return self.split(own) | _pick(spec, (REPLICAS,))

    def split_v1(self, spec: Body) -> dict[str, Any]:
        entries = {
            key: later
            for key, entry in object_of(spec, REPLICAS).items()
            if isinstance(entry, Mapping) and (later := _pick(entry, _ONLY_IN_V1))
        }
        return self.split(spec) | ({_ENTRIES: entries} if entries else {})

    def join_v1(self, spec: Body, own: Body) -> dict[str, Any]:
        """The spec of v1 with these fields in place of its own; of the replicas with those that only v1 has."""
        notes = object_of(own, _ENTRIES)
        entries = {
            key: {**entry, **_pick(object_of(notes, key), _ONLY_IN_V1)} if isinstance(entry, Mapping) else entry
            for key, entry in object_of(spec, REPLICAS).items()
        }
        others = {name: value for name, value in own.items() if name != _ENTRIES}
        return self.join(spec, others) | ({REPLICAS: entries} if entries else {})

    def _rename(self, parts: Body) -> dict[str, Any]:
        """The two names change places, so that nothing is lost of a status that has both. What is none stays."""
        other = {self.replica_statuses: _REPLICA_STATUSES, _REPLICA_STATUSES: self.replica_statuses}
        status = parts.get("status")
        if not isinstance(status, Mapping):
            return _pick(parts, ("status",))
        return {"status": {other.get(name, name): value for name, value in status.items()}}


V1ALPHA2: Final = FlatVersion("v1alpha2", _POLICIES, replica_statuses="tfReplicaStatuses")
V1BETA1: Final = FlatVersion("v1beta1", _POLICIES)
V1BETA2: Final = FlatVersion("v1beta2", (*_POLICIES, *_LATER_POLICIES))


def _pick(body: Body, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _without_later_fields(spec: Body) -> dict[str, Any]:
    """The spec without those fields of its replicas that only v1 has. What is malformed stays as it is."""
    replicas = spec.get(REPLICAS)
    if not isinstance(replicas, Mapping):
        return dict(spec)
    entries = {
        key: {name: value for name, value in entry.items() if name not in _ONLY_IN_V1}
        if isinstance(entry, Mapping)
        else entry
        for key, entry in replicas.items()
    }
    return {**spec, REPLICAS: entries}
