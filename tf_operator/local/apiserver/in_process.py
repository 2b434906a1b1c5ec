"""An ``ApiServer`` as a ``Transport``: the same clients, without a socket.

``Edge`` is where a simulation injects what happens on the way: latency, lost replies, stale or broken watches.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.watches import WatchStream
from tf_operator.machinery.clock import Clock
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


class InProcess:
    """Sends requests to a server in the same process, on the same event loop."""

    host = "in-process"
    problem = ""

    def __init__(self, server: ApiServer, clock: Clock, *, edge: Edge | None = None, collects: bool = True) -> None:
        """``collects``: call ``ApiServer.collect`` soon after writes; without it somebody else does."""
        self._server = server
        self._clock = clock
        self._edge = edge or Edge()
        if collects:
            collect_soon(server)

    def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AbstractAsyncContextManager[Reply]:
        """As every transport does."""
        return self._sent(request, before_send)

    @asynccontextmanager
    async def _sent(self, request: Request, before_send: Callable[[], object]) -> AsyncIterator[Reply]:
        await self._edge.on_request(request)
        before_send()
        answer = self._server.handle(request)
        try:
            arrived = await self._edge.on_reply(request, answer)
            if isinstance(arrived, Response):
                yield WholeReply(arrived)
            else:
                yield WatchReply(arrived, self._lines(request, arrived))
        finally:
            if isinstance(answer, WatchStream):
                answer.close()

    async def _lines(self, request: Request, stream: WatchStream) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        stream.on_news(woken.set)
        while True:
            woken.clear()
            lines = stream.news()
            if lines:
                yield b"".join(await self._edge.on_lines(request, lines))
            elif stream.is_ended:
                return
            else:
                timer = self._clock.call_at(stream.wakes_at, woken.set)
                try:
                    await woken.wait()
                finally:
                    timer.cancel()


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
    """A reply that is there."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self.status = response.code

    def header(self, name: str) -> str | None:
        """A header, by its name in any spelling."""
        return {key.lower(): value for key, value in self._response.headers.items()}.get(name.lower())

    async def read(self) -> bytes:
        """The whole body."""
        return self._response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._response.body


class WatchReply:
    """A reply that goes on."""

    status = 200

    def __init__(self, stream: WatchStream, lines: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._lines = lines

    def header(self, _name: str) -> str | None:
        """There are none."""
        return None

    async def read(self) -> bytes:
        """The whole stream, when it has ended."""
        return b"".join([chunk async for chunk in self._lines])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._lines
