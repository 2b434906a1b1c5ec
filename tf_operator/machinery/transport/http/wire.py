"""One connection to a server, on which requests and their replies follow one another.

httptools (llhttp, the parser of Node) reads replies, and refuses what is none; what it does not bound is bounded here.
After anything unusual a wire is not used again: ``is_reusable`` says whether the next request may have it.
"""

import asyncio
from typing import Final, NoReturn

import httptools

from tf_operator.machinery import sockets
from tf_operator.machinery.transport import errors
from tf_operator.text import one_line

LARGEST_HEAD: Final = 16 * 1024
"""Of a reply, with what informational ones come before it."""
LARGEST_BODY: Final = 256 * 1024 * 1024
"""Of a reply that is read in one piece: a hundred times what an object may have."""
LARGE: Final = 256 * 1024
"""A longer body is sent piece by piece, since written at once it would hold the event loop; and a reader who takes what
comes piece by piece is that much behind at most."""

_CODING: Final = b"content-encoding"
_CODING_LENGTH: Final = len(_CODING)


class Wire(asyncio.Protocol):
    """A connection as asyncio's protocol. One caller at a time sends, and then reads the reply."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.status = 0
        """That of the reply; 0 until its head has come."""
        self.reason = b""
        self.is_complete = True
        """Whether the whole reply has come; nothing may come then."""
        self.idle_since = 0.0
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._unread = 0
        """Bytes that came since the request was sent, or since the last piece of a body: of a head, a trailer."""
        self._ends_with_connection = False
        self._is_kept = True
        self._is_open = True
        self._is_full = False
        """Whether the server takes no more of the request for now."""
        self._most_ahead = LARGE
        """More of a body that has come and was not read makes the server wait."""
        self._is_paused = False
        self._error: errors.ApiError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    @property
    def is_reusable(self) -> bool:
        return self._is_kept and self._is_open and self.is_complete

    def header(self, name: str) -> str | None:
        """A header of the reply, by its name in any spelling; the first one of several."""
        spelling = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self._headers if key.lower() == spelling), None)

    # Calls

    async def send(self, head: bytes, body: bytes = b"") -> None:
        """Send a request and wait for the head of the reply. Whoever is cancelled, or gets an error, cuts the wire."""
        if not self._is_open:
            raise errors.Unreachable("the server has closed the connection")
        self.status, self.reason, self.is_complete = 0, b"", False
        self._unread, self._most_ahead = 0, LARGE
        self._headers = []
        self._take_bytes()  # of a reply that nobody read
        if len(body) <= LARGE:
            self.transport.write(head + body)
        else:
            await self._send_pieces(head, body)
        while not self.status:
            await self._progress()

    async def _send_pieces(self, head: bytes, body: bytes) -> None:
        """Who refuses a large request may reply before it is read, and then read no more of it."""
        self.transport.write(head)
        pieces = memoryview(body)
        for start in range(0, len(body), LARGE):
            while self._is_full and not self.status:
                await self._progress()
            if self.status:
                self._is_kept = False
                return
            self.transport.write(pieces[start : start + LARGE])

    async def read(self) -> bytes:
        """The whole body of the reply, or what is left of it."""
        self._most_ahead = LARGEST_BODY
        self._resume()
        while not self.is_complete:
            if self._buffered > LARGEST_BODY:
                raise errors.Garbled(f"a reply of more than {LARGEST_BODY >> 20} MiB")
            await self._progress()
        return self._take_bytes()

    async def read_piece(self) -> bytes:
        """What has come of the body, or comes next; empty at its end."""
        while not self._pieces and not self.is_complete:
            await self._progress()
        piece = self._take_bytes()
        self._resume()
        return piece

    def cut(self) -> None:
        """Close the connection at once; harmless when it is closed.

        Not politely: TLS sends a close and waits half a minute for that of the other side, which may be dead.
        """
        self._is_open = False
        sockets.abort(self.transport)

    def _take_bytes(self) -> bytes:
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._buffered = 0
        return body

    async def _progress(self) -> None:
        """Wait until something has happened on the wire; raise if that is its end."""
        if self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        """Let the server wait."""
        if self._is_open and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._is_open and self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    def _fail(self, error: errors.ApiError) -> None:
        self._error = self._error or error
        self.cut()
        self._wake()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment] # of a stream it is one

    def data_received(self, data: bytes) -> None:
        if self.is_complete or self._parser is None:
            self.cut()  # nobody has asked for it: never to be taken for the reply to what is sent next
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_kept, self.is_complete = False, True
        except httptools.HttpParserError as error:
            self._is_kept = False
            if not self.is_complete:
                self._fail(errors.Garbled(one_line(f"no HTTP reply: {error}")))
        if self._unread > LARGEST_HEAD:
            self._fail(_too_large_head())
        if self._buffered > self._most_ahead and not self.is_complete:
            self._pause()
        self._wake()

    def eof_received(self) -> None:
        self._end("the server closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self._end(one_line(f"{type(error).__name__}: {error}") if error else "the connection was closed", error=error)
        self._parser = None  # it refers to this wire

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def _end(self, cause: str, *, error: Exception | None = None) -> None:
        self._is_open = False
        if self.is_complete:
            return
        if self.status and self._ends_with_connection and error is None:
            self.is_complete = True
        else:
            self._error = self._error or errors.ReplyLost(cause)
        self._wake()

    # What httptools calls. Whatever is raised here ends in data_received.

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise _Refusal  # of a second reply to one request

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # behind a body in chunks: it counts for nothing
        if len(name) == _CODING_LENGTH and name.lower() == _CODING and value.lower() != b"identity":
            self._refuse(errors.Garbled(one_line(f"a reply in a coding that was not asked for: {value!r}")))
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        # Most heads come in a small piece of data, which needs no closer look.
        if self._unread > LARGEST_HEAD and sum(len(name) + len(value) for name, value in self._headers) > LARGEST_HEAD:
            self._refuse(_too_large_head())
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._headers = []  # of what is merely a notice; the reply follows
            return
        self.status, self._unread = status, 0
        if not parser.should_keep_alive():
            self._is_kept = False
            names = {name.lower() for name, _ in self._headers}
            self._ends_with_connection = not names & {b"content-length", b"transfer-encoding"}

    def on_body(self, piece: bytes) -> None:
        self._unread = 0
        self._buffered += len(piece)
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.status:
            self.is_complete = True

    def _refuse(self, error: errors.ApiError) -> NoReturn:
        self._error = self._error or error
        raise _Refusal


class _Refusal(Exception):
    """Stops the parser."""


def _too_large_head() -> errors.Garbled:
    return errors.Garbled(f"a reply with a head of more than {LARGEST_HEAD >> 10} kB")
