"""The status of a TensorFlowTrainingJob: the record of the job from it, and the whole status from a report.

The record is in ``status.operator``; all other fields are rendered from a report and never decide anything. A status
without a record was written by the T9k product: a job that it has ended stays ended, and its status stays as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.dialects import record as codec
from tf_operator.dialects.t9k import conditions, tasks, words
from tf_operator.dialects.t9k.conditions import T9kConditionType, T9kPhase
from tf_operator.job.record import JobPhase, JobRecord
from tf_operator.job.report import JobReport, ReplicaLine
from tf_operator.job.tensorboard import RESOURCE, TensorBoardPhase
from tf_operator.meta import Body, objects_of, parse_time, text_of
from tf_operator.text import LONGEST_MESSAGE, one_line

RECORD: Final = "operator"
_TENSORBOARD: Final = "tensorboard"
_FIELDS: Final = frozenset({"conditions", "phase", "tasks", "aggregate", "backoffCount", _TENSORBOARD, RECORD})
_ENDS: Final = {JobPhase.FAILED: T9kPhase.FAILED, JobPhase.SUCCEEDED: T9kPhase.SUCCEEDED}
_NOTHING: Body = {}


def read(stored_status: object) -> JobRecord:
    """What is remembered in a status, as far as it can be understood."""
    body = stored_status if isinstance(stored_status, Mapping) else _NOTHING
    return codec.read(body[RECORD]) if RECORD in body else _read_foreign(body)


def write(report: JobReport, stored_status: Body) -> dict[str, Any]:
    """The whole status: what is to be said, and what others keep in the stored one."""
    foreign = {name: value for name, value in stored_status.items() if name not in _FIELDS}
    if report.job.record.is_finished and RECORD not in stored_status:
        return dict(stored_status)
    lines = tuple(report.lines())
    if report.job.record.is_finished:  # only its replicas, its TensorBoard and its record still change
        fields = {**stored_status, **tasks.write(report, lines), RECORD: codec.write(report.record)}
        return fields | _tensorboard(report, stored_status)
    phase = conditions.phase_of(report, lines)
    return foreign | {
        "conditions": conditions.write(report, lines, phase, stored_status),
        "phase": str(phase),
        **_replicas(report, lines, stored_status),
        "backoffCount": report.record.restarts,
        **_tensorboard(report, stored_status),
        RECORD: codec.write(report.record),
    }


def _tensorboard(report: JobReport, stored_status: Body) -> dict[str, Any]:
    """How the TensorBoard stands; of one that nothing is known of, what is stored."""
    line, job = report.extras.get(RESOURCE), report.job
    if line is None:
        is_stored = job.tensorboard_spec is not None and _TENSORBOARD in stored_status
        return {_TENSORBOARD: stored_status[_TENSORBOARD]} if is_stored else {}
    kind, is_ready = ("Warning" if line.refusal else "Normal"), line.status.get("phase") == TensorBoardPhase.RUNNING
    if not line.uid:
        reason = words.DEPENDENT_CREATE_FAILED if line.refusal else words.DEPENDENT_NOT_FOUND
        note = {"note": line.refusal} if line.refusal else {}
        return {_TENSORBOARD: {"action": "Create", "ready": False, "reason": reason, "type": kind, **note}}
    reason = words.DEPENDENT_READY if is_ready else words.DEPENDENT_NOT_READY
    message = line.refusal or one_line(text_of(line.status, "message"), most=LONGEST_MESSAGE)
    parts = [f"TensorBoard [{line.name}] is {'ready' if is_ready else 'not ready'}", *filter(None, [message])]
    dependent = {"apiVersion": RESOURCE.api_version, "kind": RESOURCE.kind, "name": line.name, "uid": line.uid}
    dependent["namespace"] = job.key.namespace
    fields = {"action": "NOP", "dependent": dependent, "ready": is_ready, "reason": reason, "type": kind}
    return {_TENSORBOARD: {**fields, "note": ": ".join(parts)}}


def _replicas(report: JobReport, lines: tuple[ReplicaLine, ...], stored_status: Body) -> dict[str, Any]:
    """Tasks and aggregate. Of a job that cannot be run nothing is counted: what was counted before stays."""
    if report.counts is not None:
        return tasks.write(report, lines)
    nothing = tasks.write(report, ())
    return {name: stored_status.get(name, empty) for name, empty in nothing.items()}


def _read_foreign(body: Body) -> JobRecord:
    """How the job ended; one that has not ended is a new job."""
    by_type = {text_of(entry, "type"): entry for entry in objects_of(body.get("conditions"))}
    for kind, phase in ((T9kConditionType.FAILED, JobPhase.FAILED), (T9kConditionType.COMPLETED, JobPhase.SUCCEEDED)):
        entry = by_type.get(kind, _NOTHING)
        if entry.get("status") == "True" or body.get("phase") == _ENDS[phase]:
            cause = words.cause_of(text_of(entry, "reason")) if phase is JobPhase.FAILED else None
            end = parse_time(entry.get("lastTransitionTime"))
            return JobRecord(phase=phase, failure=cause, completion_time=end)
    return JobRecord()
