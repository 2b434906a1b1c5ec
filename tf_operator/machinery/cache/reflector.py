"""Lists and watches one resource in one scope, whatever happens to the connection.

Step 2 of the path of a watch event. A reflector reads a complete, consistent list first (streamed where the apiserver
can, otherwise page by page), then follows every change by a watch. It keeps the resource version that it has reached,
and continues from there after any interruption; only when the apiserver cannot do that (410, a version from another
history) it relists, and ``cache_writer`` works out the difference.

What to do after each kind of ending is decided in ``watch_retry``. No ending is fatal; a bug is: anything but an
``ApiError`` leaves ``run``, and its supervisor ends the process.

A watch that says nothing may be dead on the other side (half-open). The apiserver sends a bookmark a minute, so
silence for longer means a new watch; and every watch has an end, asked of the server and enforced here.

Not even a healthy watch can promise that nothing is still on its way. A caller that has to be sure calls ``refresh``,
and then reads ``is_behind``: there may never be a list, and it must not be waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import msgspec

from tf_operator.machinery.cache import pager, resource_version
from tf_operator.machinery.cache.cache_writer import CacheWriter, Relist
from tf_operator.machinery.cache.watch_retry import WatchRetryPolicy
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.requests import Request, Resource, Scope
from tf_operator.machinery.transport.responses import LineSplitter

_log = Logger(__name__)


class WatchClient(Protocol):
    """What a reflector needs of ``ApiClient``: calls that are sent once, because how to go on is decided here."""

    async def send_once(self, request: Request) -> bytes:
        """The body of the reply."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks of a watch or a list. Whether it is accepted has to be known in a bounded time."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take, in seconds."""

    shortest_watch: float = 240.0
    """A watch ends after a random time between this and its double, so that not all end together."""
    grace: float = 15.0
    """How much later than the server we end a watch ourselves."""
    silence: float = 80.0
    """Longer than the minute between bookmarks; below the 90 s within which a dead connection is noticed."""
    mark: float = 30.0
    """How long a streamed list may take to say that it is complete while nothing else comes."""
    paged: float = 3600.0
    """After a streamed list was refused or stayed silent, lists are read page by page for so long. Not for ever: the
    apiserver may only have been overloaded, or is upgraded."""
    healthy: float = 1.0
    """A watch that served this long may be followed by the next one without a pause."""
    relist_after: float = 30.0
    """After failing for so long from the same version, relist."""
    slice: float = 0.005
    """Decode this long, then give the other tasks a turn."""
    patience: float = 10.0
    """After so long without a list from an apiserver that answers, those who wait for it go on without it."""


MOST_UNFINISHED_STREAMS = 2
"""So many streamed lists may break off before the next one is read page by page."""


class Reflector:
    """One resource in one scope. ``run`` ends by cancellation only."""

    def __init__(
        self,
        resource: Resource,
        scope: Scope,
        *,
        client: WatchClient,
        clock: Clock,
        writer: CacheWriter[Any],
        chance: Callable[[], float],
        instruments: ReflectorInstruments | None = None,
        timing: Timing | None = None,
        on_refusal: Callable[[str], object] = lambda _namespace: None,
    ) -> None:
        """``on_refusal`` gets the namespace when it cannot be listed: it must not be waited for."""
        self._resource = resource
        self._scope = scope
        self._client = client
        self._clock = clock
        self._writer = writer
        self._chance = chance
        self._instruments = instruments or ReflectorInstruments()
        self._timing = timing or Timing()
        self._on_refusal = on_refusal
        self._retry = WatchRetryPolicy(
            clock, chance=chance, healthy=self._timing.healthy, relist_after=self._timing.relist_after
        )
        self._version: str | None = None
        """The resource version that was reached; ``None``: a list is needed."""
        self._relist: Relist[Any] | None = None
        """The new list while it is being read."""
        self._was_cut_off = False
        """Whether the last watch ended before its time: the apiserver may have come back with another history."""
        self._ends_at = 0.0
        """When the server is to end the watch."""
        self._turn_began = clock.monotonic()
        self._scope_of_turn: asyncio.Timeout | None = None
        self._waiters: list[asyncio.Future[None]] = []
        """Who waits for a list that has not been begun yet."""
        self._promises: list[asyncio.Future[None]] = []
        """Who waits for the list that is being read, or for the next one if it fails."""
        self._relist_pending = True
        self._waiting_since = clock.monotonic()
        self.is_absent = False
        """Whether the apiserver has said last that there is no such resource: its CRD may be installed later."""
        self._streams_from = clock.monotonic()
        """When lists may be streamed again."""
        self._unfinished_streams = 0
        self._serves_since: float | None = None
        self._active_at = self._moved_at = clock.monotonic()
        self._turned_at = clock.monotonic()
        self._log = _log.bind(resource=str(resource), namespace=scope.namespace or "*")

    def __str__(self) -> str:
        return f"reflector of {self._resource} in {self._scope.namespace or 'all namespaces'}"

    @property
    def idle_seconds(self) -> float:
        """How long nothing has been heard from the apiserver: a metric, and a reason to doubt the cache."""
        return self._clock.monotonic() - self._active_at

    @property
    def stuck_seconds(self) -> float:
        """How long this has neither heard anything nor tried anything: only a bug can make it long."""
        return self._clock.monotonic() - max(self._active_at, self._moved_at)

    @property
    def is_behind(self) -> bool:
        """Whether the first list, or one that was asked for, has not come: the store may show what was long ago."""
        return self._relist_pending

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for a list now."""
        return any(not waiter.done() for waiter in (*self._waiters, *self._promises))

    def covers(self, namespace: str) -> bool:
        return self._scope.namespace in {"", namespace}

    async def run(self) -> NoReturn:
        while True:
            self._scope_of_turn = turn = asyncio.timeout(None)  # noqa: TID251 (no time: ``refresh`` ends it)
            try:
                async with turn:
                    await self._clock.sleep(self._after(await self._list_and_watch()))
            except TimeoutError:
                if not turn.expired():
                    raise

    async def refresh(self) -> None:
        """Relist now, whatever is going on, and return once the list is in the store, or refused.

        It shows everything that was so when this was called. A new leader waits for it before its first write,
        because its predecessor's last writes may still be on their way to the cache, or a watch may be half-open.

        Refused (403, 404) may be for ever: a namespace is gone with its rights, or a CRD. Then this returns without a
        list, so that others need not wait; the reflector goes on trying, and ``is_behind`` until it has one.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._relist_pending, self._waiting_since = True, self._clock.monotonic()
        if self._scope_of_turn is not None:
            with suppress(RuntimeError):  # somebody else has interrupted it just now
                self._scope_of_turn.reschedule(asyncio.get_running_loop().time())
        await waiter

    async def _list_and_watch(self) -> errors.ApiError | None:
        """One watch, with a list before it where one is needed; how it ended, ``None`` for cleanly."""
        self._serves_since = None
        # An attempt counts from its beginning: it may hang, and the wait before it may have been as long as any.
        self._turn_began = self._moved_at = self._clock.monotonic()
        self._promise()
        try:
            if self._version is None and not self._can_stream:
                await self._list()
                self._unfinished_streams = 0
            await self._watch()
        except errors.ApiError as ending:
            return ending
        finally:
            self._relist = None
        return None

    def _promise(self) -> None:
        """Who asked before the list is begun will find in it what they want."""
        if self._waiters:
            self._promises, self._waiters = self._promises + self._waiters, []
            if self._version is not None:
                self._version = None
                self._instruments.relisted("asked")

    def _after(self, ending: errors.ApiError | None) -> float:
        """Draw the conclusions from an ending; how long to wait before the next turn."""
        kind = ending.name if ending is not None else "closed"
        self._instruments.watch_ended(kind)
        self._moved_at = self._clock.monotonic()
        self._was_cut_off = self._was_cut_off or ending is not None or self._moved_at < self._ends_at - 1
        if self._should_stop_waiting(ending):
            if self._promises and not self.is_absent:
                self._log.warning("the list failed; the cache is not used until a list succeeds", cause=kind)
            self._release()
            self._on_refusal(self._scope.namespace)
        if self._version is None:
            if _refuses_streaming(ending):
                self._stop_streaming_lists("refused")
        elif ending is not None and self._retry.needs_relist(ending):
            self._version = None
            self._instruments.relisted(kind)
            self._log.info("relisting", cause=kind, error=str(ending))
        served_seconds = 0.0 if self._serves_since is None else self._clock.monotonic() - self._serves_since
        seconds = self._retry.delay(ending, served_seconds=served_seconds)
        was_absent, self.is_absent = self.is_absent, isinstance(ending, errors.NotFound)
        if ending is not None and seconds and not (was_absent and self.is_absent):  # said once: it may last for ever
            self._log.warning("the watch ended; trying again", error=str(ending), cause=kind, seconds=round(seconds, 1))
        return seconds

    @property
    def _can_stream(self) -> bool:
        """Lists that break off are read page by page for once; those that are refused or silent, for a while."""
        return self._clock.monotonic() >= self._streams_from and self._unfinished_streams < MOST_UNFINISHED_STREAMS

    def _should_stop_waiting(self, ending: errors.ApiError | None) -> bool:
        """Whether those who wait for a list should go on without it: the others can be read meanwhile."""
        if not self._relist_pending or self._waiters or not isinstance(ending, errors.Refused):
            return False
        has_waited = self._clock.monotonic() - self._waiting_since
        return isinstance(ending, errors.Forbidden | errors.NotFound) or has_waited >= self._timing.patience

    # The list, page by page

    async def _list(self) -> None:
        version = ""
        parts = pager.parts(self._client.stream, self._resource, self._scope, clock=self._clock)
        async with aclosing(parts):
            async for part in parts:
                self._active_at = self._clock.monotonic()
                if part.is_first:
                    self._relist = self._writer.start_relist()
                for raw in part.items:
                    self._on_change("ADDED", raw)
                    await self._yield_to_loop()
                version = part.resource_version
        self._complete(version)

    def _complete(self, version: str) -> None:
        """The list is what the cache holds from now on."""
        if self._relist is None or not version:
            # Whatever this came from, nothing may be deleted on its word.
            raise errors.Garbled("a list without a version")
        self._relist.finish(version)
        self._instruments.listed(len(self._relist), self._clock.monotonic() - self._turn_began)
        self._version, self._relist, self._was_cut_off = version, None, False
        self._relist_pending = bool(self._waiters)
        self._release()

    def _release(self) -> None:
        """End all waits, except those that began after the list did."""
        for promise in self._promises:
            if not promise.done():
                promise.set_result(None)
        self._promises = []

    # The watch, which may begin with a streamed list

    async def _watch(self) -> None:
        seconds = int(self._timing.shortest_watch * (1 + self._chance()))
        if self._version is None:
            request = requests.watch_list(self._resource, self._scope, timeout_seconds=seconds)
            self._relist = self._writer.start_relist()
        else:
            request = requests.watch(
                self._resource, self._scope, resource_version=self._version, timeout_seconds=seconds
            )
        self._ends_at = self._clock.monotonic() + seconds
        try:
            async with self._clock.timeout(seconds + self._timing.grace):
                await self._read(request)
        except TimeoutError as error:
            raise errors.ReplyLost("the watch fell silent, or did not end when it should have") from error

    async def _read(self, request: Request) -> None:
        async with self._client.stream(request) as chunks:
            self._on_open()
            await self._check_history()
            try:
                async with self._clock.timeout_at(self._silent_at):
                    await self._follow(chunks)
            except TimeoutError:
                if self._relist is not None:
                    self._stop_streaming_lists("silent")
                raise

    async def _follow(self, chunks: AsyncIterator[bytes]) -> None:
        splitter = LineSplitter()
        async for chunk in chunks:
            self._active_at = self._clock.monotonic()
            for line in splitter.feed(chunk):
                self._on_line(responses.read_line(line))
                await self._yield_to_loop()

    def _silent_at(self) -> float:
        """When nothing will have come for too long, unless something comes before."""
        return self._active_at + (self._timing.silence if self._relist is None else self._timing.mark)

    def _on_open(self) -> None:
        self._active_at, self.is_absent = self._clock.monotonic(), False
        self._instruments.watching()
        if self._relist is None:
            self._serves_since = self._active_at
        else:
            self._unfinished_streams += 1

    async def _check_history(self) -> None:
        """After an interruption: make sure that the apiserver has been where we are.

        After etcd was restored from a snapshot it has not; but it accepts a watch from a version that it has yet to
        reach, and is silent up to it, perhaps for days. Asked when it has accepted the watch, and so is there.
        """
        if self._version is None or not self._was_cut_off:
            return
        current = await pager.current_resource_version(self._client.send_once, self._resource, self._scope)
        self._active_at = self._clock.monotonic()
        if (resource_version.parse(current) or 0) < (resource_version.parse(self._version) or 0):
            raise _went_back(current, self._version)
        self._was_cut_off = False

    def _on_line(self, line: responses.WatchLine) -> None:
        match line.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._on_change(line.type, line.object)
            case "BOOKMARK":
                self._on_bookmark(responses.read_bookmark(line.object))
            case "ERROR":
                raise responses.read_error(line.object)
            case _:
                raise errors.Garbled(f"a watch sent a line of type {line.type[:40]!r}")
        self._retry.progressed()

    def _on_change(self, kind: str, raw: msgspec.Raw) -> None:
        if self._relist is not None:
            self._relist.apply(kind, raw)
        else:
            self._version = self._writer.apply(kind, raw) or self._version

    def _on_bookmark(self, bookmark: responses.Bookmark) -> None:
        version = bookmark.metadata.resource_version
        if self._relist is not None:
            self._on_bookmark_of_list(version, is_end=bookmark.ends_initial_events)
        elif self._writer.on_bookmark(version):
            self._version = version or self._version
        else:
            raise _went_back(version, self._version)

    def _on_bookmark_of_list(self, version: str, *, is_end: bool) -> None:
        if not is_end:
            # The first bookmark is the mark. It has been lost, or this apiserver does not know what it is.
            self._stop_streaming_lists("without the mark of its end")
            raise errors.Garbled("a streamed list went on without the mark of its end")
        self._complete(version)
        self._unfinished_streams = 0
        self._serves_since = self._clock.monotonic()

    def _stop_streaming_lists(self, cause: str) -> None:
        self._log.info("a list was not streamed; reading lists page by page", cause=cause, seconds=self._timing.paged)
        self._streams_from = self._clock.monotonic() + self._timing.paged

    async def _yield_to_loop(self) -> None:
        """Give the other tasks a turn when decoding has taken its slice: a long list must not stall them."""
        if self._clock.monotonic() - self._turned_at >= self._timing.slice:
            await self._clock.sleep(0)
            self._turned_at = self._clock.monotonic()


def _refuses_streaming(ending: errors.ApiError | None) -> bool:
    """Whether the apiserver does not stream lists: an older one, or one where it is switched off."""
    return isinstance(ending, errors.Refused) and ending.code in {400, 422}


def _went_back(theirs: str, ours: str | None) -> errors.ApiError:
    message = f"the apiserver is at {theirs}, and we were at {ours} already"
    return errors.ResourceVersionTooLarge(504, errors.Status(message=message))
