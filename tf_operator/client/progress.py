"""How far a job is, as its program reports it, in words."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tf_operator.client import display
from tf_operator.client.job import Job
from tf_operator.planning.pods import grace_period
from tf_operator.text import printable

_WIDTH: Final = 30
_MOST_METRICS: Final = 4


def cells(job: Job) -> tuple[str, str]:
    """The percentage and the time that is left, for a table; a job that has ended has no time left."""
    report = job.spec.record.progress
    percentage = f"{report.percentage} %" if report and report.percentage is not None else "-"
    left = report.remaining if report and not job.is_finished else None
    return percentage, "-" if left is None else display.duration(timedelta(seconds=left))


def sentences(job: Job, now: datetime) -> Iterator[str]:
    """Whether the program hangs; when it last reported, and what."""
    report = job.spec.record.progress
    if job.spec.record.progress_clock.is_hung:
        seconds = job.spec.run_policy.progress.deadline_seconds
        yield f"no progress for more than {seconds} s (progressPolicy.deadlineSeconds)"
    if report and (content := line(job)):
        yield f"last report {display.age(report.time, now)} ago: {content}"
    if report and report.checkpoint:
        path = f", in {printable(report.checkpoint.path)}" if report.checkpoint.path else ""
        yield f"last checkpoint: {checkpoint(job, now)}{path}"
    if report and report.resumed_from is not None:
        yield f"it resumed from step {report.resumed_from}"
    if problem := grace_period.too_short(job.spec, report):
        yield problem


def checkpoint(job: Job, now: datetime) -> str:
    """The last one, as in ``step 3400, 4m ago``; empty without one."""
    report = job.spec.record.progress
    if report is None or report.checkpoint is None:
        return ""
    step, time, _ = report.checkpoint
    return f"step {step}, {display.age(time, now)} ago" if time else f"step {step}"


def line(job: Job) -> str:
    """What was reported, as in ``34 %, about 2h left; step 3400, loss 0.21``; empty where nothing was."""
    report = job.spec.record.progress
    if report is None:
        return ""
    percentage, left = cells(job)
    times = (percentage, f"about {left} left" if left != "-" else "")
    steps = (f"step {report.step}" if report.step is not None else "",)
    metrics = (f"{metric.name} {metric.value}" for metric in report.metrics[:_MOST_METRICS])
    parts = (", ".join(part for part in group if part not in {"", "-"}) for group in (times, (*steps, *metrics)))
    return "; ".join(filter(None, parts))


def bar(job: Job) -> str:
    """The percentage as a bar; empty without one."""
    report = job.spec.record.progress
    if report is None or report.percentage is None:
        return ""
    done = report.percentage * _WIDTH // 100
    return f"{'█' * done}{'░' * (_WIDTH - done)} "
