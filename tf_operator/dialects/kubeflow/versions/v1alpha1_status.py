"""The status of v1alpha1: that of v1 in ``operator``, whole, and beside it what it means in the words of v1alpha1.

A status without ``operator`` is one of an operator of that time. In v1 it is kept in the field ``v1alpha1``, beside the
end that it reports; and it is shown again for as long as nothing else is in the status of v1.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, Final

from tf_operator.dialects import phases
from tf_operator.dialects.json_values import count_of, object_of
from tf_operator.dialects.kubeflow import status as v1_status
from tf_operator.dialects.kubeflow.conditions import ConditionType
from tf_operator.dialects.kubeflow.words import FAILURE_REASONS, Reason
from tf_operator.dialects.phases import TYPES, TypeCounts
from tf_operator.job.record import JobPhase, JobRecord, ReplicaType
from tf_operator.meta import Body, objects_of, text_of

KINDS: Final = "TFJob.v1alpha1.kubeflow.org"
"""What ``kubectl get`` prints beside the name of a job."""
_KINDS: Final = "kinds"
_WHOLE: Final = "operator"
BEFORE: Final = "v1alpha1"
"""In v1: the status that an operator of that time has written."""
ORIGIN: Final = "origin"
"""In v1, written by the operator: the version in which the job was created, if its rules are those of that version."""
RUNTIME_ID: Final = "runtimeId"
"""In v1, written by the operator: what is in the names of the children; it never changes."""
_TIME: Final = "%Y.%m.%d-%H:%M:%S"
"""As the fork wrote times."""
_ABSENT: Final = object()


def to_v1(parts: Body) -> dict[str, Any]:
    """The status in v1, as a field of the object; nothing when there is none."""
    status = parts.get("status", _ABSENT)
    if isinstance(status, Mapping) and _WHOLE in status:
        return {"status": status[_WHOLE]}
    original = (
        {name: value for name, value in status.items() if name != _KINDS} if isinstance(status, Mapping) else status
    )
    return {} if original is _ABSENT or original == {} else {"status": {**_end_in(original), BEFORE: original}}


def from_v1(parts: Body, spec: object) -> dict[str, Any]:
    """The status in v1alpha1, for a job with this spec in v1alpha1."""
    if "status" not in parts:
        return {"status": {_KINDS: KINDS}}
    status = parts["status"]
    body = status if isinstance(status, Mapping) else {}
    original = body.get(BEFORE, _ABSENT)
    is_same = original is not _ABSENT and to_v1({"status": original}) == {"status": body}
    if is_same and not (isinstance(original, Mapping) and _WHOLE in original):
        return {"status": {_KINDS: KINDS, **original} if isinstance(original, Mapping) else original}
    others = original if isinstance(original, Mapping) else {}
    return {"status": {**others, _KINDS: KINDS, **_fields(body, spec), _WHOLE: status}}


def _end_in(status: object) -> dict[str, Any]:
    """The end of a job as a condition: one that has ended is never started again."""
    record = phases.end_in(status) if isinstance(status, Mapping) else JobRecord()
    if not record.is_finished:
        return {}
    kind = ConditionType.FAILED if record.failure else ConditionType.SUCCEEDED
    reason = FAILURE_REASONS[record.failure] if record.failure else Reason.SUCCEEDED
    message = text_of(status if isinstance(status, Mapping) else {}, "reason")
    return {"conditions": [{"type": kind.value, "status": "True", "reason": reason, "message": message}]}


def _fields(status: Body, spec: object) -> dict[str, Any]:
    record = v1_status.read(status)
    if record.phase is JobPhase.NEW:
        return {}
    is_own = ORIGIN in status
    if record.phase in {JobPhase.RUNNING, JobPhase.RESTARTING} and not is_own:
        record = record.changed(first_run_time=record.first_run_time or record.start_time)
    fields: dict[str, Any] = {
        "phase": str(phases.phase_of(record, has_clean_up=is_own)),
        "state": str(phases.state_of(record)),
        "reason": _reason(status, record),
        "conditions": None,
        "controlPaused": record.phase is JobPhase.SUSPENDED,
    }
    if record.replicas:
        fields["replicaStatuses"] = phases.rows(_counts(status, record, spec))
    return fields | (_of_queue(status, record) if record.queue.queued_time else {})


def _of_queue(status: Body, record: JobRecord) -> dict[str, Any]:
    """What the fork with auto-scaling said of the jobs in its queue."""
    start = record.first_run_time or record.all_running_time or (record.start_time if record.is_finished else None)
    times = {
        "enqueueScheduleTime": record.queue.queued_time,
        "startRunTime": start,
        "jobFinishTime": record.completion_time,
    }
    workers = object_of(object_of(status, "replicaStatuses"), ReplicaType.WORKER)
    running = 0 if record.is_finished else count_of(workers, "active")
    fields = {name: moment.astimezone(UTC).strftime(_TIME) for name, moment in times.items() if moment}
    return fields | {"runningReplicas": running}


def _reason(status: Body, record: JobRecord) -> str:
    """How it failed, or what it waits for: a sentence after the first one of the current condition."""
    messages = [
        text_of(entry, "message") for entry in objects_of(status.get("conditions")) if entry.get("status") == "True"
    ]
    if not messages or record.phase is JobPhase.SUCCEEDED:
        return ""
    if record.phase is JobPhase.FAILED or record.is_idle:
        return messages[-1]
    return messages[-1].partition(". ")[2]


def _counts(status: Body, record: JobRecord, spec: object) -> Iterable[TypeCounts]:
    replicas = object_of(status, "replicaStatuses")
    for item in objects_of(object_of({"spec": spec}, "spec").get("replicaSpecs")):
        name, count = text_of(item, "tfReplicaType"), item.get("replicas")
        if name not in TYPES or not isinstance(count, int):
            continue
        kind = TYPES[name]
        if kind is ReplicaType.MASTER and kind not in record.replicas:
            kind = ReplicaType.CHIEF
        if kind is ReplicaType.WORKER and record.elastic.asked_for == count:
            count = record.elastic.workers or count
        replica_record = record.of(kind)
        failures = len(replica_record.failed) or (
            0 if ORIGIN in status else count_of(object_of(replicas, kind), "failed")
        )
        yield TypeCounts(name, count, len(replica_record.completed), failures)
