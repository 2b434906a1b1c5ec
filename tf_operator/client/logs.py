"""What the programs of a job print: of one replica or of all, what is there or for as long as the job runs.

Following means: every run of every replica, also of pods that take the place of others, until the job has ended and
what had ended by then is read to its end. A replica that goes on after that (a parameter server under ``cleanPodPolicy
None``) is not waited for.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tf_operator.client import changes, pods
from tf_operator.client.job import Job, NotPossible, read_job
from tf_operator.client.pods import PODS, JobPod
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Scope
from tf_operator.machinery.transport.responses import LONGEST_LINE
from tf_operator.meta import ObjectKey, parse_time, rfc3339, text_of, uid_of

_GRACE: Final = 2.0
"""Seconds for the last lines of replicas that still run when the job has ended."""
_BUFFER: Final = 1000
_PAUSE: Final = 1.0
_ATTEMPTS: Final = 10
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a replica printed."""

    replica: str
    """Empty where ``run`` says what the job waits for, or lacks."""
    pod: str
    text: str
    raw: bytes = field(default=b"", repr=False, compare=False)
    """The bytes; ``text`` lacks what is not UTF-8."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which lines of a pod."""

    container: str = ""
    """Empty for the deciding one."""
    previous: bool = False
    """Of the run before the last restart in place."""
    tail: int | None = None
    longest: int | None = None
    """Bytes of a line that are kept; without it, a line of more than 16 MiB comes as several."""


def print_line(line: LogLine) -> None:
    """Print a line behind its replica, at once."""
    print(f"{line.replica} | {line.text}" if line.replica else line.text, flush=True)  # noqa: T201 (what the caller has asked for)


class LinePieces:
    """Lines of chunks as they arrive; one that does not end, as that of a progress bar, comes in long pieces."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, and what has grown too long to be kept."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for line in ended:
            lines.append(bytes(self._partial + line))
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > self._longest:
            lines.append(bytes(self._partial))
            self._partial.clear()
        return [line for line in lines if line.strip()]


class LineCutter:
    """Cuts chunks as they arrive into lines, and drops the end of long ones before it is held."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            self._keep(piece)
            lines.append(bytes(self._partial))
            self._partial.clear()
        self._keep(rest)
        return [line for line in lines if line.strip()]

    def _keep(self, piece: bytes) -> None:
        self._partial += piece[: self._longest - len(self._partial)]


def check(pod: JobPod, options: LogOptions) -> None:
    """``NotPossible`` for a container that the pod does not have: an API server says so in words for developers."""
    spec = pod.body["spec"]
    has = [text_of(entry, "name") for kind in _CONTAINERS for entry in spec.get(kind) or ()]
    if options.container and options.container not in has:
        raise NotPossible(f"{pod.replica} has no container {options.container}; it has {', '.join(has)}")


