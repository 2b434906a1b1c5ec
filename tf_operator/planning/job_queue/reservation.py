"""Room that is kept for a job that has waited for long, so that others do not take it, bit by bit, for ever.

It is kept for one job: the first in rank that has waited for ``reserve_after`` and fits when jobs of the queue end. It
is kept where the least has to be given back, and each further ``reserve_after`` at one place more: so a pod that never
ends holds up no more than its own node. Jobs that end before, by their deadlines, may use it meanwhile.

Lower priorities never get that room. Jobs of the same priority have to give it back only in turns that take longer each
time: without these, whoever asks for all nodes, and has one job that does not end, would stop the queue for everybody.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

from tf_operator.job.record import ReplicaType
from tf_operator.planning.job_queue.capacity import FreeCapacity, Group, Placement
from tf_operator.planning.job_queue.jobs import BoundPod, QueueJob
from tf_operator.planning.job_queue.shapes import Shape

TURN: Final = 12
"""The first turn is so many times as long as ``reserve_after``: an hour by default."""
MOST_PODS: Final = 10_000
"""Pods of one type for which room is kept at further places."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Occupancy(NamedTuple):
    """Where the pods of a job are that has room, and where they will be."""

    job: QueueJob
    placements: tuple[Placement, ...]


class Reservation(NamedTuple):
    """Room that is kept for a job, some of which others still have."""

    job: QueueJob
    placements: tuple[Placement, ...]
    until: datetime | None
    """When it is there at the latest, by the deadlines of those that have it; ``None`` if nobody knows."""
    holds_up_equals: bool
    changes_at: datetime
    """When jobs of the same priority have to give it back, or may use it again."""


class Room:
    """What nodes have left, for each as the room allows that is kept for one of them."""

    def __init__(self, free: FreeCapacity, now: datetime, reservation: Reservation | None) -> None:
        self._free = self._rest = free
        self._now = now
        self._reservation = reservation
        if reservation:
            self._rest = free.copy()
            self._rest.keep(reservation.placements)

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other._now, other._reservation, other._free = self._now, self._reservation, self._free.copy()
        other._rest = self._rest.copy() if self._reservation else other._free
        return other

    @property
    def rest(self) -> FreeCapacity:
        return self._rest

    def name_of(self, index: int) -> str:
        return self._free.name_of(index)

    def place(self, job: QueueJob, workers: int) -> tuple[Placement, ...] | None:
        """Take room for a job with so many workers; ``None`` if there is none for it."""
        groups = job.groups(workers)
        for capacity in self._open_to(job):
            placements = capacity.place(groups)
            if placements is not None:
                self._take_beside(capacity, placements)
                return placements
        return None

    def more(self, job: QueueJob, kind: ReplicaType, number: int, *, least: int) -> int:
        """Take room for so many more replicas of a job, or as many as there is, if it is for ``least``; how many."""
        parts, rest, shape = list[Placement](), number, job.shape_of(kind) or Shape()
        for capacity in self._open_to(job):
            placements = capacity.place_some(Group(shape, rest), at=job.node)
            self._take_beside(capacity, placements)
            parts += placements
            rest -= sum(part.number for part in placements)
        if number - rest >= least:
            return number - rest
        back = [part._replace(number=-part.number) for part in parts]
        self._free.keep(back)
        self._take_beside(self._free, back)
        return 0

    def _take_beside(self, capacity: FreeCapacity, placements: Iterable[Placement]) -> None:
        """What was taken from one of the two is gone from the other, too."""
        if self._reservation:
            (self._rest if capacity is self._free else self._free).keep(placements)

    def take(self, placements: tuple[Placement, ...]) -> None:
        """Take room, whether there is any or not: no more than all of it."""
        self._free.take(placements)
        if self._reservation:
            self._rest.take(placements)

    def give(self, pod: BoundPod) -> None:
        self._free.give(pod.node, pod.shape)
        if self._reservation:
            self._rest.give(pod.node, pod.shape)

    def _open_to(self, job: QueueJob) -> tuple[FreeCapacity, ...]:
        reservation = self._reservation
        if reservation is None or _has_precedence(job, reservation.job):
            return (self._free,)
        is_held_up = reservation.holds_up_equals or job.priority < reservation.job.priority
        ends_at = job.ends_at(self._now)
        ends_before = ends_at and reservation.until and ends_at <= reservation.until
        return (self._rest,) if is_held_up and not ends_before else (self._rest, self._free)


def _has_precedence(job: QueueJob, other: QueueJob) -> bool:
    """Whether a job gets room before one for which it is kept.

    A job that runs and is older does not: it may want more workers for ever.
    """
    return job.priority > other.priority if job.is_admitted else job.rank <= other.rank


