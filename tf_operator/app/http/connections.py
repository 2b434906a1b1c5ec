"""The connections of one endpoint: only so many at once, and each only for so long.

Anybody in the cluster may connect and then send nothing, send a byte now and then, or never read the reply. So a
connection has a deadline for its request and one for everything. When all places are taken, a connection is closed for
the new one: one of the client that has most of them, by its address, if that has more than the new one's would. Half of
the places are kept for connections that have sent no request yet: while there are fewer of them, the oldest one whose
reply is being sent is closed, otherwise the oldest of them. So the kubelet has the time to send its request, whatever
the others do; without that, slow clients would have a healthy process restarted.

A connection may be kept for another request, as long as its place is not needed: a TLS handshake costs more than the
rest of a short request. Between two requests it counts as one that has sent none. So handshakes have a share of the
time, by address: beyond it a connection waits for its handshake, within the time that it has for its request.

One connection is one task of the loop that serves; ``server`` accepts them and reports how far each one is.
"""

import asyncio
import enum
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock, Timer
from tf_operator.machinery.log import Logger

MOST: Final = 32
MOST_KEPT: Final = 128
"""Where connections are kept: an API server keeps up to 25, and there may be several."""
REQUEST_WITHIN: Final = 5.0
"""Seconds for the TLS handshake and the request, or for the rest of a further request."""
LONGEST: Final = 20.0
"""Seconds from a request to the end of its reply; Prometheus waits for 10 s unless it is configured otherwise."""
IDLE: Final = 120.0
"""Seconds between two requests. Go's clients close a connection after 90 s: none sends when it is closed here."""
HANDSHAKES: Final = 20.0
"""TLS handshakes of one address in a second. Each takes a millisecond or two; an API server keeps its connections."""
HANDSHAKES_AT_ONCE: Final = 128
_MOST_CLIENTS: Final = 1000
"""More are remembered only while they have to wait."""
_TLS_SHUTDOWN: Final = 1.0

_log = Logger(__name__)


class ConnectionStage(enum.Enum):
    """How far a connection is."""

    WAITING = enum.auto()
    """It has sent no complete request."""
    PREPARING = enum.auto()
    """Its reply is being made; this takes a bounded time. It is closed only for a client with fewer connections."""
    SENDING = enum.auto()
    """Its reply is being sent, as fast as the client reads."""
    CLOSING = enum.auto()
    """It has made room for another one."""


class AcceptedConnection:
    """One client."""

    def __init__(self, accepted: socket.socket, protocol: asyncio.Protocol) -> None:
        self.accepted = accepted
        self.client = _client_of(accepted)
        self.protocol = protocol
        self.transport: asyncio.Transport | None = None
        self.stage = ConnectionStage.WAITING
        self.is_idle = False
        """Between two requests."""
        self.is_closed = asyncio.Event()
        self.limit: Timer | None = None
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close it now, whatever has not been sent."""
        if self.transport is None:
            self.accepted.close()
        elif not self.is_closed.is_set():
            sockets.abort(self.transport)


class HandshakeShare:
    """When each address may begin its next TLS handshake."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    def pause(self, client: str) -> float:
        """Seconds until one more may begin, which this client then does."""
        now = self._clock.monotonic()
        if len(self._due) >= _MOST_CLIENTS:
            self._due = {name: due for name, due in self._due.items() if due > now}
        due = max(self._due.get(client, 0.0), now - HANDSHAKES_AT_ONCE / HANDSHAKES)
        if due - now < REQUEST_WITHIN:  # it is closed before
            self._due[client] = due + 1 / HANDSHAKES
        return max(0.0, due - now)


