"""When the progress that a program reports is stored: at its time, with whatever else is, and when the job ends."""

from datetime import datetime

from tf_operator.job.progress import Progress
from tf_operator.job.record import JobRecord
from tf_operator.planning.snapshot import Snapshot


def recorded(snapshot: Snapshot, record: JobRecord) -> JobRecord:
    """The record with what was reported last, if that may wait no longer."""
    reported = snapshot.reported
    if reported is None or reported.due is None:
        return record
    is_written = record.is_finished or reported.due <= snapshot.now
    return record.changed(progress=reported.latest) if is_written else record


def waiting(snapshot: Snapshot, record: JobRecord) -> Progress | None:
    """What was reported and is not in the record yet."""
    reported = snapshot.reported
    return reported.latest if reported and reported.due and reported.latest != record.progress else None


def due(snapshot: Snapshot, record: JobRecord) -> datetime | None:
    """When to reconcile again so that the last report is stored in time."""
    return snapshot.reported.due if snapshot.reported and waiting(snapshot, record) else None
