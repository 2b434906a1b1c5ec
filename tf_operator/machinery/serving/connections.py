"""The connections of one listener: only so many at once, and each only for so long, as a policy says.

Anybody may connect and then send nothing, send a byte now and then, or never read the reply. So a connection has a
deadline for its request, and one for everything, and when all places are taken, one has to make room (``places``). A
connection that has sent nothing is a socket and a timer; only those that have cost more.

A connection may be kept for another request, as long as its place is not needed: a TLS handshake costs more than the
rest of a short request. Between two requests it counts as one that has sent none. So handshakes may have a share of the
time, by address: beyond it a connection waits for its handshake, for half of the time that it has for its request. One
that would wait longer is closed: in a flood, all would wait until no time is left, and nobody would get through.

A connection is one task of the loop that serves; the server reports how far each one is.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, cast

from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock, Timer
from tf_operator.machinery.log import Logger
from tf_operator.machinery.serving.places import Claim, ConnectionPlaces, ConnectionStage
from tf_operator.machinery.serving.tls import TlsTransport

HANDSHAKES_AT_ONCE: Final = 128
_MOST_CLIENTS: Final = 1000
"""More are remembered only while they have to wait."""
_PAUSE: Final = 0.1
"""Seconds after which a connection is accepted again when the process has no file descriptor left."""

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """How many connections there may be, and how long each may take. A limit of ``None`` is none."""

    most: int
    request_within: float = 5.0
    """Seconds for the TLS handshake and the request, or for the rest of a further request."""
    reply_within: float | None = None
    """Seconds from a request to the end of its reply."""
    idle_for: float | None = None
    """Seconds between two requests."""
    handshakes: float | None = None
    """TLS handshakes of one address in a second. Each takes a millisecond or two."""
    all_handshakes: float | None = None
    """The same of all addresses together."""


class AcceptedConnection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.client = _client_of(sock)
        self.protocol: asyncio.BaseProtocol | None = None
        """As soon as it has sent something."""
        self.transport: asyncio.Transport | None = None
        self.attaching: asyncio.Task[None] | None = None
        """What gives it a transport, and must not be cancelled: uvloop would never tell the protocol that it ended."""
        self.stage = ConnectionStage.SILENT
        self.claim = Claim.NONE
        self.is_idle = False
        """Between two requests."""
        self.is_closed = asyncio.Event()
        self.limit: Timer | None = None
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close it now, whatever has not been sent."""
        if self.attaching and not self.attaching.done():
            self.attaching.add_done_callback(lambda _: self.close())
        elif self.transport is None:
            self.sock.close()
        elif not self.is_closed.is_set():
            sockets.abort(self.transport)


