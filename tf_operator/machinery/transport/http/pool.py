"""Connections to one apiserver: those that wait for a request, and a limit to how many there are.

A connection that may not be used again is cut at once. One on which nothing was said for a while is not used again,
since whatever stands between may have forgotten it, or is about to.
"""

import asyncio
import socket
import ssl
from collections import deque
from typing import Final

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.http.route import PeerAddress, Way
from tf_operator.machinery.transport.http.wire import Wire
from tf_operator.text import one_line

CONNECT_WITHIN = 10.0
"""One attempt to reach one address, with the TLS handshake."""
PLACE_WITHIN = 30.0
"""Until there is a connection at all: a place in the pool, the name's addresses, and the attempts to reach them."""
IDLE_WITHIN: Final = 15.0
NEXT_ADDRESS_AFTER: Final = 0.25
"""When an address is silent; client-go does the same (RFC 8305)."""

_SOCKETS_CLOCK: Final = SystemClock()
"""Real sockets know no other time."""


class Pool:
    """Up to ``limit`` connections at once; 0 is no limit."""

    def __init__(self, limit: int, *, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._places_taken = 0
        """Connections in use, and those that are being opened."""
        self._busy: set[Wire] = set()
        self._idle: list[tuple[Way, Wire]] = []
        """The one that was used last is at the end, and is used first."""
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def take(self, way: Way) -> Wire:
        """A connection for one request, to be given back; ``Unreachable`` if there is none in time."""
        has_place = not self._waiters and (not self._limit or self._places_taken < self._limit)
        if has_place:
            self._places_taken += 1
            if (wire := self._idle_wire(way)) is not None:
                self._busy.add(wire)
                return wire
        try:
            async with _SOCKETS_CLOCK.timeout(PLACE_WITHIN):
                if not has_place:
                    await self._wait_for_place()
                    has_place = True
                wire = self._idle_wire(way) or await _opened(way)
        except BaseException as error:
            if has_place:
                self._free_place()
            if isinstance(error, TimeoutError):
                raise errors.Unreachable(f"no connection to {way.apiserver} within {PLACE_WITHIN:g} s") from error
            raise
        self._busy.add(wire)
        return wire

    def give_back(self, way: Way, wire: Wire) -> None:
        self._busy.discard(wire)
        if wire.is_reusable:
            wire.idle_since = self._clock.monotonic()
            self._idle.append((way, wire))
        else:
            wire.cut()
        self._free_place()

    def close(self) -> None:
        """Cut all connections; who still waits for a reply, or for a place, gets an error."""
        for wire in (*self._busy, *(wire for _, wire in self._idle)):
            wire.cut()
        self._idle.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(errors.Unreachable("the connection to the API server is closed"))
        self._waiters.clear()

    def _idle_wire(self, way: Way) -> Wire | None:
        """The one that was used last, unless all are of yesterday; those that cannot be used any more are closed."""
        while self._idle:
            its_way, wire = self._idle.pop()
            is_fresh = self._clock.monotonic() - wire.idle_since < IDLE_WITHIN
            if is_fresh and wire.is_reusable and (its_way is way or its_way == way):
                return wire
            wire.cut()
        return None

    async def _wait_for_place(self) -> None:
        """First come, first served. A place that is handed to somebody who has just given up goes to the next one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.remove(waiter)
            else:
                self._free_place()
            raise

    def _free_place(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._places_taken -= 1


async def _opened(way: Way) -> Wire:
    """A new connection, all the way to the apiserver."""
    wire, tls = await _connected(way.proxy or way.apiserver), way.apiserver.tls
    return await _tunnelled(wire, way, tls) if way.proxy and tls else wire


async def _connected(address: PeerAddress) -> Wire:
    """A connection to one of a name's addresses."""
    try:
        infos: list[AddrInfoType] = []
        infos += await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        while True:
            async with _SOCKETS_CLOCK.timeout(CONNECT_WITHIN):
                sock = await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=NEXT_ADDRESS_AFTER)
                peer = sock.getpeername()
                try:
                    return await _begin(sock, address)
                except OSError:
                    aiohappyeyeballs.remove_addr_infos(infos, peer)
                    if not infos:
                        raise
    except TimeoutError as error:
        raise errors.Unreachable(f"TimeoutError {address}: no connection within {CONNECT_WITHIN:g} s") from error
    except (OSError, ValueError) as error:  # the latter: a name that is none
        raise _unreachable(address, error) from error


async def _begin(sock: socket.socket, address: PeerAddress) -> Wire:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _, wire = await asyncio.get_running_loop().create_connection(Wire, sock=sock)
    return await _encrypted(wire, address, address.tls) if address.tls else wire


async def _encrypted(wire: Wire, address: PeerAddress, tls: ssl.SSLContext) -> Wire:
    """The same connection with TLS.

    Not by ``create_connection``: cancelled in the turn of the loop in which it begins with TLS, that leaves the
    connection open, and the loop reads from whatever gets its number next.
    """
    tls_wire, name = Wire(), address.certified_name
    try:
        transport = await asyncio.get_running_loop().start_tls(wire.transport, tls_wire, tls, server_hostname=name)
    except BaseException:
        wire.cut()
        raise
    if transport is None:
        raise ConnectionResetError("closed before it was encrypted")
    tls_wire.connection_made(transport)
    return tls_wire


async def _tunnelled(wire: Wire, way: Way, tls: ssl.SSLContext) -> Wire:
    """The same connection once its proxy passes on what is said. Nothing has reached the apiserver before."""
    try:
        async with _SOCKETS_CLOCK.timeout(CONNECT_WITHIN):
            await _ask_for_tunnel(wire, way)
            return await _encrypted(wire, way.apiserver, tls)
    except BaseException as error:
        wire.cut()
        if isinstance(error, OSError | ValueError):
            raise _unreachable(way.apiserver, error) from error
        raise


async def _ask_for_tunnel(wire: Wire, way: Way) -> None:
    try:
        await wire.send(way.tunnel_head())
    except (errors.ReplyLost, errors.Garbled) as error:
        raise errors.Unreachable(f"the proxy: {error}") from error
    if wire.status != 200:
        raise errors.Unreachable(one_line(f"the proxy refuses: {wire.status} {wire.reason.decode('latin-1')}"))


def _unreachable(address: PeerAddress, error: Exception) -> errors.Unreachable:
    return errors.Unreachable(one_line(f"{type(error).__name__} {address}: {error}"))
