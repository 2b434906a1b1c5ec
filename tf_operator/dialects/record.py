"""The record of a job as JSON: one codec that any served API may use, and its parts for those that spread it out.

Reading passes over what it does not understand, because a record may be older than this program, or newer, and never
raises. Everything that was written is read again; times are whole seconds.
"""

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from tf_operator.dialects import compact_records
from tf_operator.dialects.json_values import count_of, integer, object_of, one_of, present, seconds_of, write_time
from tf_operator.job.progress import NO_CLOCK, Position, ProgressClock
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import (
    LONGEST_CAUSE,
    MOST_AVOIDED,
    MOST_CAUSES,
    MOST_RESOURCES,
    NOT_ELASTIC,
    NOT_IN_QUEUE,
    REPLICA_TYPES,
    ElasticRecord,
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    LossCause,
    NodeRecord,
    PendingKind,
    PendingRecord,
    QueueRecord,
    ReplicaRecord,
    ReplicaType,
    Restarting,
    RestartRecord,
    UnfitCause,
    UnfitRecord,
)
from tf_operator.meta import Body, list_of, mapping_of, objects_of, parse_time, text_of
from tf_operator.text import one_line

_NODE_NAME: Final = re.compile(r"(?!.{254})[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORKERS: Final = "admittedWorkers"
_SERVERS: Final = "admittedParameterServers"
_CLOCK: Final = "progressClock"
_POSITION: Final = ("step", "progressPercentage")
_QUEUE_FIELDS: Final = frozenset({"queuedTime", "admittedTime", _WORKERS, _SERVERS, "admittedPodsDigest", "node"})


def read(stored_status: object) -> JobRecord:
    """The record, as far as it can be understood."""
    body = mapping_of(stored_status)
    replicas = object_of(body, "replicas")
    return JobRecord(
        phase=one_of(JobPhase, body.get("phase")) or JobPhase.NEW,
        failure=one_of(FailureCause, body.get("failure")),
        start_time=parse_time(body.get("startTime")),
        completion_time=parse_time(body.get("completionTime")),
        all_running_time=parse_time(body.get("allRunningTime")),
        first_run_time=parse_time(body.get("firstRunTime")),
        all_created_time=parse_time(body.get("allCreatedTime")),
        clean_up_time=parse_time(body.get("cleanUpTime")),
        resumed_time=parse_time(body.get("resumedTime", body.get("resumedAt"))),
        dequeued_time=parse_time(body.get("dequeuedTime", body.get("admittedAt"))),
        observed_generation=count_of(body, "observedGeneration"),
        replicas={kind: read_replica(object_of(replicas, kind)) for kind in REPLICA_TYPES if kind in replicas},
        disruptions=count_of(body, "disruptions"),
        lost_seconds=seconds_of(body, "lostSeconds"),
        usage=read_usage(body),
        attempt=max(count_of(body, "attempt"), 1),
        attempt_time=parse_time(body.get("attemptTime")),
        restarting=read_restarting(body.get("restarting")),
        restart_records=read_restart_records(body),
        avoided_nodes=read_avoided_nodes(body),
        first_failure=read_first_failure(object_of(body, "firstFailure")),
        pending=read_pending(object_of(body, "pending")),
        queue=read_queue(body),
        elastic=read_elastic(object_of(body, "elastic")),
    )


def write(record: JobRecord) -> dict[str, Any]:
    return present(
        phase=str(record.phase),
        failure=str(record.failure or ""),
        startTime=write_time(record.start_time),
        completionTime=write_time(record.completion_time),
        allRunningTime=write_time(record.all_running_time),
        firstRunTime=write_time(record.first_run_time),
        allCreatedTime=write_time(record.all_created_time),
        cleanUpTime=write_time(record.clean_up_time),
        resumedTime=write_time(record.resumed_time),
        dequeuedTime=write_time(record.dequeued_time),
        observedGeneration=record.observed_generation,
        replicas={str(kind): write_replica(replica) for kind, replica in record.replicas.items()},
        disruptions=record.disruptions,
        lostSeconds=record.lost_seconds,
        usage=dict(record.usage),
        **write_attempt(record),
        restarting=write_restarting(record.restarting),
        avoidedNodes=write_avoided_nodes(record.avoided_nodes),
        firstFailure=write_first_failure(record.first_failure),
        pending=write_pending(record.pending),
        queue=write_queue(record.queue),
        elastic=write_elastic(record.elastic),
        **write_restart_records(record.restart_records),
    )


# --- The parts -----------------------------------------------------------------------------------------------------


def read_replica(entry: Body) -> ReplicaRecord:
    return ReplicaRecord(
        restarts=count_of(entry, "restarts"),
        oom_restarts=count_of(entry, "oomRestarts"),
        memory=text_of(entry, "memory"),
        completed=Indexes.parse(entry.get("completedIndexes")),
        started=Indexes.parse(entry.get("startedIndexes")),
        failed=Indexes.parse(entry.get("failedIndexes")),
        size=count_of(entry, "clusterSize") or None,
        run_seconds=seconds_of(entry, "runSeconds"),
    )


def write_replica(replica: ReplicaRecord) -> dict[str, Any]:
    return present(
        restarts=replica.restarts,
        oomRestarts=replica.oom_restarts,
        memory=replica.memory,
        completedIndexes=str(replica.completed),
        startedIndexes=str(replica.started),
        failedIndexes=str(replica.failed),
        clusterSize=replica.size,
        runSeconds=replica.run_seconds,
    )


def read_usage(body: Body) -> dict[str, int]:
    amounts = {name: seconds_of(object_of(body, "usage"), name) for name in object_of(body, "usage")}
    return {name: amount for name, amount in list(amounts.items())[:MOST_RESOURCES] if amount}


def read_restarting(body: object) -> Restarting | None:
    if not isinstance(body, Mapping):
        return None
    types = body.get("types")
    names = types if isinstance(types, list) else []
    return Restarting(
        tuple(kind for kind in REPLICA_TYPES if kind in names),
        after_failure=body.get("afterFailure") is True,
        after_resize=body.get("afterResize") is True,
        since=parse_time(body.get("startTime")),
        cause=one_of(LossCause, body.get("cause")),
    )


def write_restarting(restarting: Restarting | None) -> dict[str, Any] | None:
    if restarting is None:
        return None
    types = [str(kind) for kind in restarting.types]
    return {"types": types} | present(
        afterFailure=restarting.after_failure,
        afterResize=restarting.after_resize,
        startTime=write_time(restarting.since),
        cause=str(restarting.cause or ""),
    )


def read_restart_records(body: Body) -> tuple[RestartRecord, ...]:
    """The records one by one, and those in the compact form."""
    records = (_read_restart_record(entry) for entry in objects_of(body.get("restartRecords")))
    compact = object_of(body, "compactRestartRecords")
    texts = (compact_records.read(kind, compact[kind]) for kind in REPLICA_TYPES if kind in compact)
    return (*(record for record in records if record), *chain.from_iterable(texts))


def write_restart_records(records: tuple[RestartRecord, ...]) -> dict[str, Any]:
    """One by one for people to read; very many as texts, so that the object stays below its limit."""
    if len(records) > compact_records.MOST_LISTED:
        return {"compactRestartRecords": compact_records.write(records)}
    return {"restartRecords": [_write_restart_record(record) for record in records]}


def _read_restart_record(entry: Body) -> RestartRecord | None:
    """One record; ``None`` for an entry that names no replica."""
    kind, _, index = text_of(entry, "replica").rpartition("-")
    indexes = list(Indexes.parse(index))
    replica_type = one_of(ReplicaType, kind)
    if replica_type is None or len(indexes) != 1:
        return None
    return RestartRecord(
        type=replica_type,
        index=indexes[0],
        uid=text_of(entry, "uid"),
        in_place=count_of(entry, "inPlace"),
        replaced=entry.get("replaced") is True,
        attempts=count_of(entry, "attempts"),
        time=parse_time(entry.get("time")),
    )


def _write_restart_record(record: RestartRecord) -> dict[str, Any]:
    return present(
        replica=f"{record.type}-{record.index}",
        uid=record.uid,
        inPlace=record.in_place,
        replaced=record.replaced,
        attempts=record.attempts,
        time=write_time(record.time),
    )


def read_avoided_nodes(body: Body) -> tuple[NodeRecord, ...]:
    """The nodes with failures, but for what is no name of a node: the API server would refuse all pods for it."""
    entries = {text_of(entry, "node"): entry for entry in objects_of(body.get("avoidedNodes"))}
    valid_entries = [(node, entry) for node, entry in entries.items() if _NODE_NAME.fullmatch(node)]
    return tuple(_read_avoided_node(node, entry) for node, entry in valid_entries[-MOST_AVOIDED:])


def _read_avoided_node(node: str, entry: Body) -> NodeRecord:
    causes = [one_line(cause, most=LONGEST_CAUSE) for cause in list_of(entry.get("causes")) if isinstance(cause, str)]
    return NodeRecord(
        node=node,
        failures=count_of(entry, "failures"),
        time=parse_time(entry.get("time")),
        is_avoided=entry.get("avoided") is True,
        causes=tuple(causes[-MOST_CAUSES:]),
    )


def write_avoided_nodes(nodes: tuple[NodeRecord, ...]) -> list[dict[str, Any]]:
    return [
        present(
            node=entry.node,
            failures=entry.failures,
            time=write_time(entry.time),
            avoided=entry.is_avoided,
            causes=list(entry.causes),
        )
        for entry in nodes
    ]


def read_first_failure(entry: Body) -> FirstFailure | None:
    """The evidence; ``None`` when it names no pod."""
    if not text_of(entry, "pod"):
        return None
    code = entry.get("exitCode")
    return FirstFailure(
        pod=text_of(entry, "pod"),
        container=text_of(entry, "container"),
        exit_code=code if isinstance(code, int) else None,
        reason=text_of(entry, "reason"),
        message=text_of(entry, "message"),
        time=parse_time(entry.get("time")),
    )


def write_first_failure(failure: FirstFailure | None) -> dict[str, Any] | None:
    """The evidence. An exit code of 0 is written: the kubelet may have ended the pod after its program."""
    if failure is None:
        return None
    fields = present(
        pod=failure.pod,
        container=failure.container,
        reason=failure.reason,
        message=failure.message,
        time=write_time(failure.time),
    )
    return fields if failure.exit_code is None else fields | {"exitCode": failure.exit_code}


def read_pending(entry: Body) -> PendingRecord | None:
    """The trouble that was reported; ``None`` when it is of no known type."""
    kind = one_of(PendingKind, entry.get("type"))
    if kind is None:
        return None
    return PendingRecord(
        kind=kind,
        subject=text_of(entry, "object"),
        reason=text_of(entry, "reason"),
        uid=text_of(entry, "uid"),
        start_time=parse_time(entry.get("startTime", entry.get("since"))),
    )


def write_pending(pending: PendingRecord | None) -> dict[str, Any] | None:
    if pending is None:
        return None
    return present(
        type=str(pending.kind),
        object=pending.subject,
        uid=pending.uid,
        startTime=write_time(pending.start_time),
        reason=pending.reason,
    )


def read_queue(body: Body) -> QueueRecord:
    """For what the job has room.

    These fields were among those of ``elastic`` before, and this version removes them there when it writes: if they are
    there, an older version has run since, and its record is newer.
    """
    older = object_of(body, "elastic")
    entry = older if not _QUEUE_FIELDS.isdisjoint(older) else object_of(body, "queue")
    if not entry:
        return NOT_IN_QUEUE
    return QueueRecord(
        queued_time=parse_time(entry.get("queuedTime")),
        admitted_time=parse_time(entry.get("admittedTime")),
        admitted_workers=count_of(entry, _WORKERS) if _WORKERS in entry else None,
        admitted_servers=count_of(entry, _SERVERS) if _SERVERS in entry else None,
        admitted_pods=text_of(entry, "admittedPodsDigest"),
        node=text_of(entry, "node"),
        unfit=_read_unfit(object_of(entry, "unfit")),
    )


def _read_unfit(entry: Body) -> UnfitRecord | None:
    cause = one_of(UnfitCause, entry.get("cause"))
    kind = one_of(ReplicaType, entry.get("replicaType"))
    return UnfitRecord(cause, kind, text_of(entry, "resource")) if cause else None


def write_queue(queue: QueueRecord) -> dict[str, Any]:
    """For what the job has room; nothing without the job queue."""
    counts = {_WORKERS: queue.admitted_workers, _SERVERS: queue.admitted_servers}
    return {name: count for name, count in counts.items() if count is not None} | present(
        queuedTime=write_time(queue.queued_time),
        admittedTime=write_time(queue.admitted_time),
        admittedPodsDigest=queue.admitted_pods,
        node=queue.node,
        unfit=_write_unfit(queue.unfit) if queue.unfit else None,
    )


def _write_unfit(unfit: UnfitRecord) -> dict[str, Any]:
    return present(cause=str(unfit.cause), replicaType=str(unfit.type or ""), resource=unfit.resource)


def read_elastic(entry: Body) -> ElasticRecord:
    if not entry:
        return NOT_ELASTIC
    return ElasticRecord(
        workers=count_of(entry, "workers") or None,
        asked_for=count_of(entry, "specWorkers") or None,
        resized_time=parse_time(entry.get("resizedTime")),
    )


def write_elastic(elastic: ElasticRecord) -> dict[str, Any]:
    """How many workers there are, if not as many as the spec says."""
    return present(workers=elastic.workers, specWorkers=elastic.asked_for, resizedTime=write_time(elastic.resized_time))


def write_attempt(record: JobRecord) -> dict[str, Any]:
    """The current run of the whole job, unless it is the first."""
    return {"attempt": record.attempt, "attemptTime": write_time(record.attempt_time)} if record.attempt > 1 else {}


def read_progress_clock(body: Body) -> ProgressClock:
    clock = object_of(body, _CLOCK)
    if not clock and "hung" not in body:
        return NO_CLOCK
    step, percentage = (object_of(clock, "lastHang").get(name) for name in _POSITION)
    return ProgressClock(
        running_since=parse_time(clock.get("startTime")),
        has_reported=clock.get("hasReported") is True,
        is_hung=body.get("hung") is True,
        last_hang=Position(integer(step), integer(percentage)),
    )


def write_progress_clock(clock: ProgressClock) -> dict[str, Any]:
    last_hang = {name: value for name, value in zip(_POSITION, clock.last_hang, strict=True) if value is not None}
    since = write_time(clock.running_since)
    return {
        _CLOCK: present(startTime=since, hasReported=clock.has_reported, lastHang=last_hang),
        "hung": clock.is_hung,
    }
