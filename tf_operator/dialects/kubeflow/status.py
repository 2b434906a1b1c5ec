"""The status of a ``kubeflow.org/v1`` TFJob: the record of the job from it, and the whole status from a report.

The phase of the record is in the conditions, and how the job failed in their reasons; messages are for people and are
never read. Reading passes over what it does not understand, because a status may be older than this program, or newer.
Writing makes the whole status again, around what others keep in the stored one; the merge patch of the difference is
made by ``dialects.merge_patch``, so a status that says the same already costs no write.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tf_operator.dialects import record as codec
from tf_operator.dialects import trainer_status
from tf_operator.dialects.json_values import count_of, object_of, present, seconds_of, write_time
from tf_operator.dialects.kubeflow import conditions, words
from tf_operator.dialects.kubeflow.conditions import Condition, Conditions, ConditionType
from tf_operator.job.profile import AfterEnd
from tf_operator.job.record import REPLICA_TYPES, JobPhase, JobRecord, ReplicaRecord, ReplicaType
from tf_operator.job.report import JobReport, ReplicaCounts
from tf_operator.meta import Body, objects_of, parse_time, text_of

_NOTHING: Body = {}
_TYPES: Final = frozenset(ConditionType)
_FIELDS: Final = frozenset(
    {
        "conditions",
        "replicaStatuses",
        "startTime",
        "completionTime",
        "allRunningTime",
        "firstRunTime",
        "cleanUpTime",
        "observedGeneration",
        "ready",
        "restarts",
        "disruptions",
        "lostSeconds",
        "usage",
        "attempt",
        "attemptTime",
        "restarting",
        "avoidedNodes",
        "firstFailure",
        "pending",
        "queue",
        "elastic",
        *trainer_status.FIELDS,
        "progressClock",
        "hung",
        "restartRecords",
        "compactRestartRecords",
        "replicaAccounts",  # the name of restartRecords in the first version
    }
)
_COUNTS: Final = frozenset(
    {
        *("active", "succeeded", "failed", "pending", "restarts", "oomRestarts", "memory"),
        *("completedIndexes", "startedIndexes", "failedIndexes", "clusterSize", "runSeconds", "selector"),
    }
)


def read(stored_status: object) -> JobRecord:
    """What is remembered in a status, as far as it can be understood."""
    body = stored_status if isinstance(stored_status, Mapping) else _NOTHING
    stored_conditions = _read_conditions(body)
    replicas = object_of(body, "replicaStatuses")
    record = JobRecord(
        phase=conditions.phase_of(stored_conditions),
        start_time=parse_time(body.get("startTime")),
        completion_time=parse_time(body.get("completionTime")),
        all_running_time=parse_time(body.get("allRunningTime")),
        first_run_time=parse_time(body.get("firstRunTime")),
        clean_up_time=parse_time(body.get("cleanUpTime")),
        observed_generation=count_of(body, "observedGeneration"),
        replicas={
            kind: codec.read_replica(replicas[kind])
            for kind in REPLICA_TYPES
            if kind in replicas and isinstance(replicas[kind], Mapping)
        },
        disruptions=count_of(body, "disruptions"),
        lost_seconds=seconds_of(body, "lostSeconds"),
        usage=codec.read_usage(body),
        attempt=max(count_of(body, "attempt"), 1),
        attempt_time=parse_time(body.get("attemptTime")),
        restarting=codec.read_restarting(body.get("restarting")),
        restart_records=codec.read_restart_records(_with_new_names(body)),
        avoided_nodes=codec.read_avoided_nodes(body),
        first_failure=codec.read_first_failure(object_of(body, "firstFailure")),
        pending=codec.read_pending(object_of(body, "pending")),
        queue=codec.read_queue(body),
        elastic=codec.read_elastic(object_of(body, "elastic")),
        progress=trainer_status.read(body),
        progress_clock=codec.read_progress_clock(body),
    )
    return _with_conditions(record, stored_conditions)


def write(report: JobReport, stored_status: Body) -> dict[str, Any]:
    """The whole status: what is to be said, and what others keep in the stored one."""
    record, after_end = report.record, report.job.profile.after_end
    if report.job.record.is_finished and report.counts is None and not report.message:  # what comes after the end
        has_moved = record.completion_time != report.job.record.completion_time
        end = write_time(record.completion_time) if has_moved else None
        return dict(stored_status) | present(completionTime=end, cleanUpTime=write_time(record.clean_up_time))
    fields = present(
        conditions=_conditions(report, stored_status),
        replicaStatuses=_replicas(report, object_of(stored_status, "replicaStatuses")),
        startTime=write_time(record.start_time),
        completionTime=write_time(record.completion_time),
        allRunningTime=write_time(record.all_running_time),
        firstRunTime=write_time(record.first_run_time if after_end is not AfterEnd.NOTHING else None),
        cleanUpTime=write_time(record.clean_up_time),
        observedGeneration=record.observed_generation,
        ready=text_of(stored_status, "ready") if report.counts is None else report.ready,
        restarts=record.restarts,
        disruptions=record.disruptions,
        lostSeconds=record.lost_seconds,
        usage=dict(record.usage),
        **codec.write_attempt(record),
        restarting=codec.write_restarting(record.restarting),
        avoidedNodes=codec.write_avoided_nodes(record.avoided_nodes),
        firstFailure=codec.write_first_failure(record.first_failure),
        pending=codec.write_pending(record.pending),
        queue=codec.write_queue(record.queue),
        elastic=codec.write_elastic(record.elastic),
        **codec.write_progress_clock(record.progress_clock),
        **codec.write_restart_records(record.restart_records),
    ) | trainer_status.write(record.progress)
    foreign = {name: value for name, value in stored_status.items() if name not in _FIELDS}
    return fields | foreign


def _with_conditions(record: JobRecord, entries: Conditions) -> JobRecord:
    """The record with what only conditions tell."""
    end = conditions.find(entries, ConditionType.FAILED if record.phase is JobPhase.FAILED else ConditionType.SUCCEEDED)
    if record.is_finished and end:
        # 1.9 loses the time of completion of some jobs.
        record = record.changed(completion_time=record.completion_time or end.last_transition)
        if record.phase is JobPhase.FAILED:
            record = record.changed(failure=words.cause_of(end.reason))
    if record.phase is JobPhase.NEW and record.start_time:
        record = record.changed(phase=JobPhase.CREATED)  # 1.9 loses the conditions of some that it has started
    return record.changed(
        resumed_time=_left_at(entries, ConditionType.SUSPENDED),
        dequeued_time=_left_at(entries, ConditionType.QUEUED),
    )


def _left_at(entries: Conditions, kind: ConditionType) -> datetime | None:
    """Since when this condition is False, if it was ever True."""
    condition = conditions.find(entries, kind)
    return condition.last_transition if condition and not condition.is_true else None


def _conditions(report: JobReport, stored_status: Body) -> list[dict[str, Any]]:
    """The list is written as a whole; those of others stand in it as they are stored."""
    theirs = iter(
        [entry for entry in objects_of(stored_status.get("conditions")) if text_of(entry, "type") not in _TYPES]
    )
    return [
        _write_condition(condition) if condition.type in _TYPES else dict(next(theirs))
        for condition in conditions.after(report, _read_conditions(stored_status))
    ]


def _replicas(report: JobReport, stored_counts: Body) -> dict[str, Any]:
    """The counts by type, beside types and fields of others."""
    counts: dict[str, Any] = {}
    for kind, replica in report.record.replicas.items():
        entry = object_of(stored_counts, kind)
        foreign = {name: value for name, value in entry.items() if name not in _COUNTS}
        counts[str(kind)] = _write_replica(report, kind, replica, entry=entry) | foreign
    return counts | {name: value for name, value in stored_counts.items() if name not in REPLICA_TYPES}


def _write_replica(report: JobReport, kind: ReplicaType, replica: ReplicaRecord, *, entry: Body) -> dict[str, Any]:
    if report.counts is None:  # nothing was counted
        counts = ReplicaCounts(*(count_of(entry, name) for name in ("active", "succeeded", "failed", "pending")))
    else:
        counts = report.counts.get(kind, ReplicaCounts())
    return present(
        active=counts.active,
        succeeded=counts.succeeded,
        failed=counts.failed,
        pending=counts.pending,
        **codec.write_replica(replica),
        selector=report.selectors.get(kind, ""),
    )


def _read_conditions(body: Body) -> Conditions:
    """Of each type of ours the last: nothing keeps others from storing one twice."""
    entries = [_read_condition(entry) for entry in objects_of(body.get("conditions"))]
    last = {condition.type: index for index, condition in enumerate(entries)}
    return tuple(
        condition
        for index, condition in enumerate(entries)
        if condition.type not in _TYPES or last[condition.type] == index
    )


def _read_condition(entry: Body) -> Condition:
    return Condition(
        type=text_of(entry, "type"),
        is_true=entry.get("status") == "True",
        reason=text_of(entry, "reason"),
        message=text_of(entry, "message"),
        last_update=parse_time(entry.get("lastUpdateTime")),
        last_transition=parse_time(entry.get("lastTransitionTime")),
    )


def _write_condition(condition: Condition) -> dict[str, Any]:
    return present(
        type=str(condition.type),
        status="True" if condition.is_true else "False",
        reason=condition.reason,
        message=condition.message,
        lastUpdateTime=write_time(condition.last_update),
        lastTransitionTime=write_time(condition.last_transition),
    )


def _with_new_names(body: Body) -> Body:
    """With the restart records of the first version under their names of today.

    This version removes them when it writes: if they are there, that version has run since, and its records are newer.
    """
    old = [dict(entry) for entry in objects_of(body.get("replicaAccounts"))]
    if not old:
        return body
    others = {name: value for name, value in body.items() if name != "compactRestartRecords"}
    return {**others, "restartRecords": [entry | {"inPlace": entry.get("counted")} for entry in old]}
