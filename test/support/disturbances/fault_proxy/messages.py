"""HTTP/1.1 between the fault proxy and its clients: requests in, replies out, every byte under control.

Written by hand, because a server library would repair what the proxy is there to break: a chunk without an end, a
wrong length, a connection that ends in the middle of a reply. It reads what Kubernetes clients send and no more: no
pipelining, no trailers, no upgrades (exec and port-forward).

The body of a reply is an async generator of pieces. Whatever ends a reply early raises ``Cut``, in the body or before
there is a reply.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Any, Self

JSON_TYPE = "application/json"
HEAD_LIMIT = 1 << 20

Headers = Sequence[tuple[str, str]]
Body = AsyncGenerator[bytes, None]

# These headers belong to one connection: each side of the proxy has its own (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"}
    | {"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Ending(Enum):
    """How a reply ends, or a connection."""

    CLEAN = "clean"
    """As HTTP wants it; the connection stays usable. A reply that is shorter than its announced length ends by FIN."""
    FIN = "fin"
    """The connection is closed before the reply is complete."""
    RST = "rst"
    """The connection is reset."""
    SILENT = "silent"
    """The connection stays open, and no byte moves on it in either direction."""


class Cut(Exception):
    """The reply ends here. Not an error, but the way out of any depth of a reply."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.value)
        self.ending = ending


class Raw(bytes):
    """A piece of a body that goes out as it is, framing included."""

    __slots__ = ()


def header(headers: Headers, name: str) -> str:
    """Return the first value of a header, ``""`` without one."""
    return next((value for key, value in headers if key.lower() == name.lower()), "")


def end_to_end(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers that a proxy passes on."""
    return [(key, value) for key, value in headers if key.lower() not in _HOP_BY_HOP]


def with_header(headers: Headers, name: str, value: str) -> list[tuple[str, str]]:
    """Return the headers with one value for *name*."""
    return [*((key, old) for key, old in headers if key.lower() != name.lower()), (name, value)]


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its complete body."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent to the client. Without a *length* the body goes out in chunks, one per piece."""

    code: int
    headers: Headers
    body: Body
    length: int | None = None

    @classmethod
    def of(cls, code: int, body: bytes, content_type: str = JSON_TYPE, headers: Headers = ()) -> Self:
        return cls(code, [("Content-Type", content_type), *headers], pieces_of(body), len(body))

    @classmethod
    def of_json(cls, code: int, body: dict[str, Any], headers: Headers = ()) -> Self:
        return cls.of(code, json.dumps(body).encode() + b"\n", headers=headers)

    @property
    def content_type(self) -> str:
        return header(self.headers, "Content-Type")

    def with_body(self, body: Body, *, length: int | None = None) -> Self:
        return replace(self, body=body, length=length)

    async def drain(self) -> None:
        async with aclosing(self.body) as pieces:
            async for _ in pieces:
                pass

    def head(self) -> bytes:
        framing = ("Transfer-Encoding", "chunked") if self.length is None else ("Content-Length", str(self.length))
        lines = [f"HTTP/1.1 {self.code} {_PHRASES.get(self.code, 'Unknown')}"]
        lines += [f"{key}: {value}" for key, value in (*self.headers, framing)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def framed(self, piece: bytes) -> bytes:
        if self.length is not None or isinstance(piece, Raw):
            return piece
        return b"%x\r\n%b\r\n" % (len(piece), piece)


async def pieces_of(*pieces: bytes) -> Body:
    """Make a body of these pieces."""
    for piece in pieces:
        yield piece


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    """Read the next request of a connection; ``None`` when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head[:-4].decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in rest)]
    if header(headers, "Expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if header(headers, "Transfer-Encoding").lower() == "chunked":
        body = b"".join([chunk async for chunk in _read_chunks(reader)])
    else:
        body = await reader.readexactly(int(header(headers, "Content-Length") or 0))
    return Request(method, target, headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
