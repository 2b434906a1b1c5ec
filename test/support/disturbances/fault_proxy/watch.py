"""One open watch: lines in from the apiserver, lines out to the client.

Between the two stand the rules, which turn one line into none, one or several, with a time before which each may not
leave, or into the end of the stream. Lines are read only as fast as the client takes them, so that a client that is
slow here is slow for the apiserver too; a rule that delays lines calls ``read_ahead``, because the delay of the next
line counts from its own arrival.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import msgspec

from support.disturbances.fault_proxy.messages import Body, Cut, Ending
from support.disturbances.fault_proxy.request import Call

INITIAL_END = "INITIAL_END"
"""The pseudo type of the bookmark that ends the initial events of a watch-list."""

_END_ANNOTATION = "k8s.io/initial-events-end"
_LINES_AHEAD = 64
_EVENTS_KEPT = 10


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - a field of the API
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Event(msgspec.Struct):
    type: str = ""
    object: _Object = msgspec.field(default_factory=_Object)


_decoder = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class Line:
    """One line of a watch, with its newline, and when it may leave."""

    raw: bytes
    at: float = 0.0
    """When it arrived, by ``time.monotonic()``."""
    due: float = 0.0

    @classmethod
    def of(cls, event: object) -> "Line":
        return cls(msgspec.json.encode(event) + b"\n", at=time.monotonic())

    def delayed(self, seconds: float) -> "Line":
        """Return the same line, not before *seconds* after its arrival."""
        return replace(self, due=self.at + seconds)

    @cached_property
    def _event(self) -> _Event:
        try:
            return _decoder.decode(self.raw)
        except (msgspec.MsgspecError, RecursionError):
            return _Event()  # passes untouched; only rules without a condition on lines fit it

    @property
    def metadata(self) -> _Metadata:
        return self._event.object.metadata

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED, BOOKMARK, ERROR; ``""`` for a line that is no event."""
        return self._event.type

    @property
    def types(self) -> frozenset[str]:
        """All names by which a trigger may ask for this event."""
        is_end = self.type == "BOOKMARK" and (self.metadata.annotations or {}).get(_END_ANNOTATION) == "true"
        return frozenset({self.type, INITIAL_END} if is_end else {self.type})

    @cached_property
    def version(self) -> int:
        """The resourceVersion as a number, 0 for none."""
        text = self.metadata.resourceVersion
        return int(text) if text.isdecimal() else 0


class EventLog:
    """The last events of each object of one resource, for replays."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, str], deque[Line]] = {}

    def add(self, line: Line) -> None:
        if line.version and line.type not in {"BOOKMARK", "ERROR"}:
            self._of(line).append(line)

    def older(self, line: Line) -> Line | None:
        """Return the last event of the same object before *line*."""
        earlier = [event for event in self._of(line) if event.version < line.version]
        return max(earlier, key=lambda event: event.version, default=None)

    def _of(self, line: Line) -> deque[Line]:
        key = line.metadata.namespace, line.metadata.name
        return self._events.setdefault(key, deque(maxlen=_EVENTS_KEPT))


Output = Sequence[Line | Cut]
"""What becomes of a line: lines for the client, and perhaps the end."""


class LineRule(Protocol):
    """What a watch needs to know of a rule."""

    async def on_line(self, line: Line, stream: "WatchStream") -> Output:
        """Return what becomes of *line*; itself when the rule does not act on it."""


class WatchStream:
    """One open watch. ``body`` is what the client gets; the rest is for rules and for commands of a test."""

    def __init__(self, call: Call, log: EventLog, rules: Callable[[], Iterable[LineRule]]) -> None:
        self.call = call
        self.log = log
        self._rules = rules
        self._arrived: deque[Line | Cut] = deque()
        self._injected: deque[Line] = deque()
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_read_ahead = False
        self._cut: asyncio.Future[Cut] = asyncio.get_running_loop().create_future()

    def read_ahead(self) -> None:
        """Take lines as they arrive from now on, however slow the client is."""
        self._is_read_ahead = True
        self._taken.set()

    def strike(self, output: Output) -> None:
        """Do something now: a Cut takes effect at once, even where a rule holds the stream; lines queue before it."""
        for item in output:
            if isinstance(item, Line):
                self._injected.append(item)
            elif not self._cut.done():
                self._cut.set_result(item)
        self._news.set()

    async def wait(self, awaitable: Awaitable[object]) -> None:
        """Wait on behalf of this stream, which may be cut meanwhile."""
        task: asyncio.Future[object] = asyncio.ensure_future(awaitable)
        waited: set[asyncio.Future[Any]] = {task, self._cut}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self._cut.result()
            task.result()
        finally:
            task.cancel()

    async def pump(self, chunks: AsyncIterator[bytes]) -> None:
        """Split what the apiserver sends into lines, and queue them; runs as a task of its own."""
        rest: list[bytes] = []
        ending = Cut(Ending.CLEAN)
        try:
            async for chunk in chunks:
                *ends, tail = chunk.split(b"\n")
                for end in ends:
                    await self._put(Line(b"".join([*rest, end, b"\n"]), at=time.monotonic()))
                    rest.clear()
                rest.append(tail)
        except Cut as cut:
            ending = cut
        if partial := b"".join(rest):
            await self._put(Line(partial, at=time.monotonic()))
        self._arrived.append(ending)
        self._news.set()

    async def body(self) -> Body:
        """Yield the lines for the client, until one of the three parties ends it."""
        try:
            while True:
                for item in await self._next():
                    if isinstance(item, Cut):
                        raise item
                    if (seconds := item.due - time.monotonic()) > 0:
                        await self.wait(asyncio.sleep(seconds))
                    yield item.raw
        except Cut:
            while self._injected:
                yield self._injected.popleft().raw
            raise

    async def _put(self, line: Line) -> None:
        self.log.add(line)
        while len(self._arrived) >= _LINES_AHEAD and not self._is_read_ahead:
            self._taken.clear()
            await self._taken.wait()
        self._arrived.append(line)
        self._news.set()

    async def _next(self) -> Output:
        while not (self._injected or self._arrived):
            self._news.clear()
            await self.wait(self._news.wait())
        if self._cut.done():
            raise self._cut.result()
        if self._injected:
            return [self._injected.popleft()]
        item = self._arrived.popleft()
        self._taken.set()
        output: Output = [item]
        for rule in self._rules():
            output = [
                result
                for part in output
                for result in (await rule.on_line(part, self) if isinstance(part, Line) else [part])
            ]
        return output
