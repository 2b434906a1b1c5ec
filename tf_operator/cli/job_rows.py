"""Jobs printed again and again: each when something that is shown has changed, in columns that stay where they are."""

from collections.abc import Iterator
from datetime import datetime

from tf_operator.cli import output
from tf_operator.client import Job, progress


class JobRows:
    """The rows of a table that grows, or whole objects."""

    def __init__(self, form: str | None, *, shows_namespace: bool) -> None:
        self._form = form
        self._shows_namespace = shows_namespace
        self._jobs = dict[str, Job]()
        self._columns: list[str] = []

    def lines(self, job: Job, *, now: datetime) -> Iterator[str]:
        """What there is to print of a job that may have changed."""
        last = self._jobs.get(job.uid)
        self._jobs[job.uid] = job
        if self._form in {"json", "yaml"}:
            yield ("---\n" if self._form == "yaml" else "") + output.document(job.body, self._form)
        elif self._form == "name":
            yield f"{output.reference(job)}\n"
        elif last is None or self._cells(last) != self._cells(job):
            # The table of all, so that its columns are as wide as the widest so far; of it, the row of this one.
            header, *rows = output.job_table(
                list(self._jobs.values()), now=now, shows_namespace=self._shows_namespace, is_wide=self._form == "wide"
            )
            if header.split() != self._columns:  # the first, or there are more columns now
                yield header
            self._columns = header.split()
            yield rows[list(self._jobs).index(job.uid)]

    def forget(self, job: Job) -> None:
        self._jobs.pop(job.uid, None)

    def _cells(self, job: Job) -> tuple[object, ...]:
        """What is shown of a job, but for times, which go on by themselves."""
        report = job.spec.record.progress
        cells = (job.phase, job.ready, job.restarts, *progress.cells(job)[:1])
        wide = (job.spec.record.attempt, report.checkpoint if report else None, job.message)
        return (*cells, *wide) if self._form == "wide" else cells
