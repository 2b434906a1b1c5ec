"""From a key to the snapshot that planning decides from: out of the caches, or read live if the caches are behind.

A child counts as the job's when it is in the job's namespace and controlled by the job's UID;
whatever else carries its labels, or a name that the job needs, is somebody else's.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from tf_operator.controller import resources
from tf_operator.controller.caches import LABELLED, OWNER, Caches, owner_value
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.kueue import KueueCaches
from tf_operator.job import constants, naming
from tf_operator.job.training_job import FieldError, TrainingJob
from tf_operator.machinery.cache import pager
from tf_operator.machinery.cache.consistency import OwnerKey, PendingWrites
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import ObjectKey, selector_text
from tf_operator.planning.bodies import gang_schedulers
from tf_operator.planning.child_kinds.kind import ChildKind
from tf_operator.planning.snapshot import Cause, ChildState, Hearing, Pod, RejectedWrite, Settings, Snapshot
from tf_operator.projections import pod_events
from tf_operator.projections.children import Child
from tf_operator.projections.extras import CachedExtra
from tf_operator.projections.jobs import DecodedJobs, StoredJob
from tf_operator.projections.pod_groups import CachedGroup
from tf_operator.projections.pods import CachedPod
from tf_operator.projections.services import CachedService
from tf_operator.text import one_line

_log = Logger(__name__)

_FIRST_PAGE: Final = 100
"""Objects. A pod of a job of a thousand replicas is 50 kB, because of its TF_CONFIG: such a page is 5 MB."""
_EVENTS: Final = 100
"""Of one pod, those that are looked through."""

C = TypeVar("C")
CH = TypeVar("CH", bound=Child)


class _Children(NamedTuple):
    pods: Iterable[CachedPod]
    services: Iterable[CachedService]
    groups: Iterable[CachedGroup]
    are_groups_listed: bool = True
    """Whether ``groups`` is not just what was cached before PodGroups could not be listed."""


@dataclass(frozen=True, slots=True)
class Observer:
    caches: Caches
    notes: JobNotes
    client: ApiClient
    clock: Clock
    jobs: DecodedJobs
    settings: Callable[[], Settings]
    """What plans depend on at the moment."""
    kueue: KueueCaches | None = None
    """``None`` where jobs get no Workloads of Kueue from this operator."""

    def stored(self, key: ObjectKey) -> StoredJob | None:
        """The job that has this key now, as it is cached. Its spec is decoded later, because that is expensive."""
        return self.caches.jobs.store.get(key)

    def from_caches(self, stored: StoredJob) -> Snapshot:
        job = self._read(stored)
        owner = owner_value(job.key.namespace, job.uid)
        children = _Children(
            self.caches.pods.store.by_index(OWNER, owner),
            (
                *self.caches.services.store.by_index(OWNER, owner),
                *self.caches.services.store.by_index(LABELLED, owner),
            ),
            self._cached_groups(job, owner),
        )
        return self._snapshot_of(job, children, stored=stored)

    async def live(self, owner: OwnerKey, pending_writes: PendingWrites) -> Snapshot | None:
        """What the apiserver says of the job now; ``None`` when there is no job of this UID any more."""
        try:
            reply = await self.client.send(requests.get(self.caches.jobs.resource, owner.key))
            stored = self.caches.readers.job(reply)
        except errors.NotFound as refusal:
            if not refusal.is_about(owner.key.name):
                raise
            return None
        except msgspec.DecodeError as error:
            raise errors.Garbled(f"the reply is no {self.jobs.api.resource.kind}: {error}") from error
        job = self._read(stored)
        if job.uid != owner.uid:
            return None
        scope = Scope(owner.key.namespace, label_selector=selector_text(naming.job_labels(job)))
        version = stored.metadata.resource_version
        pending_writes.read_live(owner, str(self.caches.jobs.resource), version=version, uid=owner.uid)
        pods, version = await self._list(resources.PODS, scope, self.caches.readers.pod)
        pending_writes.read_live(owner, str(resources.PODS), version=version)
        services, version = await self._list(resources.SERVICES, scope, self.caches.readers.service)
        pending_writes.read_live(owner, str(resources.SERVICES), version=version)
        groups = await self._list_groups(job, pending_writes)
        cached = self._cached_groups(job, owner_value(owner.key.namespace, owner.uid))
        children = _Children(pods, services, cached if groups is None else groups, groups is not None)
        return self._snapshot_of(job, children, stored=stored)

    async def looked_for(self, snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
        """The snapshot with those of these pods that are there, read live by their names, if they are the job's."""
        pods = [pod for name in names if (pod := await self._pod(snapshot.job, name))]
        return snapshot.changed(pods=(*snapshot.pods, *pods), looked_for=snapshot.looked_for.union(names))

    async def asked_about(self, snapshot: Snapshot, pods: Sequence[Pod]) -> Snapshot:
        """The snapshot with what was last said about these pods. An operator that may not read events goes without."""
        warnings = {pod.uid: await self._last_warning(snapshot.job.key.namespace, pod) for pod in pods}
        return snapshot.changed(warnings={**snapshot.warnings, **warnings})

    async def _last_warning(self, namespace: str, pod: Pod) -> str:
        scope = Scope(namespace, field_selector=f"involvedObject.uid={pod.uid},type=Warning")
        try:
            answer = await self.client.send(requests.list_page(pod_events.EVENTS, scope, limit=_EVENTS))
            return pod_events.last_warning(responses.read_page(answer).items)
        except errors.ApiError as error:
            _log.info("the events of a pod cannot be read", cause=error.name, error=one_line(str(error)))
            return ""

    async def _pod(self, job: TrainingJob, name: str) -> Pod | None:
        try:
            raw = await self.client.send(requests.get(resources.PODS, ObjectKey(job.key.namespace, name)))
            read = self.caches.readers.any_pod(raw)
            is_watched = bool(self.caches.readers.pod(raw).owner)
        except errors.NotFound as refusal:
            if not refusal.is_about(name):
                raise
            return None
        except msgspec.DecodeError as error:
            raise errors.Garbled(f"the reply is not a pod: {error}") from error
        return read.pod.changed(is_unwatched=not is_watched) if read.pod and _is_child(read, job) else None

    def _gang_scheduler(self, job: TrainingJob) -> str:
        """The one that the job asks for, if it may, and it is installed; else the operator's."""
        requested = job.run_policy.scheduling.scheduler
        if requested == constants.NO_GANG_SCHEDULER:
            return ""
        return self._scheduler_on_offer(requested) or self.settings().gang_scheduler

    def _scheduler_on_offer(self, requested: str) -> str:
        if not requested:
            return ""
        name = next((name for name in self.caches.groups if gang_schedulers.is_meant(requested, name)), "")
        if not name:
            return ""
        self.caches.groups[name].demand()
        return "" if self.caches.groups[name].is_absent else name

    def _groups(self, job: TrainingJob) -> Informer[CachedGroup] | None:
        return self.caches.groups.get(self._gang_scheduler(job))

    async def _list_groups(self, job: TrainingJob, pending_writes: PendingWrites) -> Sequence[CachedGroup] | None:
        """The PodGroups of the namespace; ``None`` if they cannot be listed, which must not stop the whole job.

        What was written of them stays pending then, and nothing is created: the cached group may be out of date.
        """
        informer = self._groups(job)
        if informer is None:
            return ()
        resource, owner = informer.resource, OwnerKey(job.key, job.uid)
        try:
            groups, version = await self._list(resource, Scope(job.key.namespace), self.caches.readers.group)
        except errors.ApiError as error:
            _log.warning("the PodGroups cannot be listed", cause=error.name, error=one_line(str(error)))
            return None
        pending_writes.read_live(owner, str(resource), version=version)
        return groups

    async def _list(self, resource: Resource, scope: Scope, read: Callable[[msgspec.Raw], C]) -> tuple[list[C], str]:
        """All objects of a resource in a scope, as new as the request, and their version.

        What is kept of an object is read from its page, and only one page is there at a time.
        """
        objects: list[C] = []
        version = ""
        parts = pager.parts(self.client.stream_repeated, resource, scope, clock=self.clock, first=_FIRST_PAGE)
        async with aclosing(parts):
            async for part in parts:
                if part.is_first:
                    objects.clear()
                for raw in part.items:
                    try:
                        objects.append(read(raw))
                    except (msgspec.DecodeError, RecursionError) as error:
                        # As in the caches: one object that a tenant has made unreadable costs only itself.
                        text = one_line(str(error))
                        _log.warning("an object cannot be decoded", resource=str(resource), error=text)
                version = part.resource_version
        return objects, version

    def _cached_groups(self, job: TrainingJob, owner: str) -> Iterable[CachedGroup]:
        groups = self._groups(job)
        return groups.store.by_index(OWNER, owner) if groups else ()

    def _unserved(self, job: TrainingJob, *, is_listed: bool) -> RejectedWrite | None:
        """PodGroups are wanted, and cannot be read: nothing is created until they can."""
        groups = self._groups(job)
        if groups is None or (is_listed and groups.has_synced and not groups.is_stale(job.key.namespace)):
            return None
        message = f"{groups.resource} cannot be read; is the CRD of the gang scheduler installed?"
        if not groups.has_settled:
            message = f"{groups.resource} have not been read yet"
        resource = str(groups.resource)
        return RejectedWrite("its PodGroup", message, self.clock.now(), cause=Cause.NOT_SERVED, resource=resource)

    def _extra(self, kind: ChildKind, informer: Informer[CachedExtra] | None, job: TrainingJob) -> ChildState:
        """From the cache, also in a live read: that it lags costs a request that changes nothing."""
        if informer is None:
            return ChildState(unserved=kind.off, is_off=True)
        if not informer.has_settled:
            return ChildState(is_known=False)
        if informer.is_absent or not informer.has_synced or informer.is_stale(job.key.namespace):
            return ChildState(unserved=f"{informer.resource} cannot be read; is it installed, and may it be listed?")
        current = _own(informer.store.by_index(OWNER, owner_value(job.key.namespace, job.uid)), job)
        return ChildState(
            current.as_planned() if current else None, self.notes.rejections.get(job.uid, str(kind.resource))
        )

    def _hearing(self, job: TrainingJob, now: datetime) -> Hearing | None:
        seconds, reports = job.run_policy.progress.deadline_seconds, self.notes.progress_reports
        return None if seconds is None else reports.hearing(job.uid, now, seconds, job.record.progress_clock)

    def _read(self, stored: StoredJob) -> TrainingJob:
        job = self.jobs.of(stored)
        if not stored.problem:
            return job
        return structs.replace(job, problems=(FieldError("spec", f"cannot be read: {stored.problem}"),))

    def _snapshot_of(self, job: TrainingJob, children: _Children, *, stored: StoredJob) -> Snapshot:
        services = tuple(children.services)
        present = [child.pod for child in children.pods if child.pod is not None and _is_child(child, job)]
        uids = {pod.uid for pod in present}
        departed: list[Pod] = [pod for pod in self.notes.departed_pods.of(job.uid) if pod.uid not in uids]
        unserved, now = self._unserved(job, is_listed=children.are_groups_listed), self.clock.now()
        group = _own(children.groups, job)
        return Snapshot(
            job=job,
            now=now,
            pods=(*present, *departed),
            services=tuple(child.service for child in services if _is_child(child, job)),
            has_borrowed_labels=any(child.job_uid_label == job.uid and not _is_child(child, job) for child in services),
            pod_group=group.as_planned() if group else None,
            rejected=unserved or self.notes.rejections.get(job.uid),
            extras={kind: self._extra(kind, informer, job) for kind, informer in self.caches.extras.items()},
            kueue=self.kueue.of(job) if self.kueue else None,
            settings=self.settings(),
            offered_scheduler=self._scheduler_on_offer(job.run_policy.scheduling.scheduler),
            reported=self.notes.progress_reports.of(job.uid, now),
            hearing=self._hearing(job, now),
            status_time=stored.status_time(),
        )


def _own(children: Iterable[CH], job: TrainingJob) -> CH | None:
    """The child of a kind of which a job has one; of several always the same, that of its name above all."""
    ours = (child for child in children if _is_child(child, job))
    return min(ours, key=lambda child: (child.name != job.key.name, child.name), default=None)


def _is_child(child: Child, job: TrainingJob) -> bool:
    """Whether the job controls it: only what is in the job's own namespace can be its child."""
    return child.owner == job.uid and child.metadata.namespace == job.key.namespace
