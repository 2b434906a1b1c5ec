"""The loop of the queue: look every second whether anything has changed, plan, and record the decisions.

A decision is a write to the status of its job, guarded by the version that was decided on. Reconciles act on what is
recorded, so whether this process lives on after the write makes no difference. The next plan waits until the caches
show all that was written, because it counts with it.

A job that makes a plan panic is left out of it, and named in the log (``set_aside``); the others get on. If that does
not help, planning is tried again each second, and ``stalled_seconds`` grows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from msgspec import structs

from tf_operator.controller.job_queue.projections import CachedNode, CountedPod
from tf_operator.controller.job_queue.queue_jobs import JobSource, QueuedEntry, QueueJobs
from tf_operator.controller.job_queue.set_aside import SetAside, find_culprit
from tf_operator.controller.job_queue.unrecorded import Unrecorded
from tf_operator.controller.job_queue.usage import NodeUsage
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.job.record import NOT_ELASTIC, ElasticRecord, JobPhase, QueueRecord, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.planning import whole_job
from tf_operator.planning.job_queue import admission
from tf_operator.planning.job_queue.jobs import Decision, FitNote, QueueJob, Resize, Schedule, left_alone
from tf_operator.planning.job_queue.schedule import Cluster, QueueRules, make_schedule
from tf_operator.planning.pods import pod_needs
from tf_operator.projections.jobs import StoredJob

_log = Logger(__name__)

PERIOD: Final = 1.0
_REST: Final = 10
"""So many times as long as the last plan took nothing is planned: however many jobs there are, others get on."""
MOST_CULPRITS: Final = 10
"""Jobs of one namespace that are looked for one by one in a plan; then all of that namespace are left out."""
SHOWN_WITHIN: Final = 30.0
"""Seconds after which a write that no cache shows is not waited for any more."""


@dataclass(slots=True)
class QueuePlanner:
    """Plans while this process leads."""

    jobs: QueueJobs
    nodes: Informer[CachedNode]
    pods: Informer[CountedPod]
    usage: NodeUsage
    set_aside: SetAside
    sources: tuple[JobSource, ...]
    client: ApiClient
    clock: Clock
    rules: QueueRules
    instruments: QueueDecisions
    period: float = PERIOD
    """Seconds between two looks."""
    _written: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Of each job of which the caches do not show the decision yet: the version decided on, and until when to wait."""
    _wake_at: datetime | None = None
    _retry_at: float | None = None
    """When the first job that was set aside is tried again, on the monotonic clock."""
    _due_since: float | None = None
    """Since when there should have been a plan, on the monotonic clock."""
    _kept_for: str = ""
    """The UID of the job for which room is kept."""
    _is_draining: bool = False
    _unrecorded: Unrecorded = field(init=False)

    def __post_init__(self) -> None:
        self._unrecorded = Unrecorded(self.clock)

    async def run(self) -> None:
        self._written.clear()
        self.usage.has_changed = True
        try:
            while True:
                began = self.clock.monotonic()
                if not self._is_draining and self._is_due():
                    self._due_since = began if self._due_since is None else self._due_since
                    await self._plan_or_go_on()
                took = self.clock.monotonic() - began
                await self.clock.sleep(max(self.period, took * _REST))
        finally:
            self._due_since = None  # who does not lead does not plan, and has no need to

    async def drain(self) -> None:
        """Decide nothing more. What is recorded is acted on by whoever leads next."""
        self._is_draining = True

    @property
    def stalled_seconds(self) -> float:
        """For how long there should have been a plan, and was none. Any thread may ask."""
        since = self._due_since
        return 0.0 if since is None else self.clock.monotonic() - since

    # --- The handler of jobs ---

    def on_add(self, item: StoredJob) -> None:  # noqa: ARG002 (the protocol of handlers)
        self.usage.has_changed = True

    def on_update(self, old: StoredJob, new: StoredJob) -> None:
        """It may wait, have ended, or ask for something else; the progress of one that runs changes nothing."""
        old_state, new_state = ((stored.summary.phase, stored.metadata.generation) for stored in (old, new))
        is_queued_again = new.summary.phase == JobPhase.QUEUED and old.status != new.status
        self.usage.has_changed = self.usage.has_changed or old_state != new_state or is_queued_again

    def on_delete(self, last: StoredJob, *, final_state_known: bool) -> None:  # noqa: ARG002 (the protocol of handlers)
        self.usage.has_changed = True

    # --- One plan ---

    def _is_due(self) -> bool:
        is_retry = self._retry_at is not None and self._retry_at <= self.clock.monotonic()
        return self.usage.has_changed or is_retry or (self._wake_at is not None and self._wake_at <= self.clock.now())

    async def _plan_or_go_on(self) -> None:
        try:
            await self._plan()
        except NotLeading:
            self.usage.has_changed = True  # the term is over; whoever leads next plans
        except Exception:  # noqa: BLE001 (whatever it is, jobs that have their room go on)
            self.usage.has_changed = True
            self.instruments.panicked()
            _log.exception("planning the job queue panicked; retrying")

    async def _plan(self) -> None:
        if not self._is_current():
            return
        self.usage.has_changed, now = False, self.clock.now()
        entries = self.jobs.at(now)
        nodes = tuple(self.usage.node(node) for node in self.nodes.store)
        self._unrecorded.keep(entries)
        restarting = {uid for uid, (_, entry) in entries.items() if whole_job.is_under_way(entry.job)}
        jobs = tuple(left_alone((entry.queue_job for _, entry in entries.values()), self._unrecorded.uids | restarting))
        schedule = await self._schedule(Cluster(now, nodes, jobs, self.rules), entries)
        moments = (schedule.wake_at, self.jobs.next_release(now))
        self._wake_at = min((moment for moment in moments if moment), default=None)
        retries = (self.set_aside.next_retry, self._unrecorded.next_retry)
        self._retry_at = min((moment for moment in retries if moment is not None), default=None)
        self.instruments.waiting(schedule.waiting)
        self._note_kept(schedule.kept_for)
        for decision in (*schedule.decisions, *schedule.notes):
            source, entry = entries[decision.job.uid]
            await self._record(decision, source, entry, now)
        # What follows from a decision is decided with it in view: it may be that no pod comes or goes because of it.
        self.usage.has_changed = self.usage.has_changed or bool(schedule.decisions)
        self._due_since = None

    def _note_kept(self, job: QueueJob | None) -> None:
        previous, self._kept_for = self._kept_for, job.uid if job else ""
        if job and job.uid != previous:
            _log.info("keeping room", job=str(job.key), priority=job.priority)

    async def _schedule(self, cluster: Cluster, entries: Mapping[str, tuple[JobSource, QueuedEntry]]) -> Schedule:
        """The schedule of those jobs that can be planned; raises if it is no job's fault that there is none."""
        culprits = Counter[str]()
        while True:
            try:
                return make_schedule(cluster)
            except Exception as error:
                culprit = await find_culprit(cluster, self.clock)
                if culprit is None:
                    raise
                namespace = culprit.key.namespace
                culprits[namespace] += 1
                left_out = {culprit.uid}
                if culprits[namespace] >= MOST_CULPRITS:
                    left_out = {job.uid for job in cluster.jobs if job.key.namespace == namespace}
                for uid in left_out:
                    self.set_aside.add(entries[uid][1].metadata, error)
                cluster = replace(cluster, jobs=tuple(job for job in cluster.jobs if job.uid not in left_out))

    def _is_current(self) -> bool:
        """Whether the caches show what was decided before, and can be read at all."""
        for uid, (version, until) in list(self._written.items()):
            is_shown = all(source.informer.store.version_of(uid) != version for source in self.sources)
            if is_shown or until <= self.clock.monotonic():
                del self._written[uid]
        return not (self._written or self.nodes.is_stale("") or self.pods.is_stale(""))

    async def _record(self, decision: Decision | FitNote, source: JobSource, entry: QueuedEntry, now: datetime) -> None:
        job = entry.job
        patch = source.api.decision_patch(job, *_decided_records(decision, job, now))
        body = {"metadata": {"resourceVersion": job.resource_version}, "status": patch}
        try:
            await self.client.merge_patch(source.informer.resource, job.key, body, subresource="status")
        except errors.ApiError as error:
            # The job has changed, or is gone; or nobody knows. The next plan sees what is so.
            self.usage.has_changed = True
            self._unrecorded.add(entry.metadata, error)
            _log.info("a decision was not recorded", job=str(job.key), cause=error.name, error=str(error))
            return
        self._unrecorded.remove(job.uid)
        self._written[job.uid] = job.resource_version, self.clock.monotonic() + SHOWN_WITHIN
        if isinstance(decision, FitNote):
            return
        self.instruments.decided(decision)
        _log.info("decided", job=str(job.key), workers=decision.workers, decision=type(decision).__name__)