class Connections:
    """The connections of one endpoint; all methods run on the loop that serves them."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        clock: Clock,
        *,
        tasks: asyncio.TaskGroup,
        tls: Callable[[], ssl.SSLContext] | None = None,
        most: int = MOST,
    ) -> None:
        """``tls`` is called for each connection, so a renewed certificate is used from the next one on."""
        self._make_protocol = make_protocol
        self._clock = clock
        self._tasks = tasks
        self._tls = tls
        self._most = most
        self._idle_places = most // 2
        self._handshakes = HandshakeShare(clock)
        self._open: dict[asyncio.Protocol, AcceptedConnection] = {}

    def __len__(self) -> int:
        """How many places are taken."""
        return len(self._open) - self._count(ConnectionStage.CLOSING)

    def add(self, accepted: socket.socket) -> None:
        """Serve a connection, or close it when every place is taken by one that cannot be closed."""
        if len(self) >= self._most and not self._close_one(_client_of(accepted)):
            accepted.close()
            return
        connection = AcceptedConnection(accepted, self._make_protocol())
        self._open[connection.protocol] = connection
        connection.task = self._tasks.create_task(self._serve(connection))
        # Not by the task itself: one that is cancelled before it begins never runs.
        connection.task.add_done_callback(lambda _: self._ended(connection))
        self._limit(connection, REQUEST_WITHIN)

    def on_request_begun(self, protocol: asyncio.Protocol) -> None:
        """The connection of this protocol has sent the beginning of a request."""
        connection = self._open.get(protocol)
        if connection and connection.is_idle:
            connection.is_idle = False
            self._limit(connection, REQUEST_WITHIN)

    def on_request(self, protocol: asyncio.Protocol) -> None:
        """The connection of this protocol has sent its request."""
        self._reached(protocol, ConnectionStage.PREPARING)

    def on_reply(self, protocol: asyncio.Protocol) -> None:
        """The reply to this protocol's request is being sent."""
        self._reached(protocol, ConnectionStage.SENDING)

    def on_reply_sent(self, protocol: asyncio.Protocol) -> None:
        """The reply to this protocol's request is sent, and another request may follow."""
        connection = self._open.pop(protocol, None)
        if connection is None:
            return
        self._open[protocol] = connection  # it is the latest now
        if connection.stage is not ConnectionStage.CLOSING:
            connection.stage, connection.is_idle = ConnectionStage.WAITING, True
            self._limit(connection, IDLE)

    def close(self, protocol: asyncio.Protocol) -> None:
        """Close the connection of this protocol, whatever has not been sent."""
        if connection := self._open.get(protocol):
            self._close(connection)

    def on_lost(self, protocol: asyncio.Protocol) -> None:
        """The connection of this protocol is closed."""
        if connection := self._open.get(protocol):
            connection.is_closed.set()

    def _reached(self, protocol: asyncio.Protocol, stage: ConnectionStage) -> None:
        connection = self._open.get(protocol)
        if connection and connection.stage is not ConnectionStage.CLOSING:
            if connection.stage is ConnectionStage.WAITING:
                self._limit(connection, LONGEST)
            connection.stage = stage

    def _close_one(self, client: str) -> bool:
        """Close the one that has the least claim to its place, for this client; the place is free at once."""
        places = Counter(entry.client for entry in self._open.values() if entry.stage is not ConnectionStage.CLOSING)
        greediest, most = places.most_common(1)[0]
        stages = [ConnectionStage.WAITING, ConnectionStage.SENDING]
        if self._count(ConnectionStage.WAITING) < self._idle_places:
            stages.reverse()
        if is_greedy := most > places[client] + 1:
            stages.append(ConnectionStage.PREPARING)
        for stage in stages:
            for connection in self._open.values():  # in the order in which they came
                if connection.stage is stage and (connection.client == greediest or not is_greedy):
                    self._close(connection)
                    return True
        return False

    def _limit(self, connection: AcceptedConnection, seconds: float) -> None:
        """Close it after this time, whatever was its limit before."""
        if connection.limit:
            connection.limit.cancel()
        connection.limit = self._clock.call_at(self._clock.monotonic() + seconds, lambda: self._close(connection))

    def _close(self, connection: AcceptedConnection) -> None:
        connection.stage = ConnectionStage.CLOSING
        if connection.task:
            connection.task.cancel()

    def _count(self, stage: ConnectionStage) -> int:
        return sum(connection.stage is stage for connection in self._open.values())

    def _ended(self, connection: AcceptedConnection) -> None:
        self._open.pop(connection.protocol, None)
        if connection.limit:
            connection.limit.cancel()
        connection.close()

    async def _serve(self, connection: AcceptedConnection) -> None:
        try:
            await self._start(connection)
            await connection.is_closed.wait()
        except OSError:  # it broke, or was too slow
            pass
        except Exception:  # noqa: BLE001 (a bug must not end the others)
            _log.exception("a connection could not be served")

    async def _start(self, connection: AcceptedConnection) -> None:
        """Shake hands, where there is TLS, and let the protocol read the request."""
        if self._tls and (pause := self._handshakes.pause(connection.client)):
            await self._clock.sleep(pause)
        context = self._tls() if self._tls else None
        connection.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection.protocol,
            connection.accepted,
            ssl=context,
            ssl_handshake_timeout=REQUEST_WITHIN if context else None,
            ssl_shutdown_timeout=_TLS_SHUTDOWN if context else None,
        )


def _client_of(accepted: socket.socket) -> str:
    """The address that it comes from, without a port; empty when it has gone."""
    try:
        peer = accepted.getpeername()
    except OSError:
        return ""
    return str(peer[0]) if isinstance(peer, tuple) else ""
