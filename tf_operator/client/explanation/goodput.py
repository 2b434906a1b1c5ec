"""Goodput: the share of a job's running time that restarts have not cost. Shown, and stored nowhere."""

from datetime import datetime, timedelta
from typing import Final

from tf_operator.client import display
from tf_operator.client.job import Job

_SECOND: Final = timedelta(seconds=1)
_ONE_PERCENT: Final = 0.01


def cell(job: Job, now: datetime) -> str:
    """As in ``89 %``; empty where it is not known."""
    lost = _lost(job, now)
    return "" if lost is None else f"{100 - _percent(lost)} %"


def sentence(job: Job, now: datetime) -> str:
    """As in ``11 % of 6h was lost to 3 restarts``; empty where nothing was lost, or it is not known."""
    lost, record = _lost(job, now), job.spec.record
    if not lost:
        return ""
    share = "less than 1 %" if lost < _ONE_PERCENT else f"{_percent(lost)} %"
    restarts = record.restarts + record.disruptions
    cause = f"{restarts} restart{'' if restarts == 1 else 's'}" if restarts else "changes of its size"
    return f"{share} of {display.lasted(job.started, job.finished or now)} was lost to {cause}"


def _lost(job: Job, now: datetime) -> float | None:
    """The share that was lost; ``None`` unless its operator counts it.

    A job that is suspended or queued starts again later, and nobody knows how long it had run until then: what it had
    lost by then is no share of the time since.
    """
    record, start = job.spec.record, job.started
    if start is None or not (record.usage or record.lost_seconds):
        return None
    has_earlier_losses = any(entry.time and entry.time < start for entry in record.restart_records)
    seconds = ((job.finished or now) - start) / _SECOND
    is_share = 0 < seconds >= record.lost_seconds and not has_earlier_losses
    return record.lost_seconds / seconds if is_share else None


def _percent(lost: float) -> int:
    """Only of nothing 0, so that 100 % is the goodput of a job that has lost nothing."""
    return max(round(lost * 100), 1) if lost else 0
