"""The operator of a cluster with the job queue: its real loop that decides, and its real reconciles, as small values.

What each of them does depends on what it reads, so it is done once for everything that it reads. Moments in a status
are relative to a now that stands still, and are rounded to the waits that the rules know.
"""

import json
from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import msgspec

from proof.queues import job_queue_objects as objects
from proof.queues.job_queue_bounds import CLASSES, QueueBound
from proof.queues.job_queue_objects import GONE, NOW, READY, JobState, Objects, PodState
from support.embedded.controller_harness import FakeInformer
from support.jobs.builders import merge
from support.resources import Json, Resource
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.job_queue import projections
from tf_operator.controller.job_queue.planner import QueuePlanner
from tf_operator.controller.job_queue.queue_jobs import JobSource, QueueJobs
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.controller.job_queue.usage import NodeUsage
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.controller.resources import PODS
from tf_operator.dialects.kubeflow import v1
from tf_operator.job import naming
from tf_operator.job.record import ReplicaType
from tf_operator.machinery.cache.store import Store
from tf_operator.meta import ObjectKey, rfc3339
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection
from tf_operator.planning.job_queue.schedule import QueueRules
from tf_operator.planning.plan import make_plan
from tf_operator.planning.pods import pod_needs
from tf_operator.planning.snapshot import Service, Settings, Snapshot
from tf_operator.projections.jobs import StoredJob, job_of

_BEFORE: Final = rfc3339(NOW - timedelta(hours=12))
"""When all that happened of which no rule counts the time."""
_NEVER: Final = timedelta(days=400)
SETTINGS: Final = Settings(
    has_job_queue=True, restart_delay=timedelta(0), report_pending_after=_NEVER, report_starting_after=_NEVER
)
GUARDED: Final = -1
"""Of a write that holds for the version that was decided on."""
FAR: Final = -1
"""Of moments that are not to come, or so late that other things happen first."""


class Picture(NamedTuple):
    """What the caches show."""

    jobs: tuple[Any, ...]
    pods: tuple[Any, ...]
    nodes: tuple[int, ...]


class Memory(NamedTuple):
    """What the loop of the queue knows beside the caches."""

    unplaced_for: tuple[int, ...]
    """For how long pods of a job have been on no node, in seconds."""
    unseen: int = -1
    """The job of which the caches do not show the decision yet."""


class Decisions(NamedTuple):
    """What a plan of the queue comes to."""

    statuses: tuple[tuple[int, int, int], ...]
    """Jobs, and the statuses that they are to have, in the order in which they are written; and the number of the patch
    of a write that is not guarded by what it was decided on."""
    wake: int
    """In how many seconds it is to be planned again, although nothing happens."""
    unplaced_for: tuple[int, ...]
    has_changed: bool
    """Whether it is to be planned again when the caches show what was decided."""
    panics: bool


class Reconcile(NamedTuple):
    """What a reconcile does."""

    status: int
    is_status_first: bool
    creates: tuple[int, ...]
    """The indexes of workers."""
    deletes: tuple[tuple[int, int], ...]
    """The index and the birth of pods."""


