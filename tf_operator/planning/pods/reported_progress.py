"""When the progress that a program reports is stored: at its time, with whatever else is, and when the job ends."""

from datetime import datetime

from tf_operator.job.progress import Progress
from tf_operator.job.record import JobRecord
from tf_operator.planning.snapshot import Snapshot


def recorded(snapshot: Snapshot, record: JobRecord) -> JobRecord:
    """The record with what was reported last, if that may wait no longer."""
    report = snapshot.reported
    if report is None or report.due is None:
        return record
    is_written = record.is_finished or report.due <= snapshot.now
    return record.changed(progress=report.latest) if is_written else record


def waiting(snapshot: Snapshot, record: JobRecord) -> Progress | None:
    """What was reported and is not in the record yet."""
    report = snapshot.reported
    return report.latest if report and report.due and report.latest != record.progress else None


def due(snapshot: Snapshot, record: JobRecord) -> datetime | None:
    """When to reconcile again so that the last report is stored in time."""
    return snapshot.reported.due if snapshot.reported and waiting(snapshot, record) else None