def _decided_records(
    decision: Decision | FitNote, job: TrainingJob, now: datetime
) -> tuple[QueueRecord, ElasticRecord]:
    spec, queue, elastic = job.spec_of(ReplicaType.WORKER), job.record.queue, job.record.elastic
    spec_count = spec.count if spec else None
    if isinstance(decision, FitNote):
        return structs.replace(queue, unfit=decision.unfit), elastic
    if isinstance(decision, Resize):
        elastic = structs.replace(elastic, resized_time=elastic.resized_time if decision.is_as_asked else now)
        if decision.servers != decision.job.servers:
            queue = structs.replace(queue, admitted_servers=decision.servers)
        if decision.workers == decision.job.workers:
            return queue, elastic
        queue = structs.replace(queue, admitted_workers=decision.workers)
        return queue, structs.replace(elastic, workers=decision.workers, asked_for=spec_count)
    started = QueueRecord(queued_time=queue.queued_time or now, admitted_time=now, node=decision.node)
    queue = admission.with_room(started, job, pods=pod_needs.digest(job))
    if decision.workers == spec_count:
        return queue, NOT_ELASTIC
    admitted = None if queue.admitted_workers is None else decision.workers
    return structs.replace(queue, admitted_workers=admitted), ElasticRecord(decision.workers, spec_count)
