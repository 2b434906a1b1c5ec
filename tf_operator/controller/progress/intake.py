"""Takes the reports of programs: each is checked against the caches, kept, and has its job reconciled in time."""

from dataclasses import dataclass
from enum import Enum, auto

from tf_operator.controller.progress.reports import ProgressReports
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.progress import Progress
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.meta import ObjectKey
from tf_operator.projections.jobs import StoredJob, job_of
from tf_operator.projections.pods import CachedPod


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

    api: ServedAPI
    jobs: Store[StoredJob]
    pods: Store[CachedPod]
    queue: RateLimitedQueue[ObjectKey]
    reports: ProgressReports

    def take(self, key: ObjectKey, owner: TokenOwner, report: Progress) -> Outcome:
        if not self.queue.accepts_keys:
            return Outcome.NOT_LEADING
        stored = self.jobs.get(key)
        job = job_of(stored, self.api) if stored else None
        if job is None or not self._is_reporter(job, owner):
            return Outcome.NOT_THE_REPORTER
        if job.record.is_finished:
            return Outcome.ENDED
        wait = self.reports.add(job.uid, report)
        if wait is not None:
            self.queue.add_debounced(key, wait)
        return Outcome.TAKEN

    def _is_reporter(self, job: TrainingJob, owner: TokenOwner) -> bool:
        """Whether the token is the job's, or that of the pod of it that decides, which nobody has deleted."""
        if not owner.pod_uid:
            return owner.job_uid == job.uid
        cached = self.pods.by_uid(owner.pod_uid)
        if cached is None or cached.pod is None or not cached.pod.is_there:
            return False
        namespaces = {owner.namespace, cached.metadata.namespace, job.key.namespace}
        is_deciding = (cached.pod.type, cached.pod.index) == job.main_replica
        return cached.owner == job.uid and len(namespaces) == 1 and is_deciding and job.profile.takes_reports
