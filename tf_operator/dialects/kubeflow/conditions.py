"""The condition list of a TFJob, which dashboards and SDKs read from its end.

As 1.9: a condition that changes moves to the end; Running and Restarting replace each other; a job that ends has no
Running that is True; Succeeded and Failed are never written False. Unlike 1.9, the last condition is always the current
state, also of a job that was resumed and does not run yet; a new message is not thrown away, and what others keep in
the list stays where it is.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from functools import partial

import msgspec
from msgspec import structs

from tf_operator.dialects.kubeflow import words
from tf_operator.dialects.kubeflow.words import Reason
from tf_operator.job.record import ENDS, IDLE, FailureCause, JobPhase
from tf_operator.job.report import JobReport


class ConditionType(StrEnum):
    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(msgspec.Struct, frozen=True):
    """One entry of ``status.conditions``. Others may keep conditions there, so ``type`` is any text."""

    type: str
    is_true: bool
    reason: str = ""
    message: str = ""
    last_update: datetime | None = None
    last_transition: datetime | None = None


Conditions = tuple[Condition, ...]

_REPLACES = {
    ConditionType.RUNNING: ConditionType.RESTARTING,
    ConditionType.RESTARTING: ConditionType.RUNNING,
}
_OURS = frozenset(ConditionType)
_ENDS = (ConditionType.SUCCEEDED, ConditionType.FAILED)
_TYPES = {phase: ConditionType(phase) for phase in JobPhase if phase is not JobPhase.NEW}
_PRECEDENCE = (
    JobPhase.FAILED,
    JobPhase.SUCCEEDED,
    JobPhase.SUSPENDED,
    JobPhase.QUEUED,
    JobPhase.RESTARTING,
    JobPhase.RUNNING,
    JobPhase.CREATED,
)


def phase_of(conditions: Conditions) -> JobPhase:
    """The phase of which conditions tell."""
    true_types = {entry.type for entry in conditions if entry.is_true}
    # Created says that the job is known, also if somebody has written it False.
    types = true_types | {entry.type for entry in conditions if entry.type == ConditionType.CREATED}
    return next((phase for phase in _PRECEDENCE if phase in types), JobPhase.NEW)


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """The condition of this type, whatever it says."""
    return next((entry for entry in conditions if entry.type == kind), None)


def after(report: JobReport, previous: Conditions) -> Conditions:
    """The conditions of a report, made from the stored ones."""
    phase = report.record.phase
    if phase is JobPhase.NEW:
        return previous
    update = _at_end if phase in ENDS else _while_idle if phase in IDLE else _while_active
    entries = update(report, _at_start(report, previous))
    return in_order(entries, _TYPES[phase])


def _at_start(report: JobReport, conditions: Conditions) -> Conditions:
    """A job is Created from the first time on; one that goes on is no longer Suspended, or Queued."""
    job, resumed_time, dequeued_time = report.job, report.record.resumed_time, report.record.dequeued_time
    if find(conditions, ConditionType.CREATED) is None:
        message = words.turned(job, "created")
        conditions = with_condition(
            conditions, ConditionType.CREATED, reason=Reason.CREATED, message=message, now=report.now
        )
    suspension = find(conditions, ConditionType.SUSPENDED)
    if resumed_time and (suspension is None or suspension.is_true):
        kind, message = ConditionType.SUSPENDED, words.turned(job, "resumed")
        conditions = with_condition(
            conditions, kind, is_true=False, reason=Reason.RESUMED, message=message, now=resumed_time
        )
    queue_condition = find(conditions, ConditionType.QUEUED)
    if dequeued_time and (queue_condition is None or queue_condition.is_true):
        kind, message = ConditionType.QUEUED, words.turned(job, "admitted")
        conditions = with_condition(
            conditions, kind, is_true=False, reason=Reason.ADMITTED, message=message, now=dequeued_time
        )
    return conditions


def _while_active(report: JobReport, conditions: Conditions) -> Conditions:
    """The current state, with the note; and Created without a note that is over."""
    job, phase, put = report.job, report.record.phase, partial(with_condition, now=report.now)
    text = words.turned(job, "created") + (report.note if phase is JobPhase.CREATED else "")
    conditions = put(conditions, ConditionType.CREATED, reason=Reason.CREATED, message=text)
    if phase is JobPhase.RUNNING:
        return put(conditions, ConditionType.RUNNING, reason=Reason.RUNNING, message=words.running(job) + report.note)
    if phase is JobPhase.RESTARTING:
        message = words.restarting(job, report.record.restarting) + report.note
        return put(conditions, ConditionType.RESTARTING, reason=Reason.RESTARTING, message=message)
    return conditions


def _while_idle(report: JobReport, conditions: Conditions) -> Conditions:
    """Suspended or Queued is True, and what would be true of a job with pods is not."""
    is_queued = report.record.phase is JobPhase.QUEUED
    kind, reason = (ConditionType.QUEUED if is_queued else ConditionType.SUSPENDED), report.hold or Reason.SUSPENDED
    put = partial(with_condition, reason=reason, message=report.message, now=report.now)
    current = {entry.type for entry in conditions if entry.is_true}
    if {ConditionType.RUNNING, ConditionType.RESTARTING} & current:
        conditions = put(conditions, ConditionType.RUNNING, is_true=False)
    if not is_queued and ConditionType.QUEUED in current:
        conditions = put(conditions, ConditionType.QUEUED, is_true=False)
    return put(conditions, kind)


def _at_end(report: JobReport, conditions: Conditions) -> Conditions:
    record, put = report.record, partial(with_condition, message=report.message, now=report.now)
    if record.phase is JobPhase.SUCCEEDED:
        return put(conditions, ConditionType.SUCCEEDED, reason=Reason.SUCCEEDED)
    cause = record.failure or FailureCause.PERMANENT_FAILURE
    return put(conditions, ConditionType.FAILED, reason=words.FAILURE_REASONS[cause])


# --- The rules of the list -----------------------------------------------------------------------------------------


def with_condition(
    conditions: Conditions, kind: ConditionType, *, is_true: bool = True, reason: str, message: str, now: datetime
) -> Conditions:
    """The list after a condition has been set. Saying the same again changes nothing, also no time."""
    previous = find(conditions, kind)
    if previous and (previous.is_true, previous.reason) == (is_true, reason):
        if previous.message == message:
            return conditions
        successor = structs.replace(previous, message=message, last_update=now)
        return tuple(successor if entry is previous else entry for entry in conditions)
    since = previous.last_transition if previous and previous.is_true == is_true else now
    fresh = Condition(kind, is_true, reason, message, now, since)
    others = tuple(entry for entry in conditions if entry is not previous and entry.type != _REPLACES.get(kind))
    return (*(_without_current(others, now) if kind in _ENDS else others), fresh)


def in_order(conditions: Conditions, current: ConditionType) -> Conditions:
    """Created first and the current state last; ``kubectl get`` and dashboards show the type of the last one."""
    ours = [entry for entry in conditions if entry.type in _OURS]
    entries = iter(sorted(ours, key=lambda entry: (entry.type == current, entry.type != ConditionType.CREATED)))
    return tuple(next(entries) if entry.type in _OURS else entry for entry in conditions)


def _without_current(conditions: Conditions, now: datetime) -> Conditions:
    """A job that has ended neither runs nor restarts, nor is it queued."""
    return tuple(
        structs.replace(entry, is_true=False, last_update=now, last_transition=now)
        if entry.type in {ConditionType.RUNNING, ConditionType.QUEUED} and entry.is_true
        else entry
        for entry in conditions
        if entry.type != ConditionType.RESTARTING
    )
