"""The places of a listener: who has one, and who has to give one up when all are taken and another client comes.

What is given up is a connection of the client that has most of them, by its address, if that has more than the new one
would. Half of the places are kept for connections that have sent no request yet: while there are fewer of them, the
oldest one whose reply is being sent makes room, otherwise the oldest of them, those of clients that have proved who
they are after all others. So the kubelet has the time to send its request, whatever the others do; without that, slow
clients would have a healthy process restarted. A connection that is proved to carry the requests of many clients is no
greed of its address, and makes room last.

Ten thousand clients that connect and say nothing must not take the time of those that do. So who makes room is found
without a look at all who have a place, unless a client has too many, whose oldest is looked for.
"""

import enum
from collections import defaultdict
from typing import Final, Generic, Protocol, TypeVar


class ConnectionStage(enum.Enum):
    """How far a connection is."""

    SILENT = enum.auto()
    """It has sent nothing."""
    WAITING = enum.auto()
    """It has sent no complete request."""
    PREPARING = enum.auto()
    """Its reply is being made; this takes a bounded time. It is closed only for a client with fewer connections."""
    SENDING = enum.auto()
    """Its reply is being sent, as fast as the client reads."""


class Claim(enum.IntEnum):
    """What its client has proved; the least makes room first."""

    NONE = enum.auto()
    ADMITTED = enum.auto()
    """Who it is."""
    SHARED = enum.auto()
    """That it brings the requests of many clients."""


class PlaceHolder(Protocol):
    """What has a place; ``ConnectionPlaces`` alone changes its stage and its claim."""

    client: str
    stage: ConnectionStage
    claim: Claim


_NO_REQUEST: Final = frozenset({ConnectionStage.SILENT, ConnectionStage.WAITING})
"""In one row, and a first byte changes no place in it: else a volley of them would put all others in front."""
H = TypeVar("H", bound=PlaceHolder)


class ConnectionPlaces(Generic[H]):
    """Those that have a place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[tuple[ConnectionStage, Claim], dict[H, None]] = {
            (stage, claim): {} for stage in ConnectionStage if stage is not ConnectionStage.SILENT for claim in Claim
        }
        """Each from the oldest to the latest."""
        self._clients = _Clients()

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def __contains__(self, holder: H) -> bool:
        return holder in self._row_of(holder)

    @property
    def all_taken(self) -> bool:
        return len(self) >= self._most

    def held(self, *stages: ConnectionStage) -> list[H]:
        """Those that are so far."""
        return [holder for row in self._rows.values() for holder in row if holder.stage in stages]

    def take(self, holder: H) -> None:
        self._row_of(holder)[holder] = None
        self._clients.add(holder.client)

    def leave(self, holder: H) -> None:
        del self._row_of(holder)[holder]
        if holder.claim is not Claim.SHARED:
            self._clients.remove(holder.client)

    def move(self, holder: H, stage: ConnectionStage, claim: Claim = Claim.NONE) -> None:
        """It is so far now, and the latest of those if it was not there before; a claim never falls."""
        if claim is Claim.SHARED and holder.claim is not Claim.SHARED:
            self._clients.remove(holder.client)
        old = self._row_of(holder)
        holder.stage, holder.claim = stage, max(claim, holder.claim)
        if (row := self._row_of(holder)) is not old:
            del old[holder]
            row[holder] = None

    def least_claim(self, client: str) -> H | None:
        """The one that has to make room for this client, if any has."""
        greediest, most = self._clients.greediest()
        only = greediest if most > self._clients.count(client) + 1 else None
        order = [ConnectionStage.WAITING, ConnectionStage.SENDING]
        if sum(len(self._rows[ConnectionStage.WAITING, claim]) for claim in Claim) < self._most // 2:
            order.reverse()
        if only is not None:
            order.append(ConnectionStage.PREPARING)
        rows = (self._rows[stage, claim] for stage in order for claim in Claim)
        return next((holder for row in rows for holder in row if only in {None, holder.client}), None)

    def _row_of(self, holder: H) -> dict[H, None]:
        stage = ConnectionStage.WAITING if holder.stage in _NO_REQUEST else holder.stage
        return self._rows[stage, holder.claim]


class _Clients:
    """How many places each client has; who has most of them is known without a look at all."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._by_count: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._most = 0

    def count(self, client: str) -> int:
        return self._counts.get(client, 0)

    def greediest(self) -> tuple[str, int]:
        """One that has most, and how many these are."""
        return next(iter(self._by_count.get(self._most, ())), ""), self._most

    def add(self, client: str) -> None:
        self._change(client, 1)
        self._most = max(self._most, self._counts[client])

    def remove(self, client: str) -> None:
        self._change(client, -1)
        if self._most not in self._by_count:  # then it had most, and was alone
            self._most -= 1

    def _change(self, client: str, by: int) -> None:
        before = self._counts[client]
        self._by_count[before].pop(client, None)
        if not self._by_count[before]:
            del self._by_count[before]
        if after := before + by:
            self._counts[client] = after
            self._by_count[after][client] = None
        else:
            del self._counts[client]
