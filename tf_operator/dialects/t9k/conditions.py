"""The conditions and the phase of a TensorFlowTrainingJob.

Every type has one entry, in the order of the T9k manual; Paused only once the job was paused. The time of an entry
moves with its status or its reason, not with its message. When the job ends its conditions are written for the last
time. What a condition said before is part of its rules: a job stays initialized until it is paused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tf_operator.dialects.t9k import words
from tf_operator.job.record import FailureCause, JobPhase, ReplicaType
from tf_operator.job.report import JobReport, ReplicaLine
from tf_operator.meta import Body, objects_of, parse_time, rfc3339, text_of


class T9kPhase(StrEnum):
    """``status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class T9kConditionType(StrEnum):
    """``status.conditions[].type``, in their order."""

    INITIALIZED = "Initialized"
    RUNNING = "Running"
    FAILED = "Failed"
    COMPLETED = "Completed"
    REPLICA_FAILURE = "ReplicaFailure"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class Statement:
    reason: str
    message: str
    is_true: bool = False


_PHASES: Mapping[JobPhase, T9kPhase] = {
    JobPhase.SUCCEEDED: T9kPhase.SUCCEEDED,
    JobPhase.FAILED: T9kPhase.FAILED,
    JobPhase.SUSPENDED: T9kPhase.PAUSED,
}
_TYPES = frozenset(T9kConditionType)
_MOST_NAMES = 5


def phase_of(report: JobReport, lines: tuple[ReplicaLine, ...]) -> T9kPhase:
    """The phase. A job is Running from the moment that its main replica runs, whatever happens to that then."""
    record = report.record
    if phase := _PHASES.get(record.phase):
        return phase
    leader = report.job.leader
    kind = leader.type if leader else ReplicaType.WORKER
    if any(line.type is kind and line.index == 0 and line.uid and line.phase == T9kPhase.UNKNOWN for line in lines):
        return T9kPhase.UNKNOWN
    if record.first_run_time:
        return T9kPhase.RUNNING
    return T9kPhase.RESUMING if record.resumed_time else T9kPhase.PENDING


def write(
    report: JobReport, lines: tuple[ReplicaLine, ...], phase: T9kPhase, stored_status: Body
) -> list[dict[str, Any]]:
    """The list; what others keep in it stands behind ours."""
    conditions = objects_of(stored_status.get("conditions"))
    by_type = {text_of(entry, "type"): entry for entry in conditions}
    ours = [
        _entry(kind, statement, by_type.get(kind), report.now)
        for kind, statement in _statements(report, lines, phase, by_type=by_type)
    ]
    return ours + [dict(entry) for entry in conditions if text_of(entry, "type") not in _TYPES]


def _statements(
    report: JobReport, lines: tuple[ReplicaLine, ...], phase: T9kPhase, *, by_type: Mapping[str, Body]
) -> Iterator[tuple[T9kConditionType, Statement]]:
    start = _initialized(report)
    failure, completion = _ends(report)
    yield T9kConditionType.INITIALIZED, start
    yield T9kConditionType.RUNNING, _running(report, phase, start, failure if failure.is_true else completion)
    yield T9kConditionType.FAILED, failure
    yield T9kConditionType.COMPLETED, completion
    yield T9kConditionType.REPLICA_FAILURE, _replica_failure(lines, by_type.get(T9kConditionType.REPLICA_FAILURE))
    if pause := _paused(report, by_type.get(T9kConditionType.PAUSED)):
        yield T9kConditionType.PAUSED, pause


def _initialized(report: JobReport) -> Statement:
    """Whether all children of this run have been made: since the start, or since the last resume."""
    if report.record.phase is JobPhase.SUSPENDED:
        return Statement(words.PAUSED, words.IS_PAUSED)
    if report.record.all_created_time:
        return Statement(words.NO_REASON, words.IS_INITIALIZED, is_true=True)
    return Statement(words.NO_REASON, words.INITIALIZES + report.note)


def _running(report: JobReport, phase: T9kPhase, start: Statement, end: Statement) -> Statement:
    """While it does not run, or not all of it, the message says why; before that, the one of Initialized does."""
    if phase in {T9kPhase.SUCCEEDED, T9kPhase.FAILED}:
        return Statement(end.reason, end.message)
    if phase is T9kPhase.PAUSED:
        return Statement(words.PAUSED, words.IS_PAUSED)
    note = report.note if start.is_true else ""
    if phase is T9kPhase.RUNNING:
        return Statement(words.NO_REASON, words.MAIN_RUNS + note if note else words.ALL_RUN, is_true=True)
    sentence = words.IS_UNKNOWN if phase is T9kPhase.UNKNOWN else words.WAITS
    return Statement(words.NO_REASON, sentence + note)


def _ends(report: JobReport) -> tuple[Statement, Statement]:
    """Failed and Completed."""
    record = report.record
    if record.phase is JobPhase.SUCCEEDED:
        reason, message = words.SUCCEEDED, words.HAS_SUCCEEDED
    elif record.phase is JobPhase.FAILED:
        reason = words.FAILURE_REASONS[record.failure or FailureCause.PERMANENT_FAILURE]
        message = report.message
    else:
        reason, message = words.NO_REASON, words.GOES_ON
    failure = Statement(reason, message, is_true=record.phase is JobPhase.FAILED)
    return failure, Statement(reason, message, is_true=record.phase is JobPhase.SUCCEEDED)


def _replica_failure(lines: tuple[ReplicaLine, ...], condition: Body | None) -> Statement:
    """From the end of a replica that failed until its next pod runs, or for ever if there is none."""
    if not any(line.has_failed for line in lines):
        return Statement(words.NO_REASON, words.ALL_RUN)
    who = [line.failure for line in lines if line.has_failed and line.failure]
    more = f" and {len(who) - _MOST_NAMES} more" if len(who) > _MOST_NAMES else ""
    last_message = text_of(condition, "message") if condition is not None and condition.get("status") == "True" else ""
    return Statement(words.POD_FAILED, "; ".join(who[:_MOST_NAMES]) + more or last_message, is_true=True)


def _paused(report: JobReport, condition: Body | None) -> Statement | None:
    if report.record.phase is JobPhase.SUSPENDED:
        return Statement(words.PAUSED, words.IS_PAUSED, is_true=True)
    if report.record.resumed_time:
        return Statement(words.RESUMED, words.IS_RESUMED)
    if condition is None:
        return None
    return Statement(
        text_of(condition, "reason"), text_of(condition, "message"), is_true=condition.get("status") == "True"
    )


def _entry(kind: T9kConditionType, statement: Statement, condition: Body | None, now: datetime) -> dict[str, Any]:
    status = "True" if statement.is_true else "False"
    stays = condition is not None and (condition.get("status"), condition.get("reason")) == (status, statement.reason)
    last_change = text_of(condition, "lastTransitionTime") if condition is not None and stays else ""
    since = last_change if parse_time(last_change) else ""  # the API server would refuse anything else
    return {
        "type": str(kind),
        "status": status,
        "reason": statement.reason,
        "message": statement.message,
        "lastTransitionTime": since or rfc3339(now),
    }