class HandshakeShare:
    """When each address may begin its next TLS handshake, as far as all of them have a share left."""

    def __init__(self, clock: Clock, policy: ConnectionPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self.longest = policy.request_within / 2
        """Who would have to wait for so long is closed: the rest of the time is for the handshake and the request."""
        self._due: dict[str | None, float] = {}

    def pause(self, client: str) -> float:
        """Seconds until one more may begin, which this client then does."""
        own = self._pause(client, self._policy.handshakes)
        if own >= self.longest:  # it is closed, and takes nothing from the others
            return own
        return max(own, self._pause(None, self._policy.all_handshakes))

    def _pause(self, client: str | None, handshakes: float | None) -> float:
        """The pause of a client; ``None`` is all of them."""
        if handshakes is None:
            return 0.0
        now, pace = self._clock.monotonic(), 1 / handshakes
        if len(self._due) >= _MOST_CLIENTS:
            self._due = {name: due for name, due in self._due.items() if due > now}
        due = max(self._due.get(client, 0.0), now - HANDSHAKES_AT_ONCE * pace)
        if due - now < self.longest:  # else it is closed
            self._due[client] = due + pace
        return max(0.0, due - now)


class Connections:
    """The connections of one listener; all methods run on the loop that serves them."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        policy: ConnectionPolicy,
        clock: Clock,
        *,
        tasks: asyncio.TaskGroup,
        tls: Callable[[], ssl.SSLContext] | None = None,
        on_refused: Callable[[], object] = lambda: None,
    ) -> None:
        """``tls`` is called for each connection, so a renewed certificate is used from the next one on.

        ``on_refused`` is called for each connection that will not have its handshake in time.
        """
        self._make_protocol = make_protocol
        self._clock = clock
        self._tasks = tasks
        self._tls = tls
        self._on_refused = on_refused
        self._policy = policy
        self._handshakes = HandshakeShare(clock, policy)
        self._accepting: asyncio.Task[object] | None = None
        self._is_reported = False
        """Whether the log says that there are too many."""
        self._places = ConnectionPlaces[AcceptedConnection](policy.most)
        """All but those that make room, and are not closed yet."""
        self._open: dict[asyncio.BaseProtocol, AcceptedConnection] = {}
        """Those that have sent something."""

    def __len__(self) -> int:
        """How many places are taken."""
        return len(self._places)

    async def accept(self, listener: socket.socket) -> NoReturn:
        """Accept and serve connections until cancelled; those that have sent something stay open."""
        self._accepting = asyncio.current_task()
        try:
            while True:
                try:
                    sock = await sockets.accept(listener)
                except OSError:
                    await self._clock.sleep(_PAUSE)
                else:
                    self.add(sock)
                    # While the backlog is full, ``accept`` returns without waiting: everything else needs a turn.
                    await self._clock.sleep(0)
        finally:
            self._close_all_of(ConnectionStage.SILENT)

    def add(self, sock: socket.socket) -> None:
        """Serve a connection, or close it when every place is taken by one that cannot be closed."""
        connection = AcceptedConnection(sock)
        if self._places.all_taken and not self._make_room(connection.client):
            if not self._is_reported:
                _log.warning("connections are refused: too many are open", open=len(self))
            self._is_reported = True
            sock.close()
            return
        self._places.take(connection)
        try:
            asyncio.get_running_loop().add_reader(sock.fileno(), self._begin, connection)
        except OSError:  # the system watches no more
            self._remove(connection)
        else:
            self._limit(connection, self._policy.request_within)

    def _begin(self, connection: AcceptedConnection) -> None:
        """It has sent something, or has gone."""
        if self._accepting and self._accepting.cancelling():  # the tasks may be ending: they would wait for one more
            self._close(connection)
            return
        asyncio.get_running_loop().remove_reader(connection.sock.fileno())
        protocol = connection.protocol = self._make_protocol()
        self._open[protocol] = connection
        self._places.move(connection, ConnectionStage.WAITING)
        connection.task = self._tasks.create_task(self._serve(connection, protocol))
        # Not by the task itself: one that is cancelled before it begins never runs.
        connection.task.add_done_callback(lambda _: self._remove(connection))

    def on_request_begun(self, protocol: asyncio.BaseProtocol) -> None:
        connection = self._open.get(protocol)
        if connection and connection.is_idle:
            connection.is_idle = False
            self._limit(connection, self._policy.request_within)

    def on_request(self, protocol: asyncio.BaseProtocol, *, is_admitted: bool = False, is_shared: bool = False) -> None:
        """The connection of this protocol has sent its request, with which its client may prove who it is."""
        claim = Claim.SHARED if is_shared else Claim.ADMITTED if is_admitted else Claim.NONE
        self._set_stage(protocol, ConnectionStage.PREPARING, claim)

    def on_reply(self, protocol: asyncio.BaseProtocol) -> None:
        """The reply to this protocol's request is being sent."""
        self._set_stage(protocol, ConnectionStage.SENDING)

    def on_reply_sent(self, protocol: asyncio.BaseProtocol) -> None:
        """The reply to this protocol's request is sent, and another request may follow."""
        connection = self._placed(protocol)
        if connection and connection.stage in {ConnectionStage.PREPARING, ConnectionStage.SENDING}:
            self._places.move(connection, ConnectionStage.WAITING)
            connection.is_idle = True
            self._limit(connection, self._policy.idle_for)

    def close(self, protocol: asyncio.BaseProtocol) -> None:
        """Close the connection of this protocol, whatever has not been sent."""
        if connection := self._open.get(protocol):
            self._close(connection)

    def close_all(self) -> None:
        """Close every connection, whatever has not been sent."""
        self._close_all_of(*ConnectionStage)

    def on_lost(self, protocol: asyncio.BaseProtocol) -> None:
        if connection := self._open.get(protocol):
            connection.is_closed.set()

    def _placed(self, protocol: asyncio.BaseProtocol) -> AcceptedConnection | None:
        """The connection of this protocol, unless it makes room."""
        connection = self._open.get(protocol)
        return connection if connection and connection in self._places else None

    def _set_stage(self, protocol: asyncio.BaseProtocol, stage: ConnectionStage, claim: Claim = Claim.NONE) -> None:
        if connection := self._placed(protocol):
            if connection.stage is ConnectionStage.WAITING:
                self._limit(connection, self._policy.reply_within)
            self._places.move(connection, stage, claim)

    def _make_room(self, client: str) -> bool:
        """Close the connection with the least claim, for this client; its place is free at once."""
        connection = self._places.least_claim(client)
        if connection:
            self._close(connection)
        return connection is not None

    def _limit(self, connection: AcceptedConnection, seconds: float | None) -> None:
        """Close it after this time, whatever was its limit before."""
        if connection.limit:
            connection.limit.cancel()
        if seconds is not None:
            connection.limit = self._clock.call_at(self._clock.monotonic() + seconds, lambda: self._close(connection))

    def _close_all_of(self, *stages: ConnectionStage) -> None:
        for connection in self._places.held(*stages):
            self._close(connection)

    def _close(self, connection: AcceptedConnection) -> None:
        if connection.task is None:
            asyncio.get_running_loop().remove_reader(connection.sock.fileno())
            self._remove(connection)
        elif connection in self._places:
            self._places.leave(connection)
            connection.task.cancel()

    def _remove(self, connection: AcceptedConnection) -> None:
        if connection in self._places:
            self._places.leave(connection)
        if connection.protocol:
            del self._open[connection.protocol]
        if connection.limit:
            connection.limit.cancel()
        connection.close()

    async def _serve(self, connection: AcceptedConnection, protocol: asyncio.BaseProtocol) -> None:
        try:
            await self._start(connection, protocol)
            await connection.is_closed.wait()
        except OSError:  # it broke, or was too slow
            pass
        except Exception:  # noqa: BLE001 (a bug must not end the others)
            _log.exception("a connection could not be served")

    async def _start(self, connection: AcceptedConnection, protocol: asyncio.BaseProtocol) -> None:
        """Shake hands, where there is TLS, and let the protocol read the request.

        Who sends nothing does not come here, so it takes nothing from the handshakes of others, nor the memory.
        """
        if self._tls and (pause := self._handshakes.pause(connection.client)):
            if pause >= self._handshakes.longest:
                self._on_refused()
                raise ConnectionAbortedError("too many handshakes")
            await self._clock.sleep(pause)
        if self._tls:
            tls = TlsTransport(connection.sock, self._tls(), cast("asyncio.Protocol", protocol), clock=self._clock)
            connection.transport = tls
            await tls.shake_hands()
            return
        connection.attaching = self._tasks.create_task(_attach(connection, protocol))
        await asyncio.shield(connection.attaching)


async def _attach(connection: AcceptedConnection, protocol: asyncio.BaseProtocol) -> None:
    try:
        connection.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol, connection.sock
        )
    except OSError:  # it broke before
        connection.is_closed.set()


def _client_of(sock: socket.socket) -> str:
    """The address that it comes from, without a port; empty when it has gone."""
    try:
        peer = sock.getpeername()
    except OSError:
        return ""
    return str(peer[0]) if isinstance(peer, tuple) else ""
