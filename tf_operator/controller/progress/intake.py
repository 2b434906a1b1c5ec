"""Takes the reports of programs: each is checked against the caches, kept, and has its job reconciled in time.

On the operator's loop, for everybody who has a token: a job is decoded for its first report and after an edit, and not
for each report, so a large one costs no more than others.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from tf_operator.controller.caches import OWNER, owner_value
from tf_operator.controller.progress.reports import ProgressReports
from tf_operator.job.progress import Progress
from tf_operator.job.record import ReplicaType
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.meta import ObjectKey
from tf_operator.planning.snapshot import Pod
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


class _Reporter(NamedTuple):
    """Who reports about a job."""

    generation: int
    """Of the job."""
    place: tuple[ReplicaType, int] | None
    """``None`` for nobody."""
    container: str


@dataclass(frozen=True, slots=True)
class ProgressIntake:
    """Takes the reports about the jobs of one API."""

    jobs: Store[StoredJob]
    decoded: DecodedJobs
    pods: Store[CachedPod]
    queue: RateLimitedQueue[ObjectKey]
    reports: ProgressReports
    _reporters: dict[str, _Reporter] = field(default_factory=dict)
    """By the UID of a job."""

    def take(self, key: ObjectKey, owner: TokenOwner, report: Progress) -> Outcome:
        if not self.queue.accepts_keys:
            return Outcome.NOT_LEADING
        stored = self.jobs.get(key)
        if stored is None or not self._is_reporter(stored, owner):
            return Outcome.NOT_THE_REPORTER
        if stored.summary.is_finished:
            return Outcome.ENDED
        uid = stored.metadata.uid
        record = None if uid in self.reports else self.decoded.of(stored).record
        wait = self.reports.add(
            uid,
            report,
            record.progress if record else None,
            begins=record is not None and not record.progress_clock.has_reported,
            namespace=key.namespace,
            run=self._run(stored, owner),
        )
        if wait is not None:
            self.queue.add_debounced(key, wait)
        return Outcome.TAKEN

    def _run(self, stored: StoredJob, owner: TokenOwner) -> str:
        """Which run of the program reports: another pod, or another start of its container. Empty if there is no pod.

        The kubelet reports a start a moment late: until then, reports count for the run before (``Progress.after``).
        """
        pod = self._pod(stored, owner)
        if pod is None:
            return ""
        last = pod.decided_by(self._reporter(stored).container).last_termination
        ended = last.finished_at if last else None
        return f"{pod.uid}/{ended:%Y-%m-%dT%H:%M:%SZ}" if ended else pod.uid

    def _pod(self, stored: StoredJob, owner: TokenOwner) -> Pod | None:
        if owner.pod_uid:
            cached = self.pods.by_uid(owner.pod_uid)
            return cached.pod if cached else None
        job, place = stored.metadata, self._reporter(stored).place
        pods = [cached.pod for cached in self.pods.by_index(OWNER, owner_value(job.namespace, job.uid)) if cached.pod]
        return next((pod for pod in pods if pod.is_there and (pod.type, pod.index) == place), None)

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
        return (cached.pod.type, cached.pod.index) == self._reporter(stored).place

    def _reporter(self, stored: StoredJob) -> _Reporter:
        uid, generation = stored.metadata.uid, stored.metadata.generation
        reporter = self._reporters.get(uid)
        if reporter is None or reporter.generation != generation:
            job = self.decoded.of(stored)
            place = job.main_replica if job.profile.takes_reports else None
            reporter = self._reporters[uid] = _Reporter(generation, place, job.profile.container)
            if len(self._reporters) > MOST_REPORTERS:
                del self._reporters[next(iter(self._reporters))]
        return reporter
