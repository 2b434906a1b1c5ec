"""The status of a ``mlkube.io/v1beta1`` TfJob: the record of the job in ``operator``, and what people read beside it.

A status without ``operator`` is one of an operator of that time. Of it only the end is believed, so that a job that has
ended is not run again.
"""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.dialects import record as codec
from tf_operator.dialects.mlkube.words import Phase, State
from tf_operator.job.record import NO_RECORD, FailureCause, JobPhase, JobRecord, ReplicaType
from tf_operator.job.report import JobReport
from tf_operator.job.training_job import ReplicaSpec
from tf_operator.meta import Body

TYPES: Final[Mapping[str, ReplicaType]] = {
    "MASTER": ReplicaType.MASTER,
    "PS": ReplicaType.PS,
    "WORKER": ReplicaType.WORKER,
}
_NAMES: Final = {kind: name for name, kind in TYPES.items()}
_STATES: Final = {JobPhase.SUCCEEDED: State.SUCCEEDED, JobPhase.FAILED: State.FAILED}


def read(stored: Body) -> JobRecord:
    """What is remembered in a status, as far as it can be understood."""
    if "operator" in stored:
        return codec.read(stored["operator"])
    is_refused = stored.get("phase") == Phase.FAILED
    if is_refused or stored.get("state") == State.FAILED:
        cause = FailureCause.INVALID_SPEC if is_refused else FailureCause.PERMANENT_FAILURE
        return JobRecord(phase=JobPhase.FAILED, failure=cause)
    if stored.get("state") == State.SUCCEEDED and stored.get("phase") in {Phase.CLEAN_UP, Phase.DONE}:
        return JobRecord(phase=JobPhase.SUCCEEDED)
    return NO_RECORD


def write(report: JobReport, stored: Body) -> dict[str, Any]:
    """The whole status: what is to be said, and what others keep in the stored one."""
    record = report.record
    if record.phase is JobPhase.NEW:
        return dict(stored)
    said: dict[str, Any] = {
        "phase": str(_phase(record)),
        "state": str(_STATES.get(record.phase, State.RUNNING)),
        "operator": codec.write(record),
    }
    if not report.job.record.is_finished:  # after the end nothing is said any more but that the clean-up is done
        said["reason"] = _reason(report)
        if report.counts is not None:
            said["replicaStatuses"] = [_replicas(report, spec) for spec in _in_order_of_spec(report)]
    return dict(stored) | said


def _phase(record: JobRecord) -> Phase:
    if record.failure is FailureCause.INVALID_SPEC:
        return Phase.FAILED
    if record.is_finished:
        return Phase.DONE if record.clean_up_time else Phase.CLEAN_UP
    return Phase.RUNNING if record.first_run_time else Phase.CREATING


def _reason(report: JobReport) -> str:
    """Why it failed, or what it waits for."""
    return "" if report.record.phase is JobPhase.SUCCEEDED else (report.message or report.note).strip()


def _in_order_of_spec(report: JobReport) -> list[ReplicaSpec]:
    """The order in which the user has written them, which only their paths tell; there are not ten."""
    return sorted(report.job.replicas, key=lambda spec: spec.path)


def _replicas(report: JobReport, spec: ReplicaSpec) -> dict[str, Any]:
    """The replicas of one type: those that neither succeeded nor failed count as running, also without a pod."""
    known = report.record.of(spec.type)
    succeeded, failed = len(known.completed), len(known.failed)
    counts = {State.RUNNING: spec.count - succeeded - failed, State.SUCCEEDED: succeeded, State.FAILED: failed}
    found = {str(state): count for state, count in counts.items() if count > 0}
    state = next((state for state in (State.FAILED, State.RUNNING) if state in found), State.SUCCEEDED)
    return {"tf_replica_type": _NAMES[spec.type], "state": str(state), "ReplicasStates": found}
