"""v1alpha2, v1beta1 and v1beta2: the replicas of v1, with the policies of a job directly in its spec.

Their operators deleted the running pods of a finished job unless the job said otherwise; v1 keeps them. So an absent
``cleanPodPolicy`` is written out on the way to v1.
"""

from dataclasses import dataclass
from typing import Any, Final

from tf_operator.dialects.record import object_of
from tf_operator.meta import Body

CLEAN: Final = "cleanPodPolicy"
_DEFAULT_IN_V1: Final = "None"
_DEFAULT_BEFORE: Final = "Running"
_POLICIES: Final = (CLEAN, "ttlSecondsAfterFinished")
_LATER_POLICIES: Final = ("activeDeadlineSeconds", "backoffLimit")
_REPLICA_STATUSES: Final = "replicaStatuses"
REPLICAS: Final = "tfReplicaSpecs"
"""The same in all versions."""


@dataclass(frozen=True, slots=True)
class Version:
    """One older version: how its ``spec`` and ``status`` are written in v1, and the other way round."""

    name: str
    policies: tuple[str, ...]
    """What stands in ``spec`` here and in ``spec.runPolicy`` in v1."""
    replica_statuses: str = _REPLICA_STATUSES

    def spec_to_v1(self, spec: Body) -> dict[str, Any]:
        """The spec in v1."""
        policies = {CLEAN: _DEFAULT_BEFORE} | {name: spec[name] for name in self.policies if name in spec}
        return {"runPolicy": policies} | _only(spec, (REPLICAS,))

    def spec_from_v1(self, spec: Body) -> dict[str, Any]:
        """The spec in this version."""
        policies = {CLEAN: _DEFAULT_IN_V1} | dict(object_of(spec, "runPolicy"))
        return _only(policies, self.policies) | _only(spec, (REPLICAS,))

    def status_to_v1(self, status: Body) -> dict[str, Any]:
        """The status in v1."""
        return self._renamed(status)

    def status_from_v1(self, status: Body) -> dict[str, Any]:
        """The status in this version."""
        return self._renamed(status)

    def _renamed(self, status: Body) -> dict[str, Any]:
        """The two names change places, so that nothing is lost of a status that has both."""
        other = {self.replica_statuses: _REPLICA_STATUSES, _REPLICA_STATUSES: self.replica_statuses}
        return {other.get(name, name): value for name, value in status.items()}


V1ALPHA2: Final = Version("v1alpha2", _POLICIES, replica_statuses="tfReplicaStatuses")
V1BETA1: Final = Version("v1beta1", _POLICIES)
V1BETA2: Final = Version("v1beta2", (*_POLICIES, *_LATER_POLICIES))


def _only(body: Body, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}
