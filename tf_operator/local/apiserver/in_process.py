"""An ``ApiServer`` as a ``Transport``: the same clients, without a socket.

``Edge`` is where a simulation injects what happens on the way: latency, lost replies, stale or broken watches.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final

from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.transport import Reply, no_guard


class Edge:
    """What happens to requests, replies and watches between client and server; here nothing."""

    async def on_request(self, request: Request) -> None:
        """Before the server has the request: wait, or raise an ``ApiError`` of what is never sent."""

    async def on_reply(self, _request: Request, answer: Response | WatchStream) -> Response | WatchStream:
        """When the server has carried it out: wait, raise what becomes of the reply, or give what arrives."""
        return answer

    async def on_lines(self, _request: Request, lines: list[bytes]) -> list[bytes]:
        """Before lines of a watch arrive: wait, raise, or give what arrives."""
        return lines


NO_FAULTS: Final = Edge()


class InProcess:
    """Sends requests to a server in the same process, on the same event loop."""

    host = "in-process"
    problem = ""
    watches: tuple["WatchReply", ...] = ()
    """Those that are open, the oldest first."""

    def __init__(self, server: ApiServer, clock: Clock, *, edge: Edge | None = None, collects: bool = True) -> None:
        """``collects``: call ``ApiServer.collect`` soon after writes; without it somebody else does."""
        self._clock = clock
        self._edge = edge or NO_FAULTS
        self._collects = collects
        self.go_on_with(server)

    def go_on_with(self, server: ApiServer) -> None:
        """From now on send requests to this server: the last one has been restarted, or restored from a backup."""
        self._server = server
        if self._collects:
            collect_soon(server)
        for watch in self.watches:
            watch.cut(errors.ReplyLost("the server has been restarted"))

    def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AbstractAsyncContextManager[Reply]:
        return self._sent(request, before_send)

    @asynccontextmanager
    async def _sent(self, request: Request, before_send: Callable[[], object]) -> AsyncIterator[Reply]:
        await self._edge.on_request(request)
        before_send()
        answer = self._server.handle(request)
        try:
            reply = await self._edge.on_reply(request, answer)
            if isinstance(reply, Response):
                yield WholeReply(reply)
            else:
                async with self._open(WatchReply(request, reply, self._clock, self._edge)) as watch:
                    yield watch
        finally:
            if isinstance(answer, WatchStream):
                answer.close()

    @asynccontextmanager
    async def _open(self, watch: "WatchReply") -> AsyncIterator["WatchReply"]:
        self.watches += (watch,)
        try:
            yield watch
        finally:
            self.watches = tuple(other for other in self.watches if other is not watch)


def collect_soon(server: ApiServer) -> None:
    """From now on, collect in a turn of the event loop of its own, after whatever may have left garbage."""
    scheduled: list[asyncio.Handle] = []

    def collect() -> None:
        scheduled.clear()
        if server.collect():
            schedule()

    def schedule() -> None:
        if not scheduled:
            with suppress(RuntimeError):  # no loop runs yet; the first write in one finds all that is due
                scheduled.append(asyncio.get_running_loop().call_soon(collect))

    server.on_garbage(schedule)


class WholeReply:
    def __init__(self, response: Response) -> None:
        self._response = response
        self.status = response.code

    def header(self, name: str) -> str | None:
        """A header, by its name in any spelling."""
        return {key.lower(): value for key, value in self._response.headers.items()}.get(name.lower())

    async def read(self) -> bytes:
        return self._response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._response.body


class WatchReply:
    """A reply that goes on. ``inject`` and ``cut`` are for whoever simulates what may happen to it."""

    status = 200

    def __init__(self, request: Request, stream: WatchStream, clock: Clock, edge: Edge) -> None:
        self.request = request
        self._stream = stream
        self._clock = clock
        self._edge = edge
        self._woken = asyncio.Event()
        self._injected = b""
        self._is_cut = False
        self._error: errors.ApiError | None = None

    def header(self, _name: str) -> str | None:
        return None

    async def read(self) -> bytes:
        """The whole stream, when it has ended."""
        return b"".join([chunk async for chunk in self])

    def inject(self, chunk: bytes) -> None:
        """Have something arrive that the server has not sent."""
        self._injected += chunk
        self._woken.set()

    def cut(self, error: errors.ApiError | None = None) -> None:
        """End it: by an error, or as if it were over."""
        self._is_cut, self._error = True, error
        self._woken.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._stream.on_news(self._woken.set)
        while not self._is_cut:
            self._woken.clear()
            lines, injected, self._injected = self._stream.news(), self._injected, b""
            if lines:
                yield b"".join(await self._edge.on_lines(self.request, lines))
            if injected:
                yield injected
            elif self._stream.is_ended:
                return
            elif not lines:
                await self._wait()
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        timer = self._clock.call_at(self._stream.wakes_at, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