def request(pod: JobPod, options: LogOptions, *, follow: bool, since: datetime | None = None) -> Request:
    """The log of one container, with a time in front of each line."""
    query = {"container": options.container or pod.container, "timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if options.previous:
        query["previous"] = "true"
    if since is not None:
        query["sinceTime"] = rfc3339(since)
    elif options.tail is not None:
        query["tailLines"] = str(options.tail)
    return Request("get", "GET", requests.path_of(PODS, ObjectKey(pod.namespace, pod.name), "log"), query)


async def read(client: ApiClient, pod: JobPod, options: LogOptions) -> AsyncGenerator[LogLine, None]:
    async with aclosing(_timed_lines(client, pod, request(pod, options, follow=False), options.longest)) as lines:
        async for line, _ in lines:
            yield line


def sources(job: Job, job_pods: Sequence[JobPod], replica: str) -> tuple[JobPod, ...]:
    """The pods that have begun, of one replica or of all; ``NotPossible`` for a replica that has no pod."""
    named = tuple(pod for pod in job_pods if replica in {"", pod.replica})
    if replica and not named:
        has = ", ".join(pod.replica for pod in job_pods) or "none"
        raise NotPossible(f"{job.kind} {job.name} has no pod of {replica}; it has pods of: {has}")
    return tuple(pod for pod in named if pod.run) or (named if replica else ())


async def read_each(
    client: ApiClient, job_pods: Sequence[JobPod], options: LogOptions
) -> AsyncGenerator[LogLine, None]:
    """The lines of several pods, one pod after the other."""
    refusals = list[errors.Refused]()
    for pod in job_pods:
        check(pod, options)
        try:
            async with aclosing(read(client, pod, options)) as lines:
                async for line in lines:
                    yield line
        except errors.Refused as error:
            refusals.append(error)
    # Of several replicas some have nothing to read: no run before, or a container that was not started. A log that was
    # there is missed all the same.
    expired = [refusal for refusal in refusals if isinstance(refusal, errors.Expired)]
    if expired or (refusals and len(refusals) == len(job_pods)):
        raise (*expired, refusals[-1])[0]


async def follow(client: ApiClient, pod: JobPod, options: LogOptions, clock: Clock) -> AsyncGenerator[LogLine, None]:
    """The lines of one run of a pod, as they come; when the connection breaks (proxies cut what is silent), again.

    A server that fails may be one that starts, or one that cannot reach the node: it is asked a few times.
    """
    last: datetime | None = None
    left = _ATTEMPTS
    while True:
        after = last
        try:
            log_request = request(pod, options, follow=True, since=after)
            async with aclosing(_timed_lines(client, pod, log_request, options.longest)) as lines:
                async for line, time in lines:
                    last, left = time or last, _ATTEMPTS
                    # Servers count in seconds, so some lines come a second time.
                    if after is None or time is None or time > after:
                        yield line
        except (errors.NoReply, errors.ServerFailed, errors.Throttled) as error:
            left -= isinstance(error, errors.Refused)
            if not left:
                raise
            await clock.sleep(_PAUSE)
        else:
            return


async def _timed_lines(
    client: ApiClient, pod: JobPod, log_request: Request, longest: int | None
) -> AsyncGenerator[tuple[LogLine, datetime | None], None]:
    splitter = LinePieces() if longest is None else LineCutter(longest)
    async with client.stream(log_request) as chunks:
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                yield _line(pod, line)
        for line in splitter.feed(b"\n"):
            yield _line(pod, line)


def _line(pod: JobPod, line: bytes) -> tuple[LogLine, datetime | None]:
    stamp, _, rest = line.partition(b" ")
    time = parse_time(stamp.decode(errors="replace"))
    raw = line if time is None else rest
    return LogLine(pod.replica, pod.name, raw.decode(errors="replace").rstrip("\r"), raw), time


@dataclass(frozen=True, slots=True)
class _End:
    """After the last line: the error that it was, if any."""

    error: Exception | None = None


class LogFollower:
    """Follows the logs of a job. ``client`` must wait for a reply for ever: a silent program sends not even a head."""

    def __init__(
        self, client: ApiClient, job: Job, *, api: ServedAPI, clock: Clock, replica: str = "", options: LogOptions
    ) -> None:
        self._client = client
        self._job = job
        self._api = api
        self._clock = clock
        self._replica = replica
        self._options = options
        self._lines = asyncio.Queue[LogLine | _End](_BUFFER)
        self._streams = dict[tuple[str, int], asyncio.Task[None]]()
        self._ended = set[str]()
        """UIDs of pods whose program has ended."""

    async def lines(self) -> AsyncGenerator[LogLine, None]:
        """The lines of all replicas, until the job has ended."""
        running = asyncio.get_running_loop().create_task(self._run())
        try:
            while not isinstance(item := await self._lines.get(), _End):
                yield item
            if item.error:
                raise item.error
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _run(self) -> None:
        end = _End()
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch_pods(tasks))
                await self._wait_job_ended()
                watching.cancel()
                listed = await changes.list_all(self._client, PODS, self._scope)
                self._open(tasks, [changes.ObjectChange(body) for body in listed.items])
                await self._drain()
                for stream in self._streams.values():
                    stream.cancel()
        except* Exception as failed:  # noqa: BLE001 (raised where the lines are read)
            end = _End(failed.exceptions[0])
        await self._lines.put(end)

    async def _wait_job_ended(self) -> None:
        scope = Scope(self._job.namespace, field_selector=f"metadata.name={self._job.name}")
        stream = changes.follow(self._client, self._api.resource, scope, self._clock)
        async with aclosing(stream) as batches:
            async for batch in batches:
                bodies = [change.body for change in batch if not change.is_deleted]
                ours = [body for body in bodies if uid_of(body) == self._job.uid]
                if not ours or read_job(ours[-1], self._api).is_finished:
                    return

    async def _watch_pods(self, tasks: asyncio.TaskGroup) -> None:
        async with aclosing(changes.follow(self._client, PODS, self._scope, self._clock)) as batches:
            async for batch in batches:
                self._open(tasks, batch)

    @property
    def _scope(self) -> Scope:
        return pods.scope_of(self._job)

    def _open(self, tasks: asyncio.TaskGroup, batch: list[changes.ObjectChange]) -> None:
        for change in batch:
            pod = pods.read_pod(self._job, change.body, self._api)
            if pod is None or self._replica not in {"", pod.replica}:
                continue
            if change.is_deleted or pod.has_ended:
                self._ended.add(pod.uid)
            if pod.run and pod.run not in self._streams and not change.is_deleted:
                check(pod, self._options)
                # Only the first run is cut to its tail: what follows is new.
                options = self._options if pod.restarts == 0 or not self._streams else replace(self._options, tail=None)
                self._streams[pod.run] = tasks.create_task(self._stream(pod, options))

    async def _stream(self, pod: JobPod, options: LogOptions) -> None:
        try:
            async with aclosing(follow(self._client, pod, options, self._clock)) as lines:
                async for line in lines:
                    await self._lines.put(line)
        except (errors.Forbidden, errors.Unauthorized, errors.Expired):
            raise
        except errors.ApiError:
            return  # a container that is gone again: its replica goes on, and so do the others

    async def _drain(self) -> None:
        """Let the logs of what has ended come to their end; what still runs gets a moment."""
        ending = [stream for (uid, _), stream in self._streams.items() if uid in self._ended]
        if ending:
            await asyncio.wait(ending)
        rest = [stream for stream in self._streams.values() if not stream.done()]
        with suppress(TimeoutError):
            async with self._clock.timeout(_GRACE):
                await asyncio.gather(*rest, return_exceptions=True)
