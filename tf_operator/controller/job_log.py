"""What the log says of a job's life: one record for each condition that changes, written once it is stored.

The record of the end also says how long the job took, how often it was restarted, and what failed first. Which job it
is, is bound around it (``log_context``). The fields are a contract, as those of events and metrics are.
"""

from collections.abc import Iterator
from typing import Any, Final

from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.record import FailureCause, FirstFailure, JobPhase, JobRecord
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.log import Logger

_log = Logger(__name__)

_MOST_REPLICAS: Final = 8
_KINDS: Final = {
    JobPhase.RESTARTING: EventKind.RESTARTING,
    JobPhase.SUSPENDED: EventKind.SUSPENDED,
    JobPhase.SUCCEEDED: EventKind.SUCCEEDED,
}
"""Whose reason for events is that of the condition, too."""


def write(api: ServedAPI, report: JobReport | None) -> None:
    """Log the step from the record that was stored before to that of this report, if its condition is another one."""
    if report is None or report.record.phase is report.job.record.phase:
        return
    previous, after = report.job.record, report.record
    fields: dict[str, Any] = {"from": str(previous.phase), "to": str(after.phase), "reason": _reason(api, report)}
    if replicas := list(_replicas(report.job, previous, after)):
        more = [f"and {len(replicas) - _MOST_REPLICAS} more"] if len(replicas) > _MOST_REPLICAS else []
        fields["replica"] = ", ".join(replicas[:_MOST_REPLICAS] + more)
    if not after.is_finished:
        _log.info("job condition changed", **fields)
        return
    fields |= {"duration_seconds": _duration(after), "restarts": after.restarts, "disruptions": after.disruptions}
    if after.first_failure:
        fields["first_failure"] = _failure(after.first_failure)
    _log.info("job ended", **fields)


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
    fields = {"pod": failure.pod, "exit_code": failure.exit_code, "reason": failure.reason, "message": failure.message}
    return {name: value for name, value in fields.items() if value not in (None, "")}
