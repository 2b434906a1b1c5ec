"""The connections of the server: only so many at once, and none for long without a request that was let in.

Every user of the machine may connect to loopback. Whoever sends no token, or nothing, must not keep the owner of the
server from his own place, and must not use up the file descriptors of the process, which starts trainings with them.
Nor must connections that their client only keeps for a request to come: Go keeps them for 90 seconds.
"""

import asyncio
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

from aiohttp import web

from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock, Timer
from tf_operator.machinery.log import Logger

MOST: Final = 4096
"""Of which a kubectl takes one, and each watch or log that is followed; fewer where the process may open few files."""
ADMITTED_WITHIN: Final = 5.0
"""Seconds for the TLS handshake and the first request."""
WRITE_WITHIN: Final = 30.0
"""Seconds in which a client has to read a piece."""
_CHUNK: Final = 256 * 1024
_PAUSE: Final = 0.1
"""Seconds after which a connection is accepted again when the process has no file descriptor left."""

_log = Logger(__name__)
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _most() -> int:
    """Half of the files that this process may open, within reason."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else min(MOST, files // 2)


class ClientConnection:
    """One client."""

    def __init__(self, accepted: socket.socket, protocol: web.RequestHandler) -> None:
        self.accepted = accepted
        self.protocol = protocol
        self.transport: asyncio.Transport | None = None
        self.is_admitted = False
        self.is_busy = False
        """Whether a request that was let in is being answered."""
        self.limit: Timer | None = None
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close it now, whatever has not been sent."""
        if self.limit:
            self.limit.cancel()
        if self.transport:
            sockets.abort(self.transport)
        elif self.task:
            self.task.cancel()


class ConnectionPool:
    """All connections of one listener; everything runs on its loop."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext | None, clock: Clock) -> None:
        self._server = server
        self._tls: dict[str, Any] = (
            {"ssl": tls, "ssl_handshake_timeout": ADMITTED_WITHIN, "ssl_shutdown_timeout": 1.0} if tls else {}
        )
        self._clock = clock
        self._open: dict[object, ClientConnection] = {}
        self._is_reported = False
        """Whether the log says that there are too many."""

    def __len__(self) -> int:
        return len(self._open)

    async def accept(self, listener: socket.socket) -> NoReturn:
        """Accept connections until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    accepted = await sockets.accept(listener)
                except OSError:
                    await self._clock.sleep(_PAUSE)
                    continue
                if len(self._open) >= _most() and not self._close_one():
                    self._report()
                    accepted.close()
                    continue
                self._add(accepted, tasks)
                # While the backlog is full, ``accept`` returns without waiting: everything else needs a turn.
                await self._clock.sleep(0)

    def admit(self, protocol: object) -> None:
        """A request of this protocol has been let in: the connection may stay."""
        if connection := self._open.get(protocol):
            connection.is_admitted = connection.is_busy = True
            if connection.limit:
                connection.limit.cancel()

    def release(self, protocol: object) -> None:
        """The request has been answered."""
        if connection := self._open.get(protocol):
            connection.is_busy = False

    def lost(self, protocol: object) -> None:
        """The connection of this protocol is closed."""
        if connection := self._open.pop(protocol, None):
            connection.close()

    def close(self) -> None:
        """Close all."""
        for protocol in tuple(self._open):
            self.lost(protocol)

    def _add(self, accepted: socket.socket, tasks: asyncio.TaskGroup) -> None:
        connection = ClientConnection(accepted, self._server())
        self._open[connection.protocol] = connection
        when = self._clock.monotonic() + ADMITTED_WITHIN
        connection.limit = self._clock.call_at(when, lambda: self.lost(connection.protocol))
        connection.task = tasks.create_task(self._start(connection))
        # Not by the task itself: one that is cancelled before it begins never runs.
        connection.task.add_done_callback(lambda _: self._started(connection))

    def _close_one(self) -> bool:
        """Close the oldest connection that has sent nothing that was let in, or else the oldest that is idle."""
        idle = [connection for connection in self._open.values() if not connection.is_busy]
        if idle:
            self.lost(min(idle, key=lambda connection: connection.is_admitted).protocol)
        return bool(idle)

    def _report(self) -> None:
        if not self._is_reported:
            _log.warning("connections are refused: too many are open; ulimit -n bounds them", open=len(self._open))
        self._is_reported = True

    async def _start(self, connection: ClientConnection) -> None:
        """Shake hands, and let the protocol read the request."""
        try:
            connection.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection.protocol, connection.accepted, **self._tls
            )
        except OSError:  # it broke, is not TLS, or was too slow
            pass
        except Exception:  # noqa: BLE001 (a bug must not end the others)
            _log.exception("a connection could not be served")

    def _started(self, connection: ClientConnection) -> None:
        if connection.transport is None or connection.protocol not in self._open:
            self.lost(connection.protocol)
            connection.close()
            connection.accepted.close()


class StreamingServer(web.Server):
    """Answers requests, some by streams that end only when the client leaves, or the server."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None, clock: Clock) -> None:
        super().__init__(self._answered, handler_cancellation=True)
        self._request_answer = answer
        self.streams = set[asyncio.Event]()
        """What wakes each of them."""
        self.is_ending = False
        self.pool = ConnectionPool(self, tls, clock)
        self._limits = clock

    async def _answered(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._request_answer(http)
        finally:
            self.pool.release(http.protocol)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """The connection is closed, whoever closed it."""
        super().connection_lost(handler, exc)
        self.pool.lost(handler)

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

    async def end(self, within: float) -> None:
        """End streams, let the other requests finish for so many seconds, and close all connections."""
        self.is_ending = True
        for woken in self.streams:
            woken.set()
        self.pre_shutdown()
        await self.shutdown(within)
        self.pool.close()
