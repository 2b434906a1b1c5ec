"""What the log says of a job's life: one record for each condition that changes, written once it is stored.

The record of the end also says how long the job took, how often it was restarted, and what failed first: where logs are
kept, that is the history of jobs. Which job it is, is bound around it (``log_context``). The fields are a contract, as
those of events and metrics are.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.record import FailureCause, FirstFailure, JobPhase, JobRecord
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.log import Logger
from tf_operator.meta import ObjectKey
from tf_operator.text import shortened

_log = Logger(__name__)

_MOST_REPLICAS: Final = 8
_MOST_BYTES: Final = 1000
"""Of the record of an end, so that stores of logs neither cut nor refuse it."""
_AROUND: Final = 340
"""Bytes that every record of a reconcile has, but for the name and the namespace of its job."""
_LONGEST_WORD: Final = 63
_DIGITS: Final = 16
_KINDS: Final = {
    JobPhase.RESTARTING: EventKind.RESTARTING,
    JobPhase.SUSPENDED: EventKind.SUSPENDED,
    JobPhase.SUCCEEDED: EventKind.SUCCEEDED,
}
"""Whose reason for events is that of the condition, too."""


SpecOf = Callable[[str], Mapping[str, Any]]
"""The spec of a job, by its UID."""


def write(api: ServedAPI, report: JobReport | None, spec_of: SpecOf | None) -> None:
    """Log the step from the record that was stored before to that of this report, if its condition is another one.

    Without ``spec_of`` the end of a job is such a step, and no record of its own.
    """
    if report is None or report.record.phase is report.job.record.phase:
        return
    previous, after = report.job.record, report.record
    fields: dict[str, Any] = {"from": str(previous.phase), "to": str(after.phase), "reason": _reason(api, report)}
    if replicas := list(_replicas(report.job, previous, after)):
        most = 1 if after.is_finished else _MOST_REPLICAS
        more = [f"and {len(replicas) - most} more"] if len(replicas) > most else []
        fields["replica"] = ", ".join(replicas[:most] + more)
    if spec_of is None or not after.is_finished:
        _log.info("job condition changed", **fields)
    else:
        _log.info("job ended", **ended(report.job.key, after, fields, spec_of(report.job.uid)))


def ended(key: ObjectKey, after: JobRecord, fields: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """These fields, and what is to be known of a job that has ended: 1 kB in all, whatever the job was."""
    fields |= {"spec_digest": digest(spec), "duration_seconds": _duration(after)}
    fields |= {"restarts": after.restarts, "disruptions": after.disruptions, "lost_seconds": after.lost_seconds}
    if after.usage:
        fields["usage"] = dict(after.usage)
    most = _MOST_BYTES - _AROUND - len(key.namespace) - len(key.name)
    if failure := after.first_failure:
        fields["first_failure"] = _failure(failure)
        if message := _cut(failure.message, most - _size(fields)):
            fields["first_failure"]["message"] = message
    if _size(fields) > most:
        fields.pop("usage", None)  # only by names of resources that somebody has made up
    return fields


def digest(spec: Mapping[str, Any]) -> str:
    """By which the same spec is found again: the first digits of ``jq -cSj .spec | sha256sum``."""
    return sha256(msgspec.json.encode(spec, order="sorted")).hexdigest()[:_DIGITS]


def _reason(api: ServedAPI, report: JobReport) -> str:
    phase = report.record.phase
    if phase is JobPhase.FAILED:
        return api.failure_reasons[report.record.failure or FailureCause.PERMANENT_FAILURE]
    if report.hold:
        return report.hold
    return api.event_reasons[_KINDS[phase]] if phase in _KINDS else f"{report.job.profile.kind}{phase}"


def _replicas(job: TrainingJob, previous: JobRecord, after: JobRecord) -> Iterator[str]:
    """The replicas that are given up in this step; at a failed end the one that failed first."""
    earlier = frozenset(previous.restart_records)
    words = job.profile.words
    yield from (f"{words.type(entry.type)}-{entry.index}" for entry in after.restart_records if entry not in earlier)
    if after.phase is JobPhase.FAILED and after.first_failure:
        place = naming.replica_of(job.key.name, after.first_failure.pod, job.profile.names)
        yield from (f"{words.type(place[0])}-{place[1]}",) if place else ()


def _duration(record: JobRecord) -> float | None:
    if record.start_time is None or record.completion_time is None:
        return None
    return max((record.completion_time - record.start_time).total_seconds(), 0.0)


def _failure(failure: FirstFailure) -> dict[str, object]:
    """But for its message, which may be long."""
    pod, reason = (shortened(text, _LONGEST_WORD) for text in (failure.pod, failure.reason))
    fields = {"pod": pod, "exit_code": failure.exit_code, "reason": reason}
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _cut(text: str, room: int) -> str:
    """As much of a text as takes no more bytes in a record than this."""
    while text and _size(text) > room:
        text = text[: len(text) * 3 // 4]
    return text


def _size(value: object) -> int:
    return len(json.dumps(value))