def find(
    free: FreeCapacity,
    occupancies: Sequence[Occupancy],
    waiting: Iterable[tuple[QueueJob, datetime]],
    *,
    now: datetime,
    after: timedelta,
) -> Reservation | None:
    """The room that is kept now. Of each job that waits, in the order of the queue, is said since when.

    Before the turn of the first it may be that of another of its priority: who asks for all nodes takes no turn away.
    All jobs of a namespace have one turn, that of the first of them: several, one after the other, would leave no gap.
    """
    namespaces = set[str]()
    later: FreeCapacity | None = None
    best: _Turn | None = None
    for job, since in waiting:
        if best and (best.holds_up_equals or job.priority < best.job.priority):
            break
        groups = job.groups(job.least)
        if job.key.namespace in namespaces or now - since < after or free.has_room_for(groups):
            continue
        later = later or _when_all_have_ended(free, occupancies)
        if not later.has_room_for(groups):
            continue
        namespaces.add(job.key.namespace)
        turn = _turn(job, since, now, after)
        if best is None or turn.holds_up_equals:
            best = turn
    if best is None or later is None:
        return None
    groups = best.job.groups(best.job.least)
    first = _soonest(free, later, groups)
    more = _more(free, later, first, groups, (now - best.since) // after - 1)
    until = _until(free, occupancies, first, now)
    return Reservation(best.job, (*first, *more), until, best.holds_up_equals, best.ends_at)


def _when_all_have_ended(free: FreeCapacity, occupancies: Sequence[Occupancy]) -> FreeCapacity:
    """What is left without the jobs that have room."""
    later = free.copy()
    for other in occupancies:
        later.give_all(other.placements)
    return later


def _soonest(free: FreeCapacity, later: FreeCapacity, groups: Sequence[Group]) -> tuple[Placement, ...]:
    """Where all these pods will fit, and the least has to be given back for it."""
    placements = free.copy().place_soonest(groups, later.copy())
    if sum(part.number for part in placements) == sum(group.number for group in groups):
        return placements
    return later.copy().place(groups) or ()  # of pods that may be on few nodes others have taken the place


def _more(
    free: FreeCapacity, later: FreeCapacity, first: tuple[Placement, ...], groups: Sequence[Group], times: int
) -> tuple[Placement, ...]:
    one, other = free.copy(), later.copy()
    for capacity in (one, other):
        capacity.keep(first)
    return one.place_soonest([group._replace(number=min(group.number * times, MOST_PODS)) for group in groups], other)


def _until(
    free: FreeCapacity, occupancies: Sequence[Occupancy], placements: tuple[Placement, ...], now: datetime
) -> datetime | None:
    """When all this room is there at the latest, by the deadlines of the jobs that have it."""
    needs = defaultdict[tuple[int, str], int](int)
    for node, shape, number in placements:
        for name, amount in shape.requests:
            needs[node, name] += amount * number
    deadlines = ((holder.job.ends_at(now), holder.placements) for holder in occupancies)
    ends = sorted(((end, placements) for end, placements in deadlines if end), key=lambda entry: entry[0])
    moments = [_moment(amount - free.left(*place), place, ends) for place, amount in needs.items()]
    certain = [moment for moment in moments if moment]
    return max(certain, default=None) if len(certain) == len(moments) else None


def _moment(
    missing: int, place: tuple[int, str], ends: Sequence[tuple[datetime, tuple[Placement, ...]]]
) -> datetime | None:
    """When so much more is left on a node of one resource; ``None`` if nobody knows."""
    moment: datetime | None = _LONG_AGO
    node, name = place
    for end, placements in ends:
        if missing <= 0:
            break
        missing -= sum(dict(part.shape.requests).get(name, 0) * part.number for part in placements if part.node == node)
        moment = end
    return moment if missing <= 0 else None


class _Turn(NamedTuple):
    """Whose turn it is: that of a job that waits, or of others of its priority."""

    job: QueueJob
    since: datetime
    holds_up_equals: bool
    ends_at: datetime


def _turn(job: QueueJob, since: datetime, now: datetime, after: timedelta) -> _Turn:
    """They alternate, and take longer each time: 1, 1, 2, 2, 4, 4, and so on."""
    begin, length, turn = 0, 1, after * TURN
    times = (now - since - after) / turn
    while times >= begin + 2 * length:
        begin, length = begin + 2 * length, 2 * length
    is_own = times < begin + length
    return _Turn(job, since, is_own, since + after + turn * (begin + length * (1 if is_own else 2)))
