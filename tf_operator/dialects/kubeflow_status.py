"""The status of a ``kubeflow.org/v1`` TFJob: to and from JSON.

Reading passes over what it does not understand, because a status may be older than this program, or newer.
Writing makes a merge patch of what differs and of nothing else: fields that others put into the status stay, and
a status that says the same already costs no write.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tf_operator.api.ranges import Indexes
from tf_operator.api.status import (
    Account,
    Condition,
    ConditionType,
    FirstFailure,
    JobStatus,
    ReplicaStatus,
    ReplicaType,
)
from tf_operator.dialects.fields import entries
from tf_operator.meta import Body, parse_time, rfc3339, text_of

_NOTHING: Body = {}


def read(found: object) -> JobStatus:
    """The status as it is stored, as far as it can be understood."""
    body = found if isinstance(found, Mapping) else _NOTHING
    replicas = _object(body, "replicaStatuses")
    return JobStatus(
        conditions=tuple(_read_condition(entry) for entry in entries(body.get("conditions"))),
        replicas={
            kind: _read_replica(replicas[kind]) for kind in ReplicaType if isinstance(replicas.get(kind), Mapping)
        },
        start_time=parse_time(body.get("startTime")),
        completion_time=parse_time(body.get("completionTime")),
        all_running_time=parse_time(body.get("allRunningTime")),
        observed_generation=_count(body, "observedGeneration"),
        ready=text_of(body, "ready"),
        restarts=_count(body, "restarts"),
        disruptions=_count(body, "disruptions"),
        first_failure=_read_failure(_object(body, "firstFailure")),
        accounts=tuple(account for entry in entries(body.get("replicaAccounts")) if (account := _read_account(entry))),
    )


def patch(old: JobStatus, new: JobStatus) -> dict[str, Any]:
    """The merge patch from one status to the other; empty when both say the same."""
    return _difference(_written(old), _written(new))


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386: what to merge into ``old``; ``None`` removes. Lists are replaced as a whole."""
    found: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if below := _difference(before, value):
                found[name] = below
        elif before != value:
            found[name] = value
    return found


def _written(status: JobStatus) -> dict[str, Any]:
    """The status as JSON, without what says nothing."""
    failure = status.first_failure
    found = _present(
        conditions=[_write_condition(condition) for condition in status.conditions],
        replicaStatuses={str(kind): _write_replica(found) for kind, found in status.replicas.items()},
        startTime=_time(status.start_time),
        completionTime=_time(status.completion_time),
        allRunningTime=_time(status.all_running_time),
        observedGeneration=status.observed_generation,
        ready=status.ready,
        restarts=status.restarts,
        disruptions=status.disruptions,
        firstFailure=_write_failure(failure) if failure else None,
        replicaAccounts=[_write_account(account) for account in status.accounts],
    )
    # Also when it is empty, so that no patch takes the map away: others may have types of their own in it.
    found.setdefault("replicaStatuses", {})
    return found


def _read_condition(entry: Body) -> Condition:
    kind = text_of(entry, "type")
    return Condition(
        type=kind,
        is_true=entry.get("status") == "True",
        reason=text_of(entry, "reason"),
        message=text_of(entry, "message"),
        last_update=parse_time(entry.get("lastUpdateTime")),
        last_transition=parse_time(entry.get("lastTransitionTime")),
        stored=None if kind in set(ConditionType) else entry,
    )


def _write_condition(condition: Condition) -> dict[str, Any]:
    if condition.stored is not None:
        return dict(condition.stored)
    return _present(
        type=str(condition.type),
        status="True" if condition.is_true else "False",
        reason=condition.reason,
        message=condition.message,
        lastUpdateTime=_time(condition.last_update),
        lastTransitionTime=_time(condition.last_transition),
    )


def _read_replica(entry: Body) -> ReplicaStatus:
    return ReplicaStatus(
        active=_count(entry, "active"),
        succeeded=_count(entry, "succeeded"),
        failed=_count(entry, "failed"),
        pending=_count(entry, "pending"),
        restarts=_count(entry, "restarts"),
        completed=Indexes.parse(entry.get("completedIndexes")),
        started=Indexes.parse(entry.get("startedIndexes")),
        selector=text_of(entry, "selector"),
    )


def _write_replica(status: ReplicaStatus) -> dict[str, Any]:
    return _present(
        active=status.active,
        succeeded=status.succeeded,
        failed=status.failed,
        pending=status.pending,
        restarts=status.restarts,
        completedIndexes=str(status.completed),
        startedIndexes=str(status.started),
        selector=status.selector,
    )


def _read_account(entry: Body) -> Account | None:
    """One account; ``None`` for an entry that names no replica."""
    kind, _, index = text_of(entry, "replica").rpartition("-")
    indexes = list(Indexes.parse(index))
    if kind not in set(ReplicaType) or len(indexes) != 1:
        return None
    return Account(
        type=ReplicaType(kind),
        index=indexes[0],
        uid=text_of(entry, "uid"),
        counted=_count(entry, "counted"),
        is_over=entry.get("replaced") is True,
        attempts=_count(entry, "attempts"),
        at=parse_time(entry.get("time")),
    )


def _write_account(account: Account) -> dict[str, Any]:
    return _present(
        replica=f"{account.type}-{account.index}",
        uid=account.uid,
        counted=account.counted,
        replaced=account.is_over,
        attempts=account.attempts,
        time=_time(account.at),
    )


def _read_failure(entry: Body) -> FirstFailure | None:
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


def _write_failure(failure: FirstFailure) -> dict[str, Any]:
    found = _present(
        pod=failure.pod,
        container=failure.container,
        reason=failure.reason,
        message=failure.message,
        time=_time(failure.time),
    )
    return found if failure.exit_code is None else found | {"exitCode": failure.exit_code}


def _object(body: Body, name: str) -> Body:
    found = body.get(name)
    return found if isinstance(found, Mapping) else _NOTHING


def _count(body: Body, name: str) -> int:
    found = body.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


def _present(**fields: object) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", 0, False, [], {})}
