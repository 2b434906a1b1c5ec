"""A controller without a process: its parts on a fake clock, an embedded API server, and stores that the test fills.

``sync`` brings the stores up to date with the apiserver; until then they lag behind, as caches do.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec

from support.embedded.embedded_api import EmbeddedApi
from support.fake_clock import FakeClock
from support.jobs.builders import TFJobBuilder
from support.resources import Json
from tf_operator.controller import resources
from tf_operator.controller.caches import OF_SERVICES, OWNER, Caches, owner_of, readers
from tf_operator.controller.debounce import Debounce
from tf_operator.controller.handlers import OnChild, OnJob, OnPod
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.metrics_hooks import JobInstruments
from tf_operator.controller.observe import Observer
from tf_operator.controller.reconciler import Reconciler
from tf_operator.controller.reporter import PlanReporter
from tf_operator.controller.writing.execute import Executor
from tf_operator.controller.writing.shares import Shares, Slots
from tf_operator.controller.writing.writes import Writer
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.cache.consistency import PendingWrites
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.events.event_object import Reference, Severity
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey, key_of, labels_of
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.snapshot import Settings
from tf_operator.projections.extras import extra_reader
from tf_operator.projections.jobs import DecodedJobs, phase_of, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tf_operator.projections.jobs import StoredJob
    from tf_operator.projections.pods import CachedPod

KEY = ObjectKey("ns", "j")
JOBS = v1.API.resource


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.about: list[Reference] = []

    def event(self, regarding: Reference, severity: Severity, *, reason: str, message: str) -> None:
        self.about.append(regarding)
        self.events.append((severity, reason, message))


def _counted(text: str) -> Any:  # noqa: ANN401 (it stands for methods of different types)
    def count(self: "Counts", namespace: str, *more: float | str, **labels: str) -> None:
        self.told.append(text.format(namespace, *more, **labels))

    return count


class Counts(JobInstruments):
    def __init__(self) -> None:
        self.told: list[str] = []

    created = _counted("created {}")
    succeeded = _counted("succeeded {}")
    failed = _counted("failed {} {}")
    restarted = _counted("restarted {} {replica_type} {reason}")
    deleted = _counted("deleted {}")
    resumed_behind = _counted("resumed behind {}")
    node_avoided = _counted("avoids {nodes} more in {}")
    memory_grown = _counted("more memory {} {replica_type}")
    used = _counted("used {} {} {:g}")
    lost = _counted("lost {} {} {:g}")
    backoff_exceeded = _counted("backoff {}")
    deadline_exceeded = _counted("deadline {}")
    time_to_running = _counted("running {} {:g}")
    duration = _counted("{outcome} after {1:g}")


@dataclass(slots=True)
class FakeInformer:
    """As much of an informer as passes read."""

    resource: Resource
    store: Store[Any]
    has_synced: bool = True
    lacking: bool = False
    is_absent: bool = False
    has_settled: bool = True

    def demand(self) -> None:
        """It is filled from the beginning."""

    def is_stale(self, namespace: str) -> bool:
        return self.lacking and namespace == KEY.namespace


class Harness:
    def __init__(
        self,
        job: TFJobBuilder | None = None,
        *,
        settings: Settings | None = None,
        api: ServedAPI = v1.API,
        world: EmbeddedApi | None = None,
    ) -> None:
        self.api = world or EmbeddedApi(FakeClock())
        self.clock = self.api.clock
        self.readers = readers(api, (api,))
        self.resource = api.resource
        self.recorder, self.counts = Recorder(), Counts()
        settings = settings or Settings()
        self.gang_scheduler = settings.gang_scheduler
        self.groups = resources.pod_groups(settings.gang_scheduler)
        self._watched = {profile.labels.operator_name for profile in api.profiles}
        self.jobs: Store[StoredJob] = Store()
        self._children: dict[Resource, tuple[Store[Any], Callable[[bytes], Any]]] = {
            resources.PODS: (Store({OWNER: owner_of}), self.readers.pod),
            resources.SERVICES: (Store(OF_SERVICES), self.readers.service),
            **{kind.resource: (Store({OWNER: owner_of}), extra_reader(kind, (api,))) for kind in kinds.ALL},
        }
        if self.groups:
            self._children[self.groups] = (Store({OWNER: owner_of}), self.readers.group)
        self.queue = RateLimitedQueue[ObjectKey](
            self.clock, ExponentialBackoff(base=1, cap=60), flow=attrgetter("namespace")
        )
        self.debounce = Debounce()
        self.caches = self._make_caches()
        self.decoded = DecodedJobs(api)
        self.notes = JobNotes(
            self.clock,
            lambda uid: phase_of(self.jobs.by_uid(uid)),
            lambda uid: self.decoded.found(self.jobs.by_uid(uid)),
        )
        self.notes.begin_term()
        self.pending_writes = PendingWrites(self.caches.views(), self.clock, uncached=resources.uncached())
        self.on_job = OnJob(self.queue, self.debounce, self.notes, self.pending_writes)
        self.on_child: OnChild[CachedPod] = OnChild(self.queue, self.debounce, self.jobs, self.notes, resources.PODS)
        self.on_pod = OnPod(self.on_child)
        self.executor = Executor(
            writer=Writer(self.api.client, self.pending_writes),
            shares=Shares(self.jobs, self.queue, self.clock, Slots()),
            notes=self.notes,
            api=api,
            jobs=api.resource,
            reporter=PlanReporter(
                api.resource, self.recorder, self.counts, api, lambda uid: spec_of(self.jobs.by_uid(uid))
            ),
        )
        observer = Observer(self.caches, self.notes, self.api.client, self.clock, self.decoded, lambda: settings)
        self.reconciler = Reconciler(
            observer, self.executor, self.pending_writes, self.notes, self.debounce, self.clock
        )
        if job is not None:
            self.create_job(job)

    def create_job(self, builder: TFJobBuilder, namespace: str = KEY.namespace) -> Json:
        self.api.make_namespace(namespace)
        stored = self.api.send(requests.create(JOBS, namespace, builder.body()))
        self.sync()
        return stored

    @property
    def job(self) -> Json:
        body = self.api.find(JOBS, KEY)
        assert body
        return body

    def edit_job(self, patch: Json) -> None:
        """Somebody changes the job; not yet shown to the controller."""
        self.api.send(requests.merge_patch(JOBS, KEY, patch))

    def set_pod(self, name: str, **status: object) -> None:
        """What a kubelet says of a pod; not yet shown to the controller."""
        key = ObjectKey(KEY.namespace, name)
        self.api.send(requests.merge_patch(resources.PODS, key, {"status": status}, subresource="status"))

    def sync(self) -> None:
        """Bring the stores up to date, and tell the handlers of pods that are gone."""
        self._fill(self.resource, self.jobs, self.readers.job)
        for resource, (store, read) in self._children.items():
            for gone in self._fill(resource, store, read):
                if resource == resources.PODS:
                    self.on_pod.on_delete(gone, final_state_known=True)

    async def reconcile(self, key: ObjectKey = KEY) -> float | None:
        """One reconcile; in how many seconds it wants the next."""
        return (await self.reconciler.reconcile(key)).after

    async def settle(self, passes: int = 20) -> None:
        """Pass and sync, with time going by, until nothing is written any more."""
        for _ in range(passes):
            calls = len(self.api.calls)
            wait = await self.reconcile()
            self.sync()
            if wait is not None and wait < 5:
                await self.clock.advance(max(wait, 0.01))
            elif len(self.api.calls) == calls:
                return
        raise AssertionError(f"it never came to rest: {self.api.calls[-10:]}")

    def _make_caches(self) -> Caches:
        informers = {resource: FakeInformer(resource, store) for resource, (store, _) in self._children.items()}
        return Caches(
            jobs=cast("Any", FakeInformer(self.resource, self.jobs)),
            pods=cast("Any", informers[resources.PODS]),
            services=cast("Any", informers[resources.SERVICES]),
            groups={self.gang_scheduler: cast("Any", informers[self.groups])} if self.groups else {},
            extras={kind: cast("Any", informers[kind.resource]) for kind in kinds.ALL},
            readers=self.readers,
        )

    def _fill(self, resource: Resource, store: Store[Any], read: "Callable[[bytes], Any]") -> list[Any]:
        """Read what is new of a resource; what is gone of it."""
        is_labelled = resource in {resources.PODS, resources.SERVICES}
        versions = {
            key_of(body): body
            for body in self.api.of(resource)
            if not is_labelled or labels_of(body).get(OPERATOR_LABEL) in self._watched
        }
        deletions = [item for item in store if item.metadata.key not in versions]
        for item in deletions:
            store.remove(item.metadata.key)
        for key, body in versions.items():
            stored = store.get(key)
            if stored is None or stored.metadata.resource_version != body["metadata"]["resourceVersion"]:
                store.put(read(msgspec.json.encode(body)))
        store.set_resource_version("", self.api.version)
        return deletions
