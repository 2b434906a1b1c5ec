"""Takes the reports of programs: each is checked against the caches, kept, and has its job reconciled in time.

On the operator's loop, for everybody who has a token: a job is decoded for its first report and after an edit, and not
for each report, so a large one costs no more than others.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tf_operator.controller.progress.reports import ProgressReports
from tf_operator.job.progress import Progress
from tf_operator.job.record import ReplicaType
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.meta import ObjectKey
from tf_operator.projections.jobs import DecodedJobs, StoredJob
from tf_operator.projections.pods import CachedPod

MOST_REPORTERS: Final = 10_000
"""Jobs of which it is remembered who reports."""


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
    """Whose token comes with a report: a pod's, or, on a machine without a cluster, a job's."""

    job_uid: str = ""
    pod_uid: str = ""
    namespace: str = ""
    """Of the pod."""


@dataclass(frozen=True, slots=True)
class ProgressIntake:
    """Takes the reports about the jobs of one API."""

    jobs: Store[StoredJob]
    decoded: DecodedJobs
    pods: Store[CachedPod]
    queue: RateLimitedQueue[ObjectKey]
    reports: ProgressReports
    _reporters: dict[str, tuple[int, tuple[ReplicaType, int] | None]] = field(default_factory=dict)
    """By the UID of a job: a generation of it, and the replica that reports then; ``None`` for no reports."""

    def take(self, key: ObjectKey, owner: TokenOwner, report: Progress) -> Outcome:
        if not self.queue.accepts_keys:
            return Outcome.NOT_LEADING
        stored = self.jobs.get(key)
        if stored is None or not self._is_reporter(stored, owner):
            return Outcome.NOT_THE_REPORTER
        if stored.summary.is_finished:
            return Outcome.ENDED
        wait = self.reports.add(stored.metadata.uid, report, self._earlier(stored), namespace=key.namespace)
        if wait is not None:
            self.queue.add_debounced(key, wait)
        return Outcome.TAKEN

    def _earlier(self, stored: StoredJob) -> Progress | None:
        """What this run of a program has reported to the process that led before, as far as that was stored."""
        if stored.metadata.uid in self.reports:
            return None
        record = self.decoded.of(stored).record
        return record.progress if record.progress_clock.has_reported else None

    def _is_reporter(self, stored: StoredJob, owner: TokenOwner) -> bool:
        """Whether the token is the job's, or that of the pod of it that decides, which nobody has deleted."""
        job = stored.metadata
        if not owner.pod_uid:
            return owner.job_uid == job.uid
        cached = self.pods.by_uid(owner.pod_uid)
        if cached is None or cached.pod is None or not cached.pod.is_there or cached.owner != job.uid:
            return False
        if {owner.namespace, cached.metadata.namespace} != {job.namespace}:
            return False
        return (cached.pod.type, cached.pod.index) == self._reporter(stored)

    def _reporter(self, stored: StoredJob) -> tuple[ReplicaType, int] | None:
        uid, generation = stored.metadata.uid, stored.metadata.generation
        of_generation, reporter = self._reporters.get(uid, (None, None))
        if of_generation != generation:
            job = self.decoded.of(stored)
            reporter = job.main_replica if job.profile.takes_reports else None
            self._reporters[uid] = generation, reporter
            if len(self._reporters) > MOST_REPORTERS:
                del self._reporters[next(iter(self._reporters))]
        return reporter
