"""The bytes that bodies and their replies may take at one endpoint: anybody may send them.

Small bodies always have room: one at each connection fits into a part of its own. The rest is shared by the clients,
by their addresses. Who needs room gets it from the client that holds most, if that holds more than this one would:
first from a body that is incomplete, then from a reply that has not been read. So neither a client that withholds the
last byte of some large bodies, nor one that sends many, keeps the others out.

All of it runs on the loop of ``server``.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tf_operator.app.http import policies
from tf_operator.machinery.clock import Clock

SMALL: Final = 64 * 1024
"""Reviews of single jobs are smaller, but for those of thousands of replicas."""
LARGEST: Final = 8 * 1024 * 1024
"""Decoded, JSON may take thirty times as much. etcd stores objects of 1.5 MiB, the API server accepts 3 MiB."""
MOST: Final = 32 * 1024 * 1024
FOR_SMALL: Final = SMALL * policies.REVIEWS.most
STALLED: Final = 0.5
"""Seconds without a byte, after which a body makes way for others of its client."""


class NoRoom(Exception):
    """Not now; the same body may be sent again."""


class NeverFits(Exception):
    """Never: so many bytes are allowed."""


class Place:
    """What one request takes; made by ``BodyRoom.place``."""

    def __init__(self, room: "BodyRoom", client: str, now: float) -> None:
        self.client = client
        self.taken = 0
        self.is_complete = False
        """Whether the body is: then its client no longer decides how long this takes."""
        self.grown_at = now
        self.make_way: Callable[[], object] = lambda: None
        """Ends what takes the room; it counts as free at once."""
        self._room = room

    def take(self, size: int) -> None:
        """Take so much more, or raise ``NoRoom`` or ``NeverFits``."""
        self._room.grow(self, self.taken + size)

    @contextmanager
    def cancelled_for_others(self) -> Iterator[None]:
        """Run a block that may be cancelled to make way; then ``NoRoom`` is raised."""
        task, made_way = asyncio.current_task(), False

        def cancel() -> None:
            nonlocal made_way
            made_way = True
            if task:
                task.cancel()

        self.make_way = cancel
        try:
            yield
        except asyncio.CancelledError:
            if made_way and task and not task.uncancel():
                raise NoRoom from None
            raise
        finally:
            self.make_way = lambda: None


class BodyRoom:
    def __init__(self, clock: Clock, *, most: int = MOST, largest: int = LARGEST, small: int = SMALL) -> None:
        self._clock = clock
        self._for_large = most - small * policies.REVIEWS.most
        self._largest, self._small = largest, small
        self._places: list[Place] = []

    @contextmanager
    def place(self, client: str) -> Iterator[Place]:
        """A place for one request; what it has taken is given back in the end."""
        place = Place(self, client, self._clock.monotonic())
        self._places.append(place)
        try:
            yield place
        finally:
            self.leave(place)

    def grow(self, place: Place, size: int) -> None:
        """From now on a place takes so much."""
        if size > self._largest:
            raise NeverFits(self._largest)
        if size > self._small:
            while size > self._for_large - sum(self._usage(place).values()):
                self._make_way_for(place, size)
        place.taken, place.grown_at = size, self._clock.monotonic()

    def _usage(self, without: Place | None = None) -> Counter[str]:
        usage: Counter[str] = Counter()
        for place in self._places:
            if place is not without and place.taken > self._small:
                usage[place.client] += place.taken
        return usage

    def _make_way_for(self, asking: Place, size: int) -> None:
        usage = self._usage(asking)
        needed = usage[asking.client] + size
        stalled_since = self._clock.monotonic() - STALLED

        def makes_way(place: Place) -> bool:
            if place is asking or place.taken <= self._small:
                return False
            if place.client == asking.client:
                return not place.is_complete and place.grown_at <= stalled_since
            return usage[place.client] > needed

        candidates = [place for place in self._places if makes_way(place)]
        if not candidates:
            raise NoRoom
        # Of the client that holds most; what is incomplete before what is not, then what has not grown for longest.
        least = min(candidates, key=lambda place: (-usage[place.client], place.is_complete, place.grown_at))
        self.leave(least)
        least.make_way()

    def leave(self, place: Place) -> None:
        """Give back what a place has taken; harmless when it has been."""
        if place in self._places:
            self._places.remove(place)
