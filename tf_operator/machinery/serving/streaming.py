"""A server on loopback whose answers may be streams, which end only when the client leaves, or the server.

Every user of the machine may connect to loopback. Whoever sends no token, or nothing, must not keep the owner of the
server from his own place, and must not use up the file descriptors of the process, which starts trainings with them.
Nor must connections that their client only keeps for a request to come: Go keeps them for 90 seconds.
"""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.serving.connections import ConnectionPolicy, Connections

MOST: Final = 4096
"""Of which a kubectl takes one, and each watch or log that is followed; fewer where the process may open few files."""
WRITE_WITHIN: Final = 30.0
"""Seconds in which a client has to read a piece."""
_CHUNK: Final = 256 * 1024

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _policy() -> ConnectionPolicy:
    """Half of the files that this process may open, within reason; a stream lasts for as long as it is read."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ConnectionPolicy(MOST if files == resource.RLIM_INFINITY else min(MOST, files // 2))


class StreamingServer(web.Server):
    """Answers requests, some by streams that end only when the client leaves, or the server."""

    def __init__(self, answer: Answer, clock: Clock) -> None:
        super().__init__(self._answer_request, handler_cancellation=True)
        self._request_answer = answer
        self.streams = set[asyncio.Event]()
        """What wakes each of them."""
        self.is_ending = False
        self._limits = clock
        self._open: Connections | None = None

    @asynccontextmanager
    async def accepting(
        self, listener: socket.socket, *, tls: ssl.SSLContext | None, ends_within: float
    ) -> AsyncIterator[None]:
        """Serve at a socket that listens, until the block is left; the socket and all connections are closed then."""
        listener.settimeout(0)
        async with asyncio.TaskGroup() as tasks:
            make_tls = (lambda: tls) if tls else None
            self._open = Connections(self, _policy(), self._limits, tasks=tasks, tls=make_tls)
            accepting = tasks.create_task(self._open.accept(listener))
            try:
                yield
            finally:
                accepting.cancel()
                listener.close()
                await self.end(ends_within)
                self._open.close_all()

    async def end(self, within: float) -> None:
        """End streams, and let the other requests finish for so many seconds."""
        self.is_ending = True
        for wakeup in self.streams:
            wakeup.set()
        self.pre_shutdown()
        await self.shutdown(within)

    def admit(self, http: web.BaseRequest) -> None:
        """Whoever has sent this request may: the connection may stay."""
        if self._open:
            self._open.on_request(http.protocol, is_admitted=True)

    async def _answer_request(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._request_answer(http)
        finally:
            if self._open:
                self._open.on_reply_sent(http.protocol)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        if self._open:
            self._open.on_lost(handler)

    async def write(self, http: web.BaseRequest, response: web.StreamResponse, data: bytes) -> None:
        """In pieces, each of which has to be read in time: what a client does not read must not be kept for it."""
        for start in range(0, len(data), _CHUNK):
            try:
                async with self._limits.timeout(WRITE_WITHIN):
                    await response.write(memoryview(data)[start : start + _CHUNK])
            except TimeoutError as error:
                # Closed in order, the connection would wait for ever to hand out what is not read.
                if http.transport:
                    sockets.abort(http.transport)
                raise ConnectionResetError("the client does not read") from error
