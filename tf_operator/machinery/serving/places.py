"""The places of a listener: who has one, and who has to give one up when all are taken and another client comes.

What is given up is a connection of the client that has most of them, by its address, if that has more than the new one
would. Half of the places are kept for connections that have sent no request yet: while there are fewer of them, the
oldest one whose reply is being sent makes room, otherwise the oldest of them, those of clients that have proved who
they are after all others. So the kubelet has the time to send its request, whatever the others do; without that, slow
clients would have a healthy process restarted. A connection that is proved to carry the requests of many clients is no
greed of its address, and makes room last.

Ten thousand clients that connect and say nothing must not take the time of those that do: who makes room is found
without a look at all who have a place.
"""

import enum
from collections import defaultdict
from itertools import count
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


_NO_REQUEST: Final = (ConnectionStage.SILENT, ConnectionStage.WAITING)
H = TypeVar("H", bound=PlaceHolder)


class ConnectionPlaces(Generic[H]):
    """Those that have a place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = count()
        self._held: dict[tuple[ConnectionStage, Claim], dict[H, int]] = {
            (stage, claim): {} for stage in ConnectionStage for claim in Claim
        }
        """From the oldest to the latest, with a number that is lower for the older one of two."""
        self._clients = _Clients()

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __contains__(self, holder: H) -> bool:
        return holder in self._held[holder.stage, holder.claim]

    @property
    def all_taken(self) -> bool:
        return len(self) >= self._most

    def held(self, *stages: ConnectionStage) -> list[H]:
        """Those that are so far."""
        return [holder for stage in stages for claim in Claim for holder in self._held[stage, claim]]

    def take(self, holder: H) -> None:
        self._held[holder.stage, holder.claim][holder] = next(self._numbers)
        self._clients.add(holder.client)

    def leave(self, holder: H) -> None:
        del self._held[holder.stage, holder.claim][holder]
        if holder.claim is not Claim.SHARED:
            self._clients.remove(holder.client)

    def move(self, holder: H, stage: ConnectionStage, claim: Claim = Claim.NONE) -> None:
        """It is so far now, and the latest of those; a claim never falls."""
        del self._held[holder.stage, holder.claim][holder]
        if claim is Claim.SHARED and holder.claim is not Claim.SHARED:
            self._clients.remove(holder.client)
        holder.stage, holder.claim = stage, max(claim, holder.claim)
        self._held[holder.stage, holder.claim][holder] = next(self._numbers)

    def least_claim(self, client: str) -> H | None:
        """The one that has to make room for this client, if any has."""
        greediest, most = self._clients.greediest()
        only = greediest if most > self._clients.count(client) + 1 else None
        without_request = sum(len(self._held[stage, claim]) for stage in _NO_REQUEST for claim in Claim)
        order = [_NO_REQUEST, (ConnectionStage.SENDING,)]
        if without_request < self._most // 2:
            order.reverse()
        if only is not None:
            order.append((ConnectionStage.PREPARING,))
        for stages in order:
            for claim in Claim:
                oldest = [each for stage in stages if (each := self._oldest(stage, claim, only))]
                if oldest:
                    return min(oldest, key=lambda each: self._held[each.stage, each.claim][each])
        return None

    def _oldest(self, stage: ConnectionStage, claim: Claim, client: str | None) -> H | None:
        """Of this client, or of all."""
        return next((each for each in self._held[stage, claim] if client in {None, each.client}), None)


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
