"""What ``mlkube.io`` and ``kubeflow.org/v1alpha1`` say of a job: a phase, a state, and counts in a list.

Both show the same words of a record; where the record is stored is up to each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tf_operator.job.record import NO_RECORD, FailureCause, JobPhase, JobRecord, ReplicaType
from tf_operator.meta import Body

TYPES: Final[Mapping[str, ReplicaType]] = {
    "MASTER": ReplicaType.MASTER,
    "WORKER": ReplicaType.WORKER,
    "PS": ReplicaType.PS,
}


class StatusPhase(StrEnum):
    """``status.phase``: where a job is in its life."""

    CREATING = "Creating"
    RUNNING = "Running"
    CLEAN_UP = "CleanUp"
    """It has ended, and some of its pods have not."""
    FAILED = "Failed"
    """Its spec is invalid. A job of which a replica failed is Done."""
    DONE = "Done"


class State(StrEnum):
    """``status.state``, and the state of replicas."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class TypeCounts:
    """The replicas of one type: how many are wanted, and how many have ended for good."""

    type: str
    replicas: int
    succeeded: int
    failed: int


_STATES: Final = {JobPhase.SUCCEEDED: State.SUCCEEDED, JobPhase.FAILED: State.FAILED}


def phase_of(record: JobRecord, *, has_clean_up: bool = True) -> StatusPhase:
    """The phase; without a record of its clean-up a job is Done when it has ended."""
    if record.failure is FailureCause.INVALID_SPEC:
        return StatusPhase.FAILED
    if record.is_finished:
        return StatusPhase.DONE if record.clean_up_time or not has_clean_up else StatusPhase.CLEAN_UP
    return StatusPhase.RUNNING if record.first_run_time else StatusPhase.CREATING


def state_of(record: JobRecord) -> State:
    """The state of a job: Running for as long as it has not ended."""
    return _STATES.get(record.phase, State.RUNNING)


def rows(counts: Iterable[TypeCounts]) -> list[dict[str, Any]]:
    """``status.replicaStatuses``: what neither succeeded nor failed counts as running, also without a pod."""
    return [_row(count) for count in counts]


def end_in(status: Body) -> JobRecord:
    """What is believed of a status that an operator of that time has written: how the job has ended."""
    phase, state = status.get("phase"), status.get("state")
    if phase == StatusPhase.FAILED:
        return JobRecord(phase=JobPhase.FAILED, failure=FailureCause.INVALID_SPEC)
    if state == State.FAILED:
        return JobRecord(phase=JobPhase.FAILED, failure=FailureCause.PERMANENT_FAILURE)
    if state == State.SUCCEEDED and phase in {StatusPhase.CLEAN_UP, StatusPhase.DONE}:
        return JobRecord(phase=JobPhase.SUCCEEDED)
    return NO_RECORD


def _row(count: TypeCounts) -> dict[str, Any]:
    running = count.replicas - count.succeeded - count.failed
    counts = {State.RUNNING: running, State.SUCCEEDED: count.succeeded, State.FAILED: count.failed}
    by_state = {str(state): number for state, number in counts.items() if number > 0}
    state = next((state for state in (State.FAILED, State.RUNNING) if state in by_state), State.SUCCEEDED)
    return {"tf_replica_type": count.type, "state": str(state), "ReplicasStates": by_state}
