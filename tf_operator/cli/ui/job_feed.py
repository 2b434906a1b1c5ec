"""One job, for as long as somebody looks at its page: the job, its pods, what was reported about them."""

import asyncio
from contextlib import aclosing
from typing import Final

from tf_operator.cli import failures
from tf_operator.cli.situation import Situation
from tf_operator.cli.ui import feed, job_page
from tf_operator.cli.ui.feed import RunningFeed
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, Job, JobEvent, JobPod, NotFound
from tf_operator.machinery.clock import Clock

_PACE: Final = 0.5
"""Seconds between two accounts of a job, however often its pods change."""
_EVENTS_EVERY: Final = 5.0
"""Seconds between two lists of events: of pods there is no selection smaller than the namespace."""
_LATEST_EVENTS: Final = 500
BROKEN: Final = "This page cannot be kept up to date; the terminal of tfjob ui says why."


class JobFeed(RunningFeed):
    """The page of one job, in sections, each of which is sent when it has changed."""

    def __init__(self, jobs: AsyncTFJobs, name: str, clock: Clock) -> None:
        super().__init__()
        self._jobs = jobs
        self._name = name
        self._clock = clock
        self._job: Job | None = None
        self._pods: tuple[JobPod, ...] | None = None
        self._events: tuple[JobEvent, ...] | None = None
        self._note = ""
        self._is_deleted = False
        self._stirred = asyncio.Event()
        self.sections = dict[str, bytes]()
        """Frames, by what they are about."""
        self.is_ended = False

    async def run(self) -> None:
        """Follow the job until it is deleted, or until the API server says no."""
        try:
            job = self._job = await self._jobs.get(self._name)
        except ApiError as error:
            self._end(_sentence(error))
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(work) for work in (self._follow_pods(job), self._keep_events(job))]
                others.append(tasks.create_task(self._write()))
                await self._follow_job(job)
                for task in others:
                    task.cancel()
        except* ApiError as group:
            self._end(feed.shown(failures.sentence(group.exceptions[0])))
        else:
            self._is_deleted = True
            self._describe(self._job)
            self._end()

    def broke(self) -> None:
        """Say so."""
        self._end(BROKEN)

    async def _follow_job(self, job: Job) -> None:
        async with aclosing(self._jobs.watch(job)) as seen:
            async for self._job in seen:
                self._stirred.set()

    async def _follow_pods(self, job: Job) -> None:
        async with aclosing(self._jobs.watch_pods(job)) as seen:
            async for self._pods in seen:
                self._stirred.set()

    async def _keep_events(self, job: Job) -> None:
        while True:
            try:
                self._events = (await self._jobs.events(job))[-_LATEST_EVENTS:]
                self._note = ""
            except Forbidden:
                self._events, self._note = (), "Events may not be read here."
            self._stirred.set()
            await self._clock.sleep(_EVENTS_EVERY)

    async def _write(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if self._job:
                self._describe(self._job)
            await self._clock.sleep(_PACE)

    def _describe(self, job: Job) -> None:
        if self._pods is None or self._events is None:
            return  # without them the explanation would be another one
        seen = Situation(job, self._pods, self._events, self._clock.now())
        made = {
            "job": feed.frame("job", job_page.overview(seen, note=self._note, is_deleted=self._is_deleted)),
            "replicas": feed.frame("replicas", job_page.replicas(seen)),
            "timeline": feed.frame("timeline", job_page.timeline(seen)),
        }
        if made != self.sections:
            self.sections = made
            self.changed()

    def _end(self, problem: str = "") -> None:
        if problem:
            self.sections = {**self.sections, "problem": feed.frame("problem", problem)}
        self.is_ended = True
        self.changed()


def _sentence(error: ApiError) -> str:
    """Why there is no such page."""
    return feed.shown(f"{error}; was it deleted?" if isinstance(error, NotFound) else failures.sentence(error))


class JobCursor:
    """What one page has read."""

    def __init__(self, source: JobFeed) -> None:
        self._source = source
        self._read = dict[str, bytes]()

    def news(self) -> list[bytes]:
        """The sections that have changed."""
        found = [text for name, text in self._source.sections.items() if self._read.get(name) != text]
        self._read = self._source.sections
        return found

    @property
    def is_ended(self) -> bool:
        """Whether nothing follows."""
        return self._source.is_ended
