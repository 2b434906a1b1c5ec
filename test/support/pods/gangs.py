"""Simulated nodes for gangs, and what the history of a namespace says of how they were bound.

A node is an object without a kubelet; ``GangCluster`` plays it: a pod that was bound runs for a while and succeeds. The
pods are watched from the first revision on, so ``Binding`` has every change, in the order in which etcd has it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.api import RefusedError
from support.jobs.job_namespace import JobNamespace
from support.pods import pod_status
from support.pods.empty_nodes import empty_node
from support.resources import PODS, Json, Resource
from tf_operator.planning.bodies import gang_schedulers

_AT_A_TIME = 16


@dataclass
class Gang:
    """What has been seen of the pods of one job."""

    least: int
    bound: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    first_at: float = 0.0
    whole_at: float = 0.0

    @property
    def window(self) -> float:
        """Seconds from its first pod that was bound to the last of those that it needs."""
        return self.whole_at - self.first_at


class GangCluster:
    """Plays the nodes of one namespace, and takes down what the scheduler does."""

    def __init__(self, job_namespace: JobNamespace, scheduler: str, *, seconds: float) -> None:
        self.jobs = job_namespace
        self.scheduler = scheduler
        self.gangs: dict[str, Gang] = {}
        self.events: list[tuple[str, str]] = []
        """The jobs whose pods were bound or have ended, in the order in which the store has it."""
        self.most_bound = 0
        self.revisions = 0
        self._seconds = seconds
        self._tasks = asyncio.TaskGroup()
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._watching: asyncio.Task[None] | None = None
        self._uids: set[str] = set()
        self._holding: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._watching = self._tasks.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching:
            self._watching.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def nodes(self, *, room: int, a_node: int) -> AsyncIterator[None]:
        """Nodes for so many pods in all."""
        async with AsyncExitStack() as stack:
            for number, taken in enumerate(range(0, room, a_node)):
                name, pods = f"{self.jobs.namespace}-{number}", min(a_node, room - taken)
                await stack.enter_async_context(empty_node(self.jobs.admin, name, pods=pods))
            yield

    def unfinished(self) -> str:
        """The gangs that have not ended: how many of their pods were bound, and how many are there no more."""
        left = {
            job: f"{len(gang.bound)} of {gang.least} bound, {len(gang.ended)} ended"
            for job, gang in self.gangs.items()
            if len(gang.ended) < gang.least
        }
        return f"{len(self._holding)} pods hold a node; {left}"

    async def groups(self) -> list[Json]:
        """The PodGroups of the namespace, in the version that is served."""
        for name in gang_schedulers.versions(self.scheduler) or (self.scheduler,):
            scheduler = gang_schedulers.find(name)
            assert scheduler is not None
            path = Resource(scheduler.resource.group, scheduler.resource.version, "podgroups").path(self.jobs.namespace)
            if (listed := await self.jobs.admin.find(path)) is not None:
                groups: list[Json] = listed["items"]
                return groups
        raise AssertionError(f"no PodGroups of {self.scheduler} are served")

    def expect(self, job: str, least: int) -> None:
        """Judge the pods of this job as a gang."""
        self.gangs[job] = Gang(least)

    async def _watch(self) -> None:
        """Every change in its order: a watch that the server ends, because it is busy, goes on where it was."""
        path = PODS.path(self.jobs.namespace)
        since: dict[str, str] = {}
        while True:
            async with self.jobs.admin.watch(path, **since) as events:
                async for event in events:
                    self.revisions += 1
                    since = {"resourceVersion": event.body["metadata"]["resourceVersion"]}
                    self._on_pod(event.body, is_there=event.type != "DELETED")

    def _on_pod(self, pod: Json, *, is_there: bool) -> None:
        metadata = pod["metadata"]
        job = metadata["labels"]["training.kubeflow.org/job-name"]
        uid = metadata["uid"]
        is_bound, has_ended = bool(pod["spec"].get("nodeName")), pod["status"].get("phase") in {"Succeeded", "Failed"}
        if is_bound and is_there and not has_ended:
            self._holding.add(uid)
        else:
            self._holding.discard(uid)
        self.most_bound = max(self.most_bound, len(self._holding))
        self._judge(job, metadata["name"], is_bound=is_bound, has_ended=has_ended)
        if is_bound and uid not in self._uids:
            self._uids.add(uid)
            self._tasks.create_task(self._live(pod))
        elif is_bound and is_there and "deletionTimestamp" in metadata:
            self._tasks.create_task(self._end(pod))

    def _judge(self, job: str, name: str, *, is_bound: bool, has_ended: bool) -> None:
        gang, now = self.gangs.get(job), time.monotonic()
        if gang is None:
            return
        if has_ended and name not in gang.ended:
            gang.ended.add(name)
            self.events.append((job, "ended"))
        if is_bound and name not in gang.bound:
            gang.bound.add(name)
            self.events.append((job, "bound"))
            gang.first_at = gang.first_at or now
            if len(gang.bound) == gang.least:
                gang.whole_at = now

    async def _live(self, pod: Json) -> None:
        try:
            async with self._slots:
                pod = await self.jobs.kubelet.write(pod, pod_status.running)
            await asyncio.sleep(self._seconds)
            async with self._slots:
                await self.jobs.kubelet.write(pod, pod_status.finished)
        except RefusedError:
            if not await self.jobs.kubelet.is_gone(pod):
                raise

    async def _end(self, pod: Json) -> None:
        try:
            await self.jobs.kubelet.end(pod)
        except RefusedError:
            if not await self.jobs.kubelet.is_gone(pod):
                raise
