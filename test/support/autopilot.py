"""The kubelet's auto mode: every new pod of a namespace takes its course by itself.

    async with autopilot(kubelet, script) as pilot:
        ...                       # create jobs; their pods run, fail and succeed by the script
        await pilot.wait_idle()   # every course that was begun is over

One watch for the whole namespace, one request for each step, a bounded number at a time: thousands of pods
cost a task each and little else. A pod that is deleted leaves its course; if it was bound to a node its
containers end by SIGTERM and it goes, as under a kubelet, and one held by a finalizer stays. Pods that were
past Pending when the pilot came are not touched. A step that the apiserver refuses ends the test, unless
its pod is gone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import aiohttp

from support import pod_status
from support.api import RefusedError, WatchEvent
from support.kubelet import Kubelet
from support.pod_scripts import Course, Script
from support.pod_status import killed_by
from support.resources import PODS, Json

_T = TypeVar("_T")
_OVER = {"Succeeded", "Failed"}
_SIGTERM = 15
# While an apiserver restarts it cannot be reached, then says one of these; what was asked is asked again.
# For a moment it also forbids everything, until it has read the roles. 410 is no failure but wants a list.
_UNREACHABLE = (aiohttp.ClientError, TimeoutError)
_PASSING = {410, 429, 500, 503, 504}
_START_SECONDS = 30.0
_PAUSE = 0.2


def _ended_by_sigterm(pod: Json, now: str) -> Json:
    return pod_status.finished(pod, now, killed_by(_SIGTERM))


@asynccontextmanager
async def autopilot(
    kubelet: Kubelet, script: Script, *, at_a_time: int = 32, watch_seconds: int = 300
) -> AsyncIterator["Autopilot"]:
    """Drive the pods of the kubelet's namespace while the body runs; a course that fails cancels the body."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        pilot = Autopilot(kubelet, script, tasks, at_a_time=at_a_time, watch_seconds=watch_seconds)
        pilot.take_off()
        try:
            yield pilot
        except Exception as error:  # noqa: BLE001  # raised below: a TaskGroup would wrap it
            failure = error
        pilot.land()
    if failure:
        raise failure


class Autopilot:
    """Which pods are on which course; made by ``autopilot``."""

    def __init__(
        self, kubelet: Kubelet, script: Script, tasks: asyncio.TaskGroup, *, at_a_time: int, watch_seconds: int
    ) -> None:
        self._kubelet = kubelet
        self._script = script
        self._tasks = tasks
        self._slots = asyncio.Semaphore(at_a_time)
        self._watch_seconds = str(watch_seconds)
        self._work: set[asyncio.Task[None]] = set()
        self._known: set[str] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._incarnations: Counter[str] = Counter()
        self._courses: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._away_at = -_START_SECONDS
        self.completed: Counter[str] = Counter()
        """How many courses were taken to their end, by the name of the pod."""

    async def wait_idle(self, *, within: float = 30.0) -> None:
        """Wait until every pod that exists at this moment was taken up, and no pod is on a course."""
        async with asyncio.timeout(within):
            pods = await self._insist(lambda: self._kubelet.api.list(PODS.path(self._kubelet.namespace)))
            present = {pod["metadata"]["uid"] for pod in pods}
            while self._courses or not present <= self._known:
                self._changed.clear()
                await self._changed.wait()

    def take_off(self) -> None:
        """Begin to follow the namespace."""
        self._flight = self._spawn(self._fly())

    def land(self) -> None:
        for task in self._work:
            task.cancel()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._tasks.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _fly(self) -> None:
        while True:
            try:
                await self._follow(await self._take_stock())
            except (*_UNREACHABLE, RefusedError) as failure:
                await self._pause_after(failure)

    async def _take_stock(self) -> str:
        """List: take up what is new, drop what vanished while nobody watched."""
        page = await self._kubelet.api.get(PODS.path(self._kubelet.namespace))
        present = {pod["metadata"]["uid"] for pod in page["items"]}
        for uid in self._courses.keys() - present:
            self._drop(uid)
        for pod in page["items"]:
            self._on_pod(pod)
        return str(page["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> None:
        """Watch, and watch again where a watch ended, until the apiserver wants a new list."""
        path = PODS.path(self._kubelet.namespace)
        while True:
            params = {"resourceVersion": version, "timeoutSeconds": self._watch_seconds}
            async with self._kubelet.api.watch(path, allowWatchBookmarks="true", **params) as events:
                async for event in events:
                    if event.type == "ERROR":
                        return
                    version = event.body["metadata"]["resourceVersion"]
                    self._on_event(event)

    def _on_event(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self._drop(event.body["metadata"]["uid"])
        elif event.type != "BOOKMARK":
            self._on_pod(event.body)

    def _on_pod(self, pod: Json) -> None:
        metadata = pod["metadata"]
        is_new = metadata["uid"] not in self._known
        self._known.add(metadata["uid"])
        self._changed.set()
        if "deletionTimestamp" in metadata:
            self._on_terminating(pod)
        elif is_new:
            incarnation = self._incarnations[metadata["name"]]
            self._incarnations[metadata["name"]] += 1
            if pod["status"]["phase"] == "Pending":
                self._start(pod, self._script.course_of(metadata["name"], incarnation))

    def _start(self, pod: Json, course: Course) -> None:
        if not course:
            return
        uid = pod["metadata"]["uid"]
        self._courses[uid] = task = self._spawn(self._take(pod, course))
        task.add_done_callback(lambda _: self._off_course(uid))

    def _off_course(self, uid: str) -> None:
        del self._courses[uid]
        self._changed.set()

    def _on_terminating(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        self._drop(uid)
        if pod["spec"].get("nodeName") and uid not in self._ending:
            self._ending[uid] = self._spawn(self._end(pod))

    async def _end(self, pod: Json) -> None:
        """What a kubelet does with a deleted pod: its containers get SIGTERM, then it goes."""
        try:
            if pod["status"]["phase"] not in _OVER:
                await self._insist(lambda: self._kubelet.write(pod, _ended_by_sigterm))
            await self._insist(lambda: self._kubelet.end(pod))
        except RefusedError:
            if not await self._insist(lambda: self._kubelet.is_gone(pod)):
                raise

    async def _take(self, pod: Json, course: Course) -> None:
        try:
            for step in course:
                await asyncio.sleep(step.after)
                pod = await self._insist(partial(self._kubelet.write, pod, step.status))
        except RefusedError:
            if not await self._insist(partial(self._kubelet.is_gone, pod)):
                raise
        else:
            self.completed[pod["metadata"]["name"]] += 1

    async def _insist(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask as often as the apiserver is away. A status is made from the same pod, so twice is as once."""
        while True:
            try:
                async with self._slots:
                    return await ask()
            except (*_UNREACHABLE, RefusedError) as failure:
                await self._pause_after(failure)

    async def _pause_after(self, failure: Exception) -> None:
        """Raise the failure again, unless it will pass."""
        now = asyncio.get_running_loop().time()
        if not isinstance(failure, RefusedError):
            self._away_at = now
        elif failure.status not in _PASSING and not (failure.status == 403 and now < self._away_at + _START_SECONDS):
            raise failure
        await asyncio.sleep(_PAUSE)

    def _drop(self, uid: str) -> None:
        if task := self._courses.get(uid):
            task.cancel()
