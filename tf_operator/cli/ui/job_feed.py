"""One job, for as long as somebody looks at its page: the job, its pods, what was reported about them."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from tf_operator.cli import failures
from tf_operator.cli.ui import changes, feed, job_page, job_timeline
from tf_operator.cli.ui.feed import RunningFeed
from tf_operator.client import (
    ApiError,
    AsyncTFJobs,
    Forbidden,
    Job,
    JobEvent,
    JobPod,
    NotFound,
    NotPossible,
    cluster,
    usage,
)
from tf_operator.client.explanation import reading
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.usage import UsageList
from tf_operator.job.curves import Curves
from tf_operator.local.local_kinds import JOB_CURVES
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import requests, responses
from tf_operator.meta import ObjectKey

if TYPE_CHECKING:
    from tf_operator.job.record import FirstFailure

_PACE: Final = 0.5
"""Seconds between two accounts of a job, however often its pods change."""
_SHORTEST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 20.0
"""Seconds until something is asked for again that could not be read."""
_EVENTS_EVERY: Final = 5.0
"""Seconds between two lists of events: of pods there is no selection smaller than the namespace."""
_LATEST_EVENTS: Final = 500
_LOG_WITHIN: Final = 3.0
_RIGHTS_EVERY: Final = 15.0
_USAGE_EVERY: Final = 5.0
_USAGE_AFTER_REFUSAL: Final = 60.0
BROKEN: Final = "This page cannot be kept up to date; the terminal of tfjob ui says why."


class JobFeed(RunningFeed):
    """The page of one job, in sections, each of which is sent when it has changed.

    What the API server refuses, or cannot say now, is asked for again, and the page says so: rights come and go.
    """

    def __init__(
        self, jobs: AsyncTFJobs, name: str, clock: Clock, *, naming: str = "", may_change: bool = False
    ) -> None:
        """``naming``: options of a command that name the cluster; ``may_change``: unless only looking is wanted."""
        super().__init__()
        self._naming = naming
        self._may_change = may_change
        self._rights = feed.frame("rights", {"verbs": [], "note": ""})
        self._jobs = jobs
        self._name = name
        self._clock = clock
        self._job: Job | None = None
        self._pods: tuple[JobPod, ...] | None = None
        self._events: tuple[JobEvent, ...] | None = None
        self._usage = b""
        self._log: tuple[str, ...] = ()
        """Of the first failure, if nothing else says why."""
        self._log_of: FirstFailure | None = None
        self._failures = dict[str, ApiError]()
        """Of what could not be read the last time: ``job``, ``Pods``, ``Events``; the newest last."""
        self._pauses = ExponentialBackoff[str](base=_SHORTEST_PAUSE, cap=_LONGEST_PAUSE)
        self._is_deleted = False
        self._stirred = asyncio.Event()
        self.sections = dict[str, bytes]()
        """Frames, by what they are about."""
        self.curves = Curves()
        self._points = 0
        self.is_ended = False

    async def run(self) -> None:
        while not self.is_ended:
            try:
                await self._follow(await self._jobs.get(self._name))
            except NotFound as error:
                self._end(_sentence(error))
            except ApiError as error:
                self._record_failure("job", error)
                self._describe()
                await self._pause("job")

    def broke(self) -> None:
        self._end(BROKEN)

    async def _follow(self, job: Job) -> None:
        """Follow this job until it is deleted, or something cannot be followed any longer."""
        if self._job is None or self._job.uid != job.uid:
            self.curves = await self._kept_curves(job)
        self._job = job
        failure: ApiError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [
                    self._follow_pods(job),
                    self._keep_events(job),
                    self._keep_usage(job),
                    self._keep_rights(),
                    self._write(),
                ]
                running = [tasks.create_task(work) for work in others]
                await self._follow_job(job)
                for task in running:
                    task.cancel()
        except* ApiError as group:
            failure = next(error for error in group.exceptions if isinstance(error, ApiError))
        if failure:
            raise failure
        self._is_deleted = True
        self._describe()
        self._end()

    async def _kept_curves(self, job: Job) -> Curves:
        """What a local server knows of the time before; empty ones of another, or if the program has never reported."""
        if self._jobs.choice and cluster.is_local(self._jobs.choice, self._jobs.host):
            with suppress(ApiError):
                request = requests.get(JOB_CURVES, ObjectKey(job.namespace, job.uid))
                return Curves.of_copy(responses.read_object(await self._jobs.client.send(request)).get("curves"))
        return Curves()

    async def _follow_job(self, job: Job) -> None:
        async with aclosing(self._jobs.watch(job)) as jobs:
            async for self._job in jobs:
                self.curves.add(self._job.spec.record.progress)
                self._read("job")

    async def _follow_pods(self, job: Job) -> None:
        while True:
            try:
                async with aclosing(self._jobs.watch_pods(job)) as pod_lists:
                    async for self._pods in pod_lists:
                        self._read("Pods")
            except Forbidden as error:
                self._pods = None
                self._record_failure("Pods", error)
            await self._pause("Pods")

    async def _keep_events(self, job: Job) -> None:
        while True:
            try:
                self._events = (await self._jobs.events(job))[-_LATEST_EVENTS:]
                self._read("Events")
                await self._clock.sleep(_EVENTS_EVERY)
            except ApiError as error:
                self._events = None if isinstance(error, Forbidden) else self._events
                self._record_failure("Events", error)
                await self._pause("Events")

    async def _keep_usage(self, job: Job) -> None:
        """What its replicas use, where somebody measures it."""
        while True:
            pause = _PACE if self._pods is None and not self._failures else _USAGE_EVERY
            running = [pod for pod in self._pods or () if pod.is_running]
            try:
                readings, note = await usage.read(self._jobs.client, job, running) if running else UsageList(), ""
            except (ApiError, NotPossible) as error:
                readings, note = UsageList(), feed.printable(str(error))
                # A server that is away for a moment has not refused it.
                pause = _USAGE_AFTER_REFUSAL if isinstance(error, Forbidden | NotPossible) else _USAGE_EVERY
            frame = feed.frame("usage", job_page.usages(readings, running, note))
            if frame != self._usage:
                self._usage = frame
                self._stirred.set()
            await self._clock.sleep(pause)

    async def _keep_rights(self) -> None:
        """Which changes the user has permissions for; they come and go."""
        while self._may_change:
            objection, verbs, note = self._jobs.choice and self._jobs.choice.objection, list[str](), ""
            try:
                if objection:
                    note = objection.sentence("--context NAME")
                else:
                    verbs = await changes.allowed(self._jobs, self._name)
                    note = "" if verbs else "You have no permission to change this job."
            except ApiError as error:
                note = f"Your permissions cannot be checked: {error}"
            rights = feed.frame("rights", {"verbs": verbs, "note": feed.printable(note)})
            if rights != self._rights:
                self._rights = rights
                self._stirred.set()
            await self._clock.sleep(_RIGHTS_EVERY)

    async def _write(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            await self._read_failure()
            self._describe()
            await self._clock.sleep(_PACE)

    async def _read_failure(self) -> None:
        """Read the end of the log of the first failure, once: its container may be gone soon."""
        situation = self._situation
        first = situation.job.first_failure if situation else None
        if situation and first and first != self._log_of and self._pods is not None:
            self._log_of, self._log = first, ()
            # The rest of the page must not wait for a node that does not answer.
            with suppress(ApiError, NotPossible, TimeoutError):
                async with self._clock.timeout(_LOG_WITHIN):
                    self._log = await reading.failure_log(self._jobs, situation)

    def _read(self, source: str) -> None:
        self._pauses.forget(source)
        self._failures.pop(source, None)
        self._stirred.set()

    def _record_failure(self, source: str, error: ApiError) -> None:
        self._failures.pop(source, None)
        self._failures[source] = error
        self._stirred.set()

    async def _pause(self, source: str) -> None:
        await self._clock.sleep(self._pauses.delay(source))

    def _describe(self) -> None:
        sections = {**self.sections, "problem": feed.frame("problem", self._problem)}
        is_known = (self._pods is not None or "Pods" in self._failures) and (
            self._events is not None or "Events" in self._failures
        )
        sections |= {"rights": self._rights} | ({"usage": self._usage} if self._usage else {})
        if is_known and (situation := self._situation):  # without them the explanation would be another one
            overview = job_page.overview(situation, note=self._note, is_deleted=self._is_deleted, naming=self._naming)
            sections |= {
                "job": feed.frame("job", overview),
                "replicas": feed.frame("replicas", job_page.replicas(situation)),
                "timeline": feed.frame("timeline", job_timeline.entries(situation)),
                "picture": feed.frame("picture", job_timeline.picture(situation, self.curves.checkpoints)),
            }
        if sections != self.sections or self._points != self.curves.count:
            self.sections, self._points = sections, self.curves.count
            self.changed()

    @property
    def uid(self) -> str:
        """Of the job, which may be another one of its name by now; empty before it was read."""
        return self._job.uid if self._job else ""

    @property
    def _situation(self) -> Situation | None:
        if self._job is None:
            return None
        pods, events, now = self._pods or (), self._events or (), self._clock.now()
        are_known = self._pods is not None
        return Situation(self._job, pods, events, now, are_pods_known=are_known, log=self._log)

    @property
    def _note(self) -> str:
        """What the user may not read; the rest of the page is as it should be."""
        lacking = [(source, error) for source, error in self._failures.items() if _is_lack(source, error)]
        return " ".join(f"{source} may not be read here: {feed.printable(str(error))}." for source, error in lacking)

    @property
    def _problem(self) -> str:
        errors = [error for source, error in self._failures.items() if not _is_lack(source, error)]
        if not errors:
            return ""
        return feed.printable(failures.sentence(errors[-1])) + (
            ". The data may be out of date." if "job" in self.sections else "."
        )

    def _end(self, problem: str = "") -> None:
        last_section = {"problem": feed.frame("problem", problem)} if problem else {}
        self.sections = {**self.sections, **last_section, "over": feed.frame("over", value=True)}
        self.is_ended = True
        self.changed()


def _is_lack(source: str, error: ApiError) -> bool:
    return source != "job" and isinstance(error, Forbidden)


def _sentence(error: ApiError) -> str:
    return feed.printable(f"{error}; was it deleted?")


class JobCursor:
    def __init__(self, source: JobFeed) -> None:
        self._source = source
        self._read = dict[str, bytes]()
        self._curves = source.curves
        self._points = 0
        """Points of them that were read."""

    def news(self) -> list[bytes]:
        changed = [text for name, text in self._source.sections.items() if self._read.get(name) != text]
        self._read = self._source.sections
        return [*changed, *self._new_points()]

    def _new_points(self) -> Iterator[bytes]:
        if self._curves is not self._source.curves:  # another job has the name
            self._curves, self._points = self._source.curves, 0
        if self._points != self._curves.count:
            points = {**self._curves.since(self._points), "isMore": self._points > 0}
            yield feed.frame("curves", {"uid": self._source.uid, **points})
            self._points = self._curves.count

    @property
    def is_ended(self) -> bool:
        return self._source.is_ended
