"""The kubelet's auto mode: every new pod of a namespace takes its course by itself.

    async with autopilot(kubelet, script) as pilot:
        ...                       # create jobs; their pods run, fail and succeed by the script
        await pilot.wait_idle()   # every course that was begun is over

One watch for the whole namespace, one request for each step, a bounded number at a time: thousands of pods
cost a task each and little else. A pod that is deleted leaves its course; pods that were past Pending when the
pilot came are not touched. A step that the apiserver refuses ends the test, unless its pod is gone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.api import RefusedError
from support.pods.kubelet import Kubelet
from support.pods.pod_scripts import Course, Script
from support.resources import PODS, Json

_AT_A_TIME = 32


@asynccontextmanager
async def autopilot(kubelet: Kubelet, script: Script) -> AsyncIterator["Autopilot"]:
    """Drive the pods of the kubelet's namespace while the body runs; a course that fails cancels the body."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        pilot = Autopilot(kubelet, script, tasks)
        following = tasks.create_task(pilot.follow())
        try:
            yield pilot
        except Exception as error:  # noqa: BLE001  # raised below: a TaskGroup would wrap it
            failure = error
        for task in (following, *pilot.courses.values()):
            task.cancel()
    if failure:
        raise failure


class Autopilot:
    """Which pods are on which course; made by ``autopilot``."""

    def __init__(self, kubelet: Kubelet, script: Script, tasks: asyncio.TaskGroup) -> None:
        self._kubelet = kubelet
        self._script = script
        self._tasks = tasks
        self._path = PODS.path(kubelet.namespace)
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._uids: set[str] = set()
        self._incarnations: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self.courses: dict[str, asyncio.Task[None]] = {}
        self.completed: Counter[str] = Counter()
        """How many courses were taken to their end, by the name of the pod."""

    async def wait_idle(self, *, within: float = 30.0) -> None:
        """Wait until every pod that exists at this moment was taken up, and no pod is on a course."""
        async with asyncio.timeout(within):
            present = {pod["metadata"]["uid"] for pod in await self._kubelet.api.list(self._path)}
            while self.courses or not present <= self._uids:
                self._changed.clear()
                await self._changed.wait()

    async def follow(self) -> None:
        """Watch the namespace; a watch that has ended begins again with all pods that there are."""
        while True:
            async with self._kubelet.api.watch(self._path) as events:
                async for event in events:
                    if event.type == "ERROR":  # so a busy apiserver ends one
                        break
                    self._on_pod(event.body, is_there=event.type != "DELETED")

    def _on_pod(self, pod: Json, *, is_there: bool) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        is_new = uid not in self._uids
        self._uids.add(uid)
        self._changed.set()
        if not is_there or "deletionTimestamp" in pod["metadata"]:
            if uid in self.courses:
                self.courses[uid].cancel()
        elif is_new:
            course = self._script.course_of(name, self._incarnations[name])
            self._incarnations[name] += 1
            if pod["status"]["phase"] == "Pending" and course:
                self.courses[uid] = task = self._tasks.create_task(self._take(pod, course))
                task.add_done_callback(lambda _: self._off_course(uid))

    def _off_course(self, uid: str) -> None:
        del self.courses[uid]
        self._changed.set()

    async def _take(self, pod: Json, course: Course) -> None:
        try:
            for step in course:
                await asyncio.sleep(step.after)
                async with self._slots:
                    pod = await self._kubelet.write(pod, step.status)
        except RefusedError:
            if not await self._kubelet.is_gone(pod):
                raise
        else:
            self.completed[pod["metadata"]["name"]] += 1
