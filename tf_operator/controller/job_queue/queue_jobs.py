"""Jobs as they are stored, to jobs as the queue sees them.

A job is decoded once for each version of it. The pods of a job are those that it controls, in its own namespace: an
owner reference is text that anybody may write who creates a pod.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tf_operator.controller.caches import OWNER, owner_value
from tf_operator.controller.job_queue.projections import CachedPriorityClass, CountedPod
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming, templates
from tf_operator.job.progress import MOST_REMAINING
from tf_operator.job.record import JobPhase, PendingKind, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.job.validation import validate
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import parse_time, text_of
from tf_operator.planning import invalid_edits
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.job_queue import admission, shapes
from tf_operator.planning.job_queue.jobs import BoundPod, QueueJob, ReplicaNeed, priority_of
from tf_operator.planning.pods import avoided_nodes, pod_needs
from tf_operator.planning.snapshot import Settings, Snapshot
from tf_operator.projections.jobs import StoredJob, job_of

KEEPS_ROOM_FOR: Final = timedelta(minutes=5)
"""So long room is kept for pods that no scheduler places: their job may not fit for a reason that is not known here."""
_BEGINNING: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class JobSource:
    api: ServedAPI
    informer: Informer[StoredJob]


class QueuedEntry(NamedTuple):
    """A job as the queue sees it, and as its API does."""

    job: TrainingJob
    queue_job: QueueJob
    classes: tuple[str, ...] = ()
    """The priority classes that new pods get; empty for none."""

    @property
    def metadata(self) -> ObjectMeta:
        """Which version of which job it is."""
        return ObjectMeta(self.job.key.name, self.job.key.namespace, self.job.uid, self.job.resource_version)


class QueueJobs:
    """The jobs that wait for room, or have it."""

    def __init__(
        self,
        sources: tuple[JobSource, ...],
        pods: Store[CountedPod],
        priorities: Store[CachedPriorityClass],
        *,
        settings: Callable[[], Settings],
        resizes: bool,
        set_aside: SetAside,
    ) -> None:
        self._sources = sources
        self._pods = pods
        self._priorities = priorities
        self._settings = settings
        self._settings_then = settings()
        """With which the known jobs were read."""
        self._resizes = resizes
        self._set_aside = set_aside
        self._entries: dict[str, tuple[str, QueuedEntry | None]] = {}
        self._incomplete_since: dict[str, datetime] = {}

    def at(self, now: datetime) -> dict[str, tuple[JobSource, QueuedEntry]]:
        if self._settings_then is not (settings := self._settings()):
            self._entries, self._settings_then = {}, settings
        entries = {entry.queue_job.uid: (source, entry) for source in self._sources for entry in self._of(source, now)}
        there = {item.metadata.uid for source in self._sources for item in source.informer.store}
        self._entries = {uid: cached for uid, cached in self._entries.items() if uid in there}
        self._set_aside.keep(there)
        self._incomplete_since = {uid: since for uid, since in self._incomplete_since.items() if uid in entries}
        return entries

    def next_release(self, now: datetime) -> datetime | None:
        """When room is next not kept any more for pods that no scheduler places."""
        moments = (since + KEEPS_ROOM_FOR for since in self._incomplete_since.values())
        return min((moment for moment in moments if moment > now), default=None)

    def _of(self, source: JobSource, now: datetime) -> Iterator[QueuedEntry]:
        values = {item.metadata.name: item.value for item in self._priorities}
        default = next((item.value for item in self._priorities if item.is_default), 0)
        for stored in source.informer.store:
            if stored.summary.is_finished or not stored.summary.is_ours or self._set_aside.has(stored.metadata):
                continue
            try:
                entry = self._entry(stored, source.api, values, default, now)
            except MemoryError:
                raise  # nothing is wrong with the job
            except Exception as error:  # noqa: BLE001 (whatever it is, the other jobs must not suffer for it)
                self._set_aside.add(stored.metadata, error)
            else:
                if entry:
                    yield entry

    def _entry(
        self, stored: StoredJob, api: ServedAPI, values: Mapping[str, int], default: int, now: datetime
    ) -> QueuedEntry | None:
        uid, version = stored.metadata.uid, stored.metadata.resource_version
        if self._entries.get(uid, ("", None))[0] != version:
            self._entries[uid] = version, self._read(stored, api, now)
        entry = self._entries[uid][1]
        if entry is None:
            return None
        job, queue_job = entry.job, entry.queue_job
        pods = self._pods.by_index(OWNER, owner_value(job.key.namespace, job.uid)) if queue_job.is_admitted else ()
        # A template may have been edited since; what pods have was checked when they were created.
        classes = {pod.priority_class for pod in pods if pod.node} or entry.classes
        priority = priority_of(classes, values, default)
        queue_job = replace(queue_job, priority=priority) if priority else queue_job
        return entry._replace(
            queue_job=self._with_pods(job, queue_job, pods, now) if queue_job.is_admitted else queue_job
        )

    def _read(self, stored: StoredJob, api: ServedAPI, now: datetime) -> QueuedEntry | None:
        """``None`` for a job that neither waits nor has room: suspended, without pods, not seen by a reconcile."""
        requested = job_of(stored, api)
        record = requested.record
        waits = admission.waits(requested)
        if stored.problem or requested.is_being_deleted or requested.run_policy.is_suspended:
            return None
        if record.is_finished or (waits and record.phase is not JobPhase.QUEUED):
            return None
        snapshot = invalid_edits.ignored(Snapshot(requested, now, settings=self._settings_then))
        snapshot = snapshot.changed(job=snapshot.job.with_memory())
        snapshot = snapshot.changed(pods_digest=pod_needs.digest(snapshot.job))
        is_outgrown = admission.is_outgrown(snapshot)  # it is queued again as soon as it needs a pod
        if any(waits or not error.is_tolerated for error in validate(snapshot.job)):
            return None
        job = snapshot.decided().job
        workers = job.spec_of(ReplicaType.WORKER)
        counts = {spec.type for spec in (*requested.replicas, *job.replicas) if spec.count}
        specs = [spec for spec in job.replicas if spec.type in counts]
        if not specs or shapes.rules_of(map(templates.pod_of, specs)) > shapes.MOST_RULES:
            return None
        avoided = avoided_nodes.names(job, record.avoided_nodes)
        builder = ChildBuilder(job, self._settings_then, avoided)
        pods = {spec.type: builder.pod_spec(spec.type) for spec in specs}
        if avoided and shapes.rules_of(pods.values()) > shapes.MOST_RULES:
            builder = ChildBuilder(job, self._settings_then)  # the scheduler obeys them; here they would cost too much
            pods = {spec.type: builder.pod_spec(spec.type) for spec in specs}
        done = ((spec.type, len(record.of(spec.type).completed.below(spec.count))) for spec in specs)
        may_resize = self._resizes and not snapshot.ignored and not is_outgrown
        resizable = job.elastic if may_resize and job.elastic and not job.elastic.metrics else None
        saved = record.progress.checkpoint if record.progress else None
        queue_job = QueueJob(
            key=job.key,
            uid=job.uid,
            created=parse_time(stored.metadata.creation_timestamp) or _BEGINNING,
            needs=tuple(ReplicaNeed(spec.type, spec.count, shapes.shape_of(pods[spec.type])) for spec in specs),
            elastic=resizable.range_of(ReplicaType.WORKER) if resizable else None,
            workers=workers.count if workers else 0,
            requested_workers=0 if is_outgrown else _requested_workers(snapshot.job, is_resized=resizable is not None),
            requested_servers=0 if is_outgrown else _requested_servers(snapshot.job),
            completions=tuple(done),
            is_admitted=not waits,
            queued_time=record.queue.queued_time,
            admitted_time=record.queue.admitted_time,
            resized_time=record.elastic.resized_time,
            start_time=record.start_time,
            longest=_longest(job),
            checkpoint_time=saved.time if saved else None,
            node=record.queue.node,
            unfit=record.queue.unfit,
            is_reserved=not is_outgrown,
        )
        return QueuedEntry(requested, queue_job, tuple({text_of(pod, "priorityClassName") for pod in pods.values()}))

    def _with_pods(
        self, job: TrainingJob, queue_job: QueueJob, pods: tuple[CountedPod, ...], now: datetime
    ) -> QueueJob:
        counted = replace(queue_job, pods=tuple(_bound_pods(job, pods)))
        if not counted.unplaced:
            self._incomplete_since.pop(job.uid, None)
            return counted
        since = self._incomplete_since.setdefault(job.uid, now)
        pending = job.record.pending
        is_refused = pending is not None and pending.kind is PendingKind.REJECTED
        is_reserved = queue_job.is_reserved and not is_refused and now - since < KEEPS_ROOM_FOR
        return replace(counted, is_reserved=is_reserved)


def _bound_pods(job: TrainingJob, pods: tuple[CountedPod, ...]) -> Iterator[BoundPod]:
    for pod in pods:
        place = naming.replica_of(job.key.name, pod.metadata.name, job.profile.names) if pod.node else None
        if place:
            yield BoundPod(*place, pod.node, pod.requests)


def _requested_workers(job: TrainingJob, *, is_resized: bool) -> int:
    """How many workers the spec has, if the queue has not decided about this number before."""
    workers, record = job.spec_of(ReplicaType.WORKER), job.record
    is_decided = is_resized and workers and record.elastic.asked_for == workers.count
    is_news = workers and record.queue.admitted_workers is not None and not is_decided
    return workers.count if workers and is_news else 0


def _requested_servers(job: TrainingJob) -> int:
    """How many parameter servers the spec has, if there may be more of them than have room."""
    servers = job.spec_of(ReplicaType.PS)
    return servers.count if servers and job.record.queue.admitted_servers is not None else 0


def _longest(job: TrainingJob) -> timedelta | None:
    seconds = job.run_policy.deadline_seconds
    # It may be past the end of the calendar.
    return None if seconds is None else timedelta(seconds=min(seconds, MOST_REMAINING))
