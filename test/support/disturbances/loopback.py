"""A server on loopback that answers as a script says, byte by byte: what a broken load balancer does.

A script is one answer, several of which the last one stays, or a function of the request, maybe a coroutine function.
Every request is kept in ``server.requests``. Connections are kept alive until an answer says otherwise.
"""

import asyncio
import inspect
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from tf_operator.machinery import sockets

_MOST_HEAD = 64 * 1024


class Ending(Enum):
    KEPT = "kept"
    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Answer:
    data: bytes = b""
    ending: Ending = Ending.KEPT

    def then(self, ending: Ending) -> "Answer":
        return Answer(self.data, ending)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came; header names are in lower case. ``connection`` counts the connections."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


Script = Answer | Sequence[Answer] | Callable[[Seen], Answer | Awaitable[Answer]]

RESET = Answer(ending=Ending.RESET)
CLOSED = Answer(ending=Ending.CLOSED)
SILENT = Answer(ending=Ending.SILENT)


def reply(status: int, body: bytes = b"", **headers: str) -> Answer:
    """A well-formed reply; ``Retry_After="1"`` becomes ``Retry-After: 1``."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Answer("\r\n".join([*lines, "", ""]).encode() + body)


class Loopback:
    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.script = script
        self.requests: list[Seen] = []
        self._tls = tls
        self._host = host
        self._arrived = asyncio.Condition()
        self._clients: set[asyncio.Task[None] | None] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls, limit=_MOST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        while self._clients:
            for client in self._clients:
                assert client is not None
                client.cancel()
            await asyncio.sleep(0)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._clients)

    async def wait_seen(self, requests: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= requests)

    def freeze(self) -> None:
        """Read nothing more from the clients that are connected now, not even their farewells."""
        for writer in self._writers:
            writer.transport.pause_reading()  # type: ignore[attr-defined]

    def hang_up(self, ending: Ending) -> None:
        """End all connections now, in the middle of whatever they are at."""
        for writer in self._writers:
            _hang_up(writer, ending)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        self._clients.add(asyncio.current_task())
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer, connection=self._connections):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test has ended
        finally:
            self._clients.discard(asyncio.current_task())
            self._writers.discard(writer)
            sockets.abort(writer.transport)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, connection: int) -> bool:
        request = await _request(reader, connection)
        self.requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        answer = await self._answer(request)
        writer.write(answer.data)
        await writer.drain()
        if answer.ending is Ending.KEPT:
            return True
        if answer.ending is Ending.SILENT:
            await reader.read(1)  # until the client gives up
        _hang_up(writer, answer.ending)
        return False

    async def _answer(self, request: Seen) -> Answer:
        match self.script:
            case Answer():
                return self.script
            case Sequence():
                return self.script[min(len(self.requests), len(self.script)) - 1]
            case script:
                answer = script(request)
                return await answer if inspect.isawaitable(answer) else answer


def _hang_up(writer: asyncio.StreamWriter, ending: Ending) -> None:
    if ending is Ending.RESET:
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sockets.abort(writer.transport)
    else:
        writer.close()


async def _request(reader: asyncio.StreamReader, connection: int) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body, connection)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body
