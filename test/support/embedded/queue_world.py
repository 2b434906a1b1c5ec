"""The job queue without a server: stores that a test fills, and a client that notes what it is asked to write."""

import asyncio
from typing import Any, Final, cast

import msgspec

from support.embedded.controller_harness import FakeInformer
from support.fake_clock import FakeClock
from support.jobs import builders
from support.jobs.builders import TFJobBuilder
from support.jobs.templates import Template
from support.resources import Json
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.job_queue import projections
from tf_operator.controller.job_queue.planner import QueuePlanner
from tf_operator.controller.job_queue.projections import CachedNode, CachedPriorityClass, CountedPod
from tf_operator.controller.job_queue.queue_jobs import JobSource, QueueJobs
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.controller.job_queue.usage import NodeUsage, OnNode
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.controller.resources import PODS
from tf_operator.dialects.kubeflow import v1
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue.jobs import Decision
from tf_operator.planning.job_queue.schedule import QueueRules
from tf_operator.planning.snapshot import Settings
from tf_operator.projections.jobs import StoredJob, job_reader

READ_POD: Final = projections.counted_pod_reader((v1.API,))
SLOT: Final = Template().resources(requests={"example.com/slot": "1"})
QUEUED: Final = [{"type": "Created", "status": "True"}, {"type": "Queued", "status": "True"}]
ADMITTED: Final = {"queuedTime": "2026-01-01T00:00:00Z", "admittedTime": "2026-01-01T00:00:00Z"}
RUNS: Final[Json] = {
    "conditions": [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}],
    "startTime": "2026-01-01T00:00:00Z",
    "queue": ADMITTED,
}
RUNS_WITH_TWO: Final[Json] = RUNS | {"queue": ADMITTED | {"admittedWorkers": 2}}
_READY: Final = {"type": "Ready", "status": "True"}


class Measured(QueueDecisions):
    """What is counted of what goes wrong."""

    def __init__(self) -> None:
        self.panics = self.left_out = self.decisions = self.length = 0

    def waiting(self, jobs: int) -> None:
        self.length = jobs

    def panicked(self) -> None:
        self.panics += 1

    def set_aside(self, jobs: int) -> None:
        self.left_out = jobs

    def decided(self, decision: Decision) -> None:
        self.decisions += 1


class QueueWorld:
    """A planner, its caches, and what it has written."""

    def __init__(self, **rules: Any) -> None:  # noqa: ANN401 (the fields of QueueRules)
        self.clock, self.usage, self.measured = FakeClock(), NodeUsage(), Measured()
        self.jobs = Store[StoredJob]()
        self.nodes = Store[CachedNode]()
        self.priorities = Store[CachedPriorityClass]()
        self.pods = Store[CountedPod]({OWNER: owner_of})
        self.settings = Settings(has_job_queue=True)
        self.written: list[tuple[str, str, Json]] = []
        self.fails: Exception | None = None
        self.refused: set[str] = set()
        source = JobSource(v1.API, cast("Any", FakeInformer(v1.RESOURCE, self.jobs)))
        set_aside = SetAside(self.clock, self.measured)
        self.planner = QueuePlanner(
            jobs=QueueJobs(
                (source,), self.pods, self.priorities, settings=lambda: self.settings, resizes=True, set_aside=set_aside
            ),
            nodes=cast("Any", FakeInformer(projections.NODES, self.nodes)),
            pods=cast("Any", FakeInformer(PODS, self.pods)),
            usage=self.usage,
            set_aside=set_aside,
            sources=(source,),
            client=cast("Any", self),
            clock=self.clock,
            rules=QueueRules(**rules),
            instruments=self.measured,
        )

    async def merge_patch(self, resource: Resource, key: ObjectKey, body: Json, *, subresource: str) -> None:
        if self.fails:
            raise self.fails
        if key.name in self.refused:
            raise errors.TooLarge(413, errors.Status())
        assert (resource, subresource) == (v1.RESOURCE, "status")
        self.written.append((key.name, body["metadata"]["resourceVersion"], body["status"]))

    def job(
        self,
        name: str = "j",
        workers: int = 2,
        *,
        version: str = "1",
        namespace: str = "ns",
        least: int = 1,
        policy: Json | None = None,
        **status: object,
    ) -> None:
        job = builders.tfjob(name).workers(workers, template=SLOT)
        job = job.elastic(least, 4, **policy or {}) if workers else job
        body = job.in_namespace(namespace).body()
        body["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": version, "generation": 1}
        body["metadata"]["creationTimestamp"] = "2025-12-31T00:00:00Z"
        stored = job_reader(v1.API)(msgspec.json.encode(body | {"status": {"conditions": QUEUED, **status}}))
        old = self.jobs.put(stored)
        self.planner.on_update(old, stored) if old else self.planner.on_add(stored)

    def waits(self, job: TFJobBuilder, *, day: int = 1, **status: object) -> None:
        """A job that came on this day; with a status, one that runs."""
        body = job.in_namespace("ns").body()
        name, created = body["metadata"]["name"], f"2025-01-{day:02}T00:00:00Z"
        body["metadata"] |= {"uid": name, "resourceVersion": "1", "creationTimestamp": created}
        self.jobs.put(job_reader(v1.API)(msgspec.json.encode(body | {"status": status or {"conditions": QUEUED}})))

    def priority(self, name: str, value: int) -> None:
        raw = {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "value": value}
        self.priorities.put(projections.read_priority_class(msgspec.json.encode(raw)))

    def node(self, slots: int, *, more: Json | None = None, **spec: object) -> None:
        allocatable = {"example.com/slot": f"{slots}", "pods": "9", **(more or {})}
        status = {"allocatable": allocatable, "conditions": [_READY]}
        raw = {"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "spec": spec, "status": status}
        node = projections.read_node(msgspec.json.encode(raw))
        handler, old = OnNode(self.usage), self.nodes.put(node)
        handler.on_update(old, node) if old else handler.on_add(node)

    def pod(self, name: str, *, node: str = "n", phase: str = "Running", owner: str = "", version: str = "1") -> None:
        pod = builders.pod(name).in_namespace("ns").body()
        pod["metadata"] |= {"uid": name, "resourceVersion": version}
        pod["metadata"]["labels"] = {"training.kubeflow.org/operator-name": "tfjob-controller"}
        reference = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": owner, "controller": True}
        pod["metadata"]["ownerReferences"] = [reference] if owner else []
        pod |= {"spec": {**SLOT.body()["spec"], "nodeName": node}, "status": {"phase": phase}}
        cached_pod = READ_POD(msgspec.json.encode(pod))
        old = self.pods.put(cached_pod)
        self.usage.on_update(old, cached_pod) if old else self.usage.on_add(cached_pod)

    async def pass_seconds(self, seconds: float = 3) -> None:
        task = asyncio.ensure_future(self.planner.run())
        await self.clock.advance(seconds)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
