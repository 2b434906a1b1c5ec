"""TLS on an accepted socket, as a transport of asyncio.

asyncio's own has a quarter of a megabyte of buffers for each connection, and passes each record through three layers.
Here OpenSSL itself reads from the socket and writes to it, and keeps 15 kB of a connection.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from tf_operator.machinery.clock import Clock, Timer

LARGEST_RECORD: Final = 16 * 1024
"""Of TLS: what is read at once leaves nothing in OpenSSL, of which the loop would not know."""
MOST_UNSENT: Final = 64 * 1024
"""Bytes that wait for a client that reads slowly, before who writes has to wait, too."""
_MOST_READS: Final = 8
"""Records that are read at once: who sends fast leaves the loop to others in between."""
CLOSED_WITHIN: Final = 1.0
"""Seconds for which a client that is still sending is read after the last byte to it: or the reply might be lost."""


class TlsTransport(asyncio.Transport):
    """The server's side of one connection. All of it on the loop that it is made on."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, protocol: asyncio.Protocol, *, clock: Clock
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._protocol = protocol
        self._socket = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._number = self._socket.fileno()
        """For the loop: given a socket that it does not watch, asyncio formats it for an error that nobody sees."""
        self._info = {"peername": self._socket.getpeername(), "socket": self._socket, "sslcontext": context}
        self._handshake_done: asyncio.Future[None] = self._loop.create_future()
        self._is_open = False
        """From the handshake to the end."""
        self._is_closing = False
        self._is_paused = False
        self._unsent = bytearray()
        self._waits_for_room = False
        """In the socket, for what is not sent."""
        self._is_full = False
        self._limit: Timer | None = None
        self._loop.add_reader(self._number, self._on_readable)

    async def shake_hands(self) -> None:
        """Return when the protocol has its connection; ``OSError`` if it will have none."""
        self._on_readable()
        await self._handshake_done

    # What protocols call.

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._info.get(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        if not self._is_closing and not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._number)

    def resume_reading(self) -> None:
        if not self._is_closing and self._is_paused:
            self._is_paused = False
            if not self._waits_for_room:
                self._loop.add_reader(self._number, self._on_readable)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        self._unsent += data
        if not self._waits_for_room:
            self._send()
        if len(self._unsent) > MOST_UNSENT and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def close(self) -> None:
        """Send what is left, and say goodbye."""
        if not self._is_closing:
            self._is_closing = True
            if not self._waits_for_room:
                self._say_goodbye()

    def abort(self) -> None:
        self._end(None)

    # What the loop calls.

    def _on_readable(self) -> None:
        # Until nothing is left: uvloop reports a connection that was reset behind what it has sent only once.
        for _ in range(_MOST_READS):
            try:
                if not self._is_open:
                    self._socket.do_handshake()
                    self._begin()
                data = self._socket.recv(LARGEST_RECORD)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLWantWriteError:  # of its own: a part of the handshake, or of an exchange of keys
                self._wait_for_room()
                return
            except OSError as error:
                self._end(error)
                return
            self._pass_on(data)
            if not data or self._is_paused or self._is_closing or self._waits_for_room:
                return

    def _pass_on(self, data: bytes) -> None:
        try:
            if not data:
                self._protocol.eof_received()
            elif not self._is_closing:
                self._protocol.data_received(data)
        except Exception:  # the loop reports it, and nobody would serve the connection any more
            self.abort()
            raise
        if not data:
            self._end(None)

    def _begin(self) -> None:
        self._is_open = True
        self._protocol.connection_made(self)
        if not self._handshake_done.done():
            self._handshake_done.set_result(None)

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except ssl.SSLWantWriteError:
            self._wait_for_room()
            return
        except OSError as error:
            self._end(error)
            return
        if self._waits_for_room:
            self._on_room()

    def _wait_for_room(self) -> None:
        """Send when the socket takes more, and read nothing until then.

        In OpenSSL, a message of its own that comes between two tries to send the same ends the connection, and reading
        may bring one. And a client that has ended what it sends may still be reading.
        """
        self._waits_for_room = True
        self._loop.remove_reader(self._number)
        self._loop.add_writer(self._number, self._send)

    def _on_room(self) -> None:
        self._waits_for_room = False
        self._loop.remove_writer(self._number)
        if self._is_closing:
            self._say_goodbye()
        elif not self._is_paused:
            self._loop.add_reader(self._number, self._on_readable)
            if not self._is_open:
                self._on_readable()
        if self._is_full:
            self._is_full = False
            self._protocol.resume_writing()

    def _say_goodbye(self) -> None:
        try:
            self._socket.unwrap()
        except ssl.SSLWantWriteError:
            self._wait_for_room()
            return
        except OSError:  # the client has not said it yet, or has gone
            pass
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._limit = self._clock.call_at(self._clock.monotonic() + CLOSED_WITHIN, self.abort)
        self._loop.add_reader(self._number, self._on_readable)

    def _end(self, error: OSError | None) -> None:
        if self._socket.fileno() < 0:
            return
        self._is_closing = True
        self._loop.remove_reader(self._number)
        self._loop.remove_writer(self._number)
        self._socket.close()
        if self._limit:
            self._limit.cancel()
        if self._is_open:
            self._loop.call_soon(self._protocol.connection_lost, error)
        elif not self._handshake_done.done():
            self._handshake_done.set_exception(error or ConnectionResetError("closed before the handshake"))
