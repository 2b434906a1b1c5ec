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
_REPLICAS: Final = "tfReplicaSpecs"


@dataclass(frozen=True, slots=True)
class Version:
    """One older version: how its ``spec`` and ``status`` are written in v1, and the other way round."""

    name: str
    policies: tuple[str, ...]
    """What stands in ``spec`` here and in ``spec.runPolicy`` in v1."""
    replica_statuses: str = "replicaStatuses"

    def spec_to_v1(self, spec: Body) -> dict[str, Any]:
        """The spec in v1."""
        policies = {CLEAN: _DEFAULT_BEFORE} | {name: spec[name] for name in self.policies if name in spec}
        return {"runPolicy": policies} | _only(spec, (_REPLICAS,))

    def spec_from_v1(self, spec: Body) -> dict[str, Any]:
        """The spec in this version."""
        policies = {CLEAN: _DEFAULT_IN_V1} | dict(object_of(spec, "runPolicy"))
        return _only(policies, self.policies) | _only(spec, (_REPLICAS,))

    def status_to_v1(self, status: Body) -> dict[str, Any]:
        """The status in v1."""
        return _renamed(status, self.replica_statuses, "replicaStatuses")

    def status_from_v1(self, status: Body) -> dict[str, Any]:
        """The status in this version."""
        return _renamed(status, "replicaStatuses", self.replica_statuses)


V1ALPHA2: Final = Version("v1alpha2", _POLICIES, replica_statuses="tfReplicaStatuses")
V1BETA1: Final = Version("v1beta1", _POLICIES)
V1BETA2: Final = Version("v1beta2", (*_POLICIES, *_LATER_POLICIES))


def _only(body: Body, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _renamed(body: Body, old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in body.items() if name == old or name != new}
