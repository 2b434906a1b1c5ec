"""The entrance of one client: a port of its own, TLS, and the connections that came through.

Each client has a listener of its own, which triggers and logs know by the client's name. A port that nobody listens on
is a fault of whole connections. ALPN offers HTTP/1.1 only: Go's clients fall back to it.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any

from lab.control_plane.connections import abort
from support.disturbances.fault_proxy.messages import HEAD_LIMIT, Cut, Ending, Reply, Request, header, read_request

_TLS_GOODBYE_SECONDS = 1.0
_BACKLOG = 512
_NO_LINGER = struct.pack("ii", 1, 0)


class Tasks:
    """The tasks of the proxy: all end with it, and what any of them raises is kept for the test."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.errors: list[Exception] = []

    def spawn(self, work: Coroutine[Any, Any, None], *, lastly: Callable[[], object] = bool) -> Callable[[], object]:
        """Run something in the background, and *lastly* even if it is cancelled before it begins.

        Return what cancels it.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        task.add_done_callback(lambda _: lastly())
        return task.cancel

    async def close(self) -> None:
        while self._tasks:
            for task in (tasks := list(self._tasks)):
                task.cancel()
            await asyncio.wait(tasks)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.errors.append(error)


class _Protocol(asyncio.StreamReaderProtocol):
    """Notices the end of the connection also while nobody reads."""

    def __init__(self, reader: asyncio.StreamReader, on_lost: Callable[[], object]) -> None:
        super().__init__(reader)
        self._on_lost = on_lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost()


class Connection:
    """One TLS connection of a client: requests in, replies out, one after the other."""

    def __init__(
        self, listener: "Listener", accepted: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._listener = listener
        self._socket = accepted
        self._reader = reader
        self._writer = writer
        self._task = asyncio.current_task()

    async def serve(self) -> None:
        """Answer requests until either side ends the connection."""
        is_open = True
        while is_open and (request := await read_request(self._reader, self._writer)) is not None:
            is_open = header(request.headers, "Connection").lower() != "close"
            try:
                async with self._listener.answer(request, self._listener) as reply:
                    await self._send(reply)
            except Cut as end:
                await self._end(end.ending)
                is_open = False
        self._writer.close()

    def drop(self) -> None:
        """Send RST, and answer nothing that was asked."""
        if self._task:
            self._task.cancel()
        self._reset()

    async def _send(self, reply: Reply) -> None:
        left = reply.length
        await self._write(reply.head())
        async with aclosing(reply.body) as pieces:
            try:
                async for piece in pieces:
                    if piece:
                        await self._write(reply.framed(piece))
                    if left is not None and (left := left - len(piece)) <= 0:
                        return  # the client has it all and may hang up: do not wait for the end on the other side
            except Cut as end:
                if end.ending is not Ending.CLEAN or reply.length is not None:
                    raise
        if reply.length is None:
            await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _end(self, ending: Ending) -> None:
        if ending is Ending.SILENT:
            self._writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        elif ending is Ending.RST:
            self._reset()

    def _reset(self) -> None:
        with suppress(OSError):  # it may be closed already
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        abort(self._writer.transport)


Answer = Callable[[Request, "Listener"], AbstractAsyncContextManager[Reply]]


class Listener:
    """The entrance of one client."""

    def __init__(self, client: str, *, context: ssl.SSLContext, answer: Answer, tasks: Tasks) -> None:
        self.client = client
        self.answer = answer
        self._context = context
        self._tasks = tasks
        self._connections: set[Connection] = set()
        self._hang_ups = 0
        self._listener: socket.socket | None = None
        # Bound and never listening: keeps the port ours, and refusing, while there is no listener.
        self._reserved = self._socket(0)
        self.port: int = self._reserved.getsockname()[1]

    def listen(self) -> None:
        self._listener = self._socket(self.port)
        self._listener.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def present(self, context: ssl.SSLContext) -> None:
        """Show another certificate from now on, and hang up on those who have seen the old one."""
        self._context = context
        self.hang_up()

    def refuse(self) -> None:
        """Refuse new connections, and reset those that are open."""
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        self.hang_up()

    def hang_up(self) -> None:
        """Reset all connections, and answer nothing that was asked on them."""
        self._hang_ups += 1
        for connection in list(self._connections):
            connection.drop()

    def close(self) -> None:
        self.refuse()
        self._reserved.close()

    def _socket(self, port: int) -> socket.socket:
        # The protocol is named, or asyncio would leave out TCP_NODELAY and each reply would wait 40 ms for an ACK.
        bound = socket.socket(proto=socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.setblocking(False)
        bound.bind(("127.0.0.1", port))
        return bound

    def _accept(self, listener: socket.socket) -> None:
        # Not loop.sock_accept in a task: cancelled at the wrong moment, that loses a connection without closing it.
        with suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = listener.accept()
            accepted.setblocking(False)
            self._tasks.spawn(self._serve(accepted), lastly=accepted.close)

    async def _serve(self, accepted: socket.socket) -> None:
        with suppress(OSError, EOFError):  # whatever a client does to its connection is no error of ours
            await self._serve_tls(accepted)

    async def _serve_tls(self, accepted: socket.socket) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        reader = asyncio.StreamReader(limit=HEAD_LIMIT)
        protocol = _Protocol(reader, task.cancel)
        hang_ups = self._hang_ups
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=self._context, ssl_shutdown_timeout=_TLS_GOODBYE_SECONDS
        )
        connection = Connection(self, accepted, reader, asyncio.StreamWriter(transport, protocol, reader, loop))
        self._connections.add(connection)
        # A client is connected as soon as its part of the handshake is done, which is before ours is: what has reset
        # the open connections meanwhile resets this one.
        if self._hang_ups != hang_ups:
            connection.drop()
        try:
            await connection.serve()
            await asyncio.Event().wait()  # for the end of the connection, which cancels this task
        finally:
            self._connections.discard(connection)
            abort(transport)
