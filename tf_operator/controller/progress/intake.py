"""Takes the reports of programs: each is checked against the caches, kept, and has its job reconciled in time."""

from dataclasses import dataclass
from enum import Enum, auto

from tf_operator.controller.progress.reports import ProgressReports
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.progress import Progress
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.meta import ObjectKey
from tf_operator.projections.jobs import StoredJob, job_of


class Outcome(Enum):
    """What became of a report."""

    TAKEN = auto()
    NOT_LEADING = auto()
    """Another process has to have it."""
    NOT_THE_REPORTER = auto()
    """There is no such job, or its reports are somebody else's."""
    ENDED = auto()
    """The job has succeeded or failed."""


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Who sends a report, as the token says."""

    job_uid: str


@dataclass(frozen=True, slots=True)
class ProgressIntake:
    """Takes the reports about the jobs of one API."""

    api: ServedAPI
    jobs: Store[StoredJob]
    queue: RateLimitedQueue[ObjectKey]
    reports: ProgressReports

    def take(self, key: ObjectKey, reporter: TokenOwner, report: Progress) -> Outcome:
        if not self.queue.accepts_keys:
            return Outcome.NOT_LEADING
        stored = self.jobs.get(key)
        if stored is None or stored.metadata.uid != reporter.job_uid:
            return Outcome.NOT_THE_REPORTER
        if job_of(stored, self.api).record.is_finished:
            return Outcome.ENDED
        wait = self.reports.add(stored.metadata.uid, report)
        if wait is not None:
            self.queue.add_debounced(key, wait)
        return Outcome.TAKEN
