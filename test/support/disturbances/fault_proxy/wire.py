"""A client that sees every byte: what a fault looks like on the wire, where a library would interpret it.

For the tests of the fault proxy, and for those that have to know what exactly their client was sent.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from lab.control_plane.connections import abort
from support.disturbances.fault_proxy.proxy import FaultProxy

SECONDS = 5.0


class Wire:
    """One TLS connection to a fault proxy."""

    def __init__(self, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._token = token
        self._reader = reader
        self._writer = writer
        self._length: str | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, proxy: FaultProxy, token: str = "", *, client: str = "client") -> AsyncIterator["Wire"]:
        """Connect, to ask with this token; closed, without a goodbye, at the end of the context."""
        trust = ssl.create_default_context(cadata=proxy.authority.decode())
        port = int(proxy.url(client).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        try:
            yield cls(token, reader, writer)
        finally:
            abort(writer.transport)
            with suppress(OSError):
                await writer.wait_closed()

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def ask(self, target: str, *, method: str = "GET", body: bytes = b"") -> None:
        """Send a request."""
        head = f"{method} {target} HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer {self._token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status code and headers of the reply, their names in small letters."""
        async with asyncio.timeout(SECONDS):
            head = await self._reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode().rstrip().split("\r\n")
        pairs = (line.split(": ", 1) for line in rest)
        headers = {key.lower(): value for key, value in pairs}
        self._length = headers.get("content-length")
        return int(first.split()[1]), headers

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body, ``b""`` at its end."""
        async with asyncio.timeout(SECONDS):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            return (await self._reader.readexactly(size + 2))[:-2]

    async def body(self) -> bytes:
        """The whole body of a reply that ends well."""
        if self._length is not None:
            async with asyncio.timeout(SECONDS):
                return await self._reader.readexactly(int(self._length))
        chunks: list[bytes] = []
        while chunk := await self.chunk():
            chunks.append(chunk)
        return b"".join(chunks)

    async def rest(self) -> bytes:
        """All bytes until the connection ends; ConnectionResetError where it is reset."""
        async with asyncio.timeout(SECONDS):
            return await self._reader.read()

    async def is_silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for a while, not even an end."""
        try:
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
        except TimeoutError:
            return True
        return False