class _Clock:
    """Time stands still, and others get no turn."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, _: float) -> None:
        return None


class _Client:
    """Notes what is to be written."""

    def __init__(self) -> None:
        self.written: list[tuple[ObjectKey, Json]] = []
        """With the version that the job has to have, if it has to have one."""

    async def merge_patch(self, _: Resource, key: ObjectKey, body: Json, *, subresource: str) -> None:
        assert subresource == "status"
        self.written.append((key, body))


class _Measures(QueueDecisions):
    def __init__(self) -> None:
        self.panics = 0

    def panicked(self) -> None:
        self.panics += 1


class QueueOperator:
    """Keeps every status, plan and reconcile that it has met."""

    def __init__(self, bound: QueueBound) -> None:
        self.bound, self.objects = bound, Objects(bound)
        self.waits = {
            "queuedTime": tuple(wait for wait in (120, 300, 600, 3900, 7500) if wait <= bound.longest),
            "admittedTime": (60,),
            "resizedTime": (120, 300),
        }
        self.statuses: list[Json] = []
        self.patches: list[Json] = []
        self._numbers: dict[str, int] = {}
        self._entries: dict[str, Any] = {}
        self._plans: dict[Any, Decisions | None] = {}
        self._reconciles: dict[Any, Reconcile] = {}
        self._digests: dict[Any, str] = {}
        self._news: dict[Any, bool] = {}
        self._clock, self._client, self._measures = _Clock(), _Client(), _Measures()
        self._jobs: Store[StoredJob] = Store()
        self._planner = self._make_planner()
        self.status_number({})

    # --- Statuses

    def status_number(self, status: Json) -> int:
        """One number for statuses that are equal to the rules."""
        settled = self._settled(status, 0)
        text = json.dumps(settled, sort_keys=True)
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.statuses)
            self.statuses.append(settled)
        return number

    def waited(self, number: int, seconds: int) -> int:
        """The number of the same status when so much time has passed."""
        return self.status_number(self._settled(self.statuses[number], seconds))

    def next_waits(self, number: int) -> list[int]:
        """In how many seconds a moment of the status is as long ago as a rule waits for."""
        status = self.statuses[number]
        if "completionTime" in status:
            return []
        lefts = []
        for part in ("queue", "elastic"):
            for name, text in status.get(part, {}).items():
                if name in self.waits and text != _BEFORE:
                    age = int((NOW - datetime.fromisoformat(text)).total_seconds())
                    lefts += [wait - age for wait in self.waits[name] if wait > age][:1]
        return lefts

    def _settled(self, status: Json, seconds: int) -> Json:
        is_admitted = "admittedTime" in status.get("queue", {})

        def moment(name: str, text: str) -> str:
            waits = self.waits.get(name)
            if waits is None or text == _BEFORE or (name == "queuedTime" and is_admitted):
                return _BEFORE
            at = datetime.fromisoformat(text) - timedelta(seconds=seconds)
            return rfc3339(max(at, NOW - timedelta(seconds=waits[-1])))

        def settle(value: Any, name: str = "") -> Any:  # noqa: ANN401
            if isinstance(value, Mapping):
                return {key: settle(entry, key) for key, entry in value.items()}
            if isinstance(value, list):
                return [settle(entry) for entry in value]
            return moment(name, value) if isinstance(value, str) and name.lower().endswith("time") else value

        return dict(settle(status))

    # --- The loop of the queue

    def plan(self, picture: Picture, memory: Memory) -> Decisions | None:
        """What it decides; ``None`` if it waits for its caches."""
        key = (picture, memory)
        if key not in self._plans:
            self._plans[key] = self._plan(picture, memory)
        return self._plans[key]

    def _plan(self, picture: Picture, memory: Memory) -> Decisions | None:
        planner, jobs = self._planner, self._planner.jobs
        stored = [self.stored(job, JobState._make(value)) if value else None for job, value in enumerate(picture.jobs)]
        self._jobs = planner.sources[0].informer.store = Store()
        for item in filter(None, stored):
            self._jobs.put(item)
        nodes: Store[Any] = Store()
        for node, condition in enumerate(picture.nodes):
            if condition != GONE:
                nodes.put(objects.node(node, self.bound.slots[node], is_usable=condition == READY))
        planner.nodes.store = nodes
        usage = planner.usage = NodeUsage()
        pods: Store[Any] = Store({OWNER: owner_of})
        for value in picture.pods:
            counted = self.objects.pod(PodState._make(value))[0]
            pods.put(counted)
            usage.on_add(counted)
        planner.pods.store = jobs._pods = pods
        jobs._entries = {
            item.metadata.uid: self._entries[item.metadata.resource_version]
            for item in filter(None, stored)
            if item.metadata.resource_version in self._entries
        }
        jobs._incomplete_since = {
            item.metadata.uid: NOW - timedelta(seconds=age)
            for item, age in zip(stored, memory.unplaced_for, strict=True)
            if item and age >= 0
        }
        unseen = stored[memory.unseen] if memory.unseen >= 0 else None
        planner._written = {unseen.metadata.uid: (unseen.metadata.resource_version, 1.0)} if unseen else {}
        planner._wake_at, self._client.written, self._measures.panics = None, [], 0
        _run(planner._plan())
        if usage.has_changed and not self._client.written:
            return None
        self._entries |= {entry[0]: entry for entry in jobs._entries.values()}
        wake = self._wake_in()
        names = [item.metadata.name if item else "" for item in stored]
        decided = []
        for key, body in self._client.written:
            job = names.index(key.name)
            old = self.statuses[JobState._make(picture.jobs[job]).status]
            version = self.stored(job, JobState._make(picture.jobs[job])).metadata.resource_version
            is_guarded = body["metadata"].get("resourceVersion") == version
            decided.append((job, self.status_number(merge(old, body["status"])), self._unguarded(body, is_guarded)))
        since = jobs._incomplete_since
        ages = (
            int((NOW - since[item.metadata.uid]).total_seconds()) if item and item.metadata.uid in since else -1
            for item in stored
        )
        return Decisions(
            tuple(decided),
            wake if wake <= self.bound.longest else FAR,
            tuple(ages),
            has_changed=usage.has_changed,
            panics=self._measures.panics > 0,
        )

    def _unguarded(self, body: Json, is_guarded: bool) -> int:
        if is_guarded:
            return GUARDED
        self.patches.append(body["status"])
        return len(self.patches) - 1

    def _make_planner(self) -> QueuePlanner:
        source: Any = SimpleNamespace(api=v1.API, informer=FakeInformer(v1.RESOURCE, self._jobs))
        priorities: Store[Any] = Store()
        for name, value in CLASSES.items():
            raw = {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "value": value}
            priorities.put(projections.read_priority_class(msgspec.json.encode(raw)))
        set_aside = SetAside(self._clock, self._measures)  # type: ignore[arg-type]
        sources: tuple[JobSource, ...] = (source,)
        pods: Store[Any] = Store({OWNER: owner_of})
        jobs = QueueJobs(sources, pods, priorities, settings=lambda: SETTINGS, resizes=True, set_aside=set_aside)
        parts: Any = {
            "nodes": FakeInformer(projections.NODES, Store()),
            "pods": FakeInformer(PODS, pods),
            "client": self._client,
            "clock": self._clock,
        }
        rules = QueueRules() if self.bound.reserves else QueueRules(reserve_after=None)
        return QueuePlanner(
            jobs=jobs,
            usage=NodeUsage(),
            set_aside=set_aside,
            sources=sources,
            rules=rules,
            instruments=self._measures,
            **parts,
        )

    # --- Reconciles

    def reconcile(self, job: int, picture: Picture) -> Reconcile:
        """What the reconcile of a job does."""
        pods = tuple(pod for pod in picture.pods if pod[:2] == (job, picture.jobs[job][0]))
        key = (job, picture.jobs[job], pods)
        if key not in self._reconciles:
            self._reconciles[key] = self._reconcile(job, JobState._make(picture.jobs[job]), pods)
        return self._reconciles[key]

    def _reconcile(self, number: int, state: JobState, pods: tuple[Any, ...]) -> Reconcile:
        job = job_of(self.stored(number, state), v1.API)
        states = [PodState._make(pod) for pod in pods]
        names = {naming.service_name(job, ReplicaType.WORKER, pod.ordinal) for pod in states}
        snapshot = Snapshot(
            job,
            NOW,
            pods=tuple(self.objects.pod(pod)[1] for pod in states),
            services=tuple(Service(name, name) for name in sorted(names)),
            settings=SETTINGS,
        )
        plan = make_plan(snapshot)
        while plan.looks_for:
            snapshot = snapshot.changed(looked_for=snapshot.looked_for.union(plan.looks_for))
            plan = make_plan(snapshot)
        patch = v1.API.status_patch(plan.report)
        status = self.status_number(merge(self.statuses[state.status], patch)) if patch else state.status
        births = {self.objects.pod(pod)[1].uid: (pod.ordinal, pod.birth) for pod in states}
        creates, deletes = list[int](), list[tuple[int, int]]()
        for action in plan.actions:
            creates += _creates(action, job.key.name)
            deletes += [births[uid] for uid in _deletes(action)]
        return Reconcile(status, plan.status_first, tuple(sorted(creates)), tuple(sorted(deletes)))

    def free_birth(self, job: int, status: int, ordinal: int, taken: set[int]) -> int:
        """The lowest number for a new pod that no other has, and that the status does not know."""
        text = json.dumps(self.statuses[status])
        birth = 1
        while birth in taken or f'"{objects.pod_uid(self.bound.jobs[job].name, ordinal, birth)}"' in text:
            birth += 1
        return birth

    def _wake_in(self) -> int:
        """In how many seconds it plans again if nothing happens."""
        moment = self._planner._wake_at
        return FAR if moment is None else int((moment - NOW).total_seconds())

    def stored(self, job: int, state: JobState) -> StoredJob:
        """A job as it is cached."""
        return self.objects.stored(job, state, self.statuses[state.status])

    def is_outgrown(self, job: int, state: JobState) -> bool:
        """Whether the pods ask for something else than the job was admitted with."""
        admitted = self.statuses[state.status].get("queue", {}).get("admittedPodsDigest")
        key = (job, state.spec)
        if key not in self._digests:
            self._digests[key] = pod_needs.digest(job_of(self.stored(job, state), v1.API))
        return admitted not in {None, self._digests[key]}

    def is_news(self, job: int, old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
        """Whether the queue plans again because of this change of a job."""
        key = (job, old, new)
        if key not in self._news:
            planner = self._planner
            planner.usage.has_changed = False
            one, two = (self.stored(job, JobState._make(value)) if value else None for value in (old, new))
            if one and two and old[0] == new[0]:
                planner.on_update(one, two)
            elif one:
                planner.on_delete(one, final_state_known=True)
            elif two:
                planner.on_add(two)
            self._news[key] = planner.usage.has_changed
        return self._news[key]


def _run(coroutine: Awaitable[None]) -> None:
    """Run what waits for nothing."""
    steps = coroutine.__await__()
    try:
        next(steps)
    except StopIteration:
        return
    raise AssertionError("the queue waits for something that this world does not have")


def _creates(action: Action, job: str) -> list[int]:
    if not isinstance(action, Create):
        return []
    names = [child.name for child in action.in_order() if child.resource == PODS]
    return [int(name.removeprefix(f"{job}-worker-")) for name in names]


def _deletes(action: Action) -> list[str]:
    match action:
        case Delete() if action.resource == PODS:
            return [action.uid]
        case DeleteCollection() if action.resource == PODS:
            return [entry.uid for entry in action.objects]
    return []
