"""The plan of the queue: who starts, who gives up workers, who gets more. Its table of contents is ``make_schedule``.

Jobs start in the order of priority and age, and a later one may overtake one that does not fit; but when that has
waited for ``reserve_after``, ``reservation`` keeps room for it. When one has waited for ``shrink_after``, elastic jobs
of no higher priority give up workers for it, if that is enough; those that report checkpoints save their work first,
if they do so within ``SAVES_WITHIN``. When nothing has started for ``grow_after``, elastic
jobs get workers one by one in turn. No job is resized twice within ``resize_interval``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from tf_operator.job.record import ReplicaType, UnfitRecord
from tf_operator.planning.job_queue import reservation
from tf_operator.planning.job_queue.capacity import FreeCapacity, Node, Placement, most_on
from tf_operator.planning.job_queue.jobs import Admit, BoundPod, Decision, FitNote, QueueJob, Resize, Schedule
from tf_operator.planning.job_queue.limits import Limits
from tf_operator.planning.job_queue.reservation import Occupancy, Reservation, Room
from tf_operator.planning.job_queue.shapes import MOST_RULES, Places, Shape
from tf_operator.planning.snapshot import is_ahead

MOST_WAITING: Final = 100
"""Waiting jobs of one namespace that are looked at, and as many that can never fit: a user with ten thousand keeps
nobody else's waiting."""

MOST_SPARED: Final = 20
"""Jobs for which it is tried whether they can keep the workers that were to be given up."""

SAVES_WITHIN: Final = timedelta(minutes=5)
"""How much longer a job waits, so that those which give up workers for it can save their work before."""
_JUST_SAVED: Final = timedelta(minutes=1)
"""A cluster hears of a checkpoint half a minute late."""
_LOOKED_AT_EVERY: Final = timedelta(seconds=10)
"""How often it is looked whether it has: the queue is not planned whenever a job reports."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What the operator was started with."""

    shrink_after: timedelta = timedelta(seconds=120)
    grow_after: timedelta = timedelta(seconds=60)
    resize_interval: timedelta = timedelta(minutes=5)
    reserve_after: timedelta | None = timedelta(minutes=5)
    """``None``: a later job overtakes one that does not fit, however long that has waited."""
    resizes: bool = True
    """Without it, jobs start only with all that they ask for, and keep that."""
    counts: tuple[str, ...] = ()
    """How the names of the resources begin that count; empty: all do. On one machine CPU need not count."""


@dataclass(frozen=True, slots=True)
class Cluster:
    now: datetime
    nodes: tuple[Node, ...]
    jobs: tuple[QueueJob, ...]
    rules: QueueRules = QueueRules()


class _Yield(NamedTuple):
    """For whom workers are given up, and of which jobs how many are left."""

    job: QueueJob
    resizes: tuple[Resize, ...]


def make_schedule(cluster: Cluster) -> Schedule:
    if prefixes := cluster.rules.counts:
        nodes = tuple(node.counting(prefixes) for node in cluster.nodes)
        cluster = replace(cluster, nodes=nodes, jobs=tuple(job.counting(prefixes) for job in cluster.jobs))
    running = sorted((job for job in cluster.jobs if job.is_admitted), key=_rank)
    candidates = list(_candidates(cluster))
    waiting = [job for job, _ in candidates]
    free = FreeCapacity(cluster.nodes)
    occupancies = [Occupancy(job, (*_bound_places(free, job), *_reserve(free, job))) for job in running]
    kept_room = _find_reservation(cluster, free, occupancies, waiting)
    room = Room(free, cluster.now, kept_room)
    admissions = list(_admissions(cluster, room, running, waiting))
    starting = {decision.job.uid for decision in admissions}
    rest = [job for job in waiting if job.uid not in starting]
    schedule = Schedule(
        tuple(admissions),
        tuple(FitNote(job, unfit) for job, unfit in candidates if job.uid not in starting and unfit != job.unfit),
        waiting=sum(not job.is_admitted for job in cluster.jobs if job.uid not in starting),
        wake_at=kept_room.changes_at if kept_room else None,
        kept_for=kept_room.job if kept_room and kept_room.job.uid not in starting else None,
    )
    return _with_resizes(cluster, room, running, rest, schedule) if cluster.rules.resizes else schedule


def _with_resizes(
    cluster: Cluster, room: Room, running: list[QueueJob], waiting: list[QueueJob], schedule: Schedule
) -> Schedule:
    """Shrink for who has waited long enough, grow when nothing has started for long enough; else wait for that."""
    now, rules, resizes = cluster.now, cluster.rules, list[Resize]()
    resizes_at = {job.uid: moment for job in running if (moment := _resized_time(job, now))}
    moments = [moment + rules.resize_interval for moment in resizes_at.values()]
    moments += [schedule.wake_at] if schedule.wake_at else []
    if not schedule.decisions and not any(_leaves(job, cluster) for job in running):
        claimants = [job for job in waiting if _due(job, cluster) <= now]
        pressing = _yielding(cluster, room, running, claimants)
        is_held = pressing is not None and _is_held(cluster, room, running, claimants, pressing)
        resizes = list(pressing.resizes) if pressing and not is_held else []
        moments += (
            [now + _LOOKED_AT_EVERY, *(_due(job, cluster) + SAVES_WITHIN for job in claimants)] if is_held else []
        )
        may_come = None if pressing else _yielding(cluster, room, running, waiting)
        grows_at = _last_start(running, now) + rules.grow_after
        if not (may_come or resizes) and grows_at <= now:
            resizes = list(_growth(cluster, room.rest, running))
        moments.append(grows_at)
    moments += [_due(job, cluster) for job in waiting]
    moments += [resizes_at[job.uid] + rules.shrink_after for job in running if _leaves(job, cluster)]
    wake_at = min((moment for moment in moments if moment > now), default=None)
    return replace(schedule, decisions=(*schedule.decisions, *resizes), wake_at=wake_at)


# --- Admission -----------------------------------------------------------------------------------------------------


def _rank(job: QueueJob) -> tuple[int, datetime, str]:
    return job.rank


def _candidates(cluster: Cluster) -> Iterator[tuple[QueueJob, UnfitRecord | None]]:
    """The first of each namespace, in the order of the queue, and why they cannot fit, if they cannot."""
    limits = Limits(cluster.nodes)
    counts, costs = Counter[tuple[str, bool]](), Counter[str]()
    rules = defaultdict[str, set[Places]](set)
    for job in sorted((job for job in cluster.jobs if not job.is_admitted), key=_rank):
        namespace = job.key.namespace
        places = {need.shape.places for need in job.needs} - rules[namespace]
        rules[namespace] |= places
        costs[namespace] += sum(place.rules for place in places)
        numbers = counts[namespace, True], counts[namespace, False]
        if MOST_WAITING in numbers or costs[namespace] > MOST_RULES:
            continue
        unfit = limits.unfit(job, _fewest_workers(job, cluster))
        counts[namespace, bool(unfit)] += 1
        yield job, unfit


def _fewest_workers(job: QueueJob, cluster: Cluster) -> int:
    return job.least if cluster.rules.resizes else job.workers


def _bound_places(free: FreeCapacity, job: QueueJob) -> Iterator[Placement]:
    for pod in job.pods:
        node = free.index_of(pod.node)
        if node is not None:
            yield Placement(node, pod.shape, 1)


def _reserve(free: FreeCapacity, job: QueueJob) -> Iterator[Placement]:
    groups = job.unplaced if job.is_reserved else ()
    placements = free.place(groups, at=job.node)
    if placements is not None:
        yield from placements
        return
    for group in groups:
        yield from free.place_some(group)


def _find_reservation(
    cluster: Cluster, free: FreeCapacity, occupancies: Sequence[Occupancy], waiting: Iterable[QueueJob]
) -> Reservation | None:
    """The room that is kept for one that has waited for long."""
    after, now = cluster.rules.reserve_after, cluster.now
    since = ((job, _waits_since(job, now)) for job in waiting)
    return reservation.find(free, occupancies, since, now=now, after=after) if after else None


def _admissions(
    cluster: Cluster, room: Room, running: Sequence[QueueJob], waiting: Sequence[QueueJob]
) -> Iterator[Decision]:
    """Who fits, in order, and whose user wants more replicas than it has room for.

    First comes the job for which others are just giving up workers: nobody takes its room.
    """
    leaving = [job for job in running if _leaves(job, cluster)]
    recipient, placements = _job_to_make_room_for(cluster, room, leaving, waiting) if leaving else (None, ())
    if recipient and (start := _start(cluster, room, recipient)):
        yield start
    else:
        room.take(placements)
    for job in sorted([*waiting, *(job for job in running if job.growth)], key=_rank):
        decision = None if job is recipient else (_more if job.is_admitted else _start)(cluster, room, job)
        if decision is not None:
            yield decision


def _more(cluster: Cluster, room: Room, job: QueueJob) -> Resize | None:
    """As many replicas as its user wants; or as many as have room, if it was not resized a moment ago."""
    counts = {ReplicaType.WORKER: job.workers, ReplicaType.PS: job.servers}
    for kind, missing in job.growth.items():
        counts[kind] += room.more(job, kind, missing, least=1 if _may_resize(job, cluster) else missing)
    resize = Resize(job, counts[ReplicaType.WORKER], counts[ReplicaType.PS])
    return resize if (resize.workers, resize.servers) != (job.workers, job.servers) else None


def _start(cluster: Cluster, room: Room, job: QueueJob) -> Admit | None:
    """With all that it asks for, or with the fewest workers that it starts with."""
    for workers in dict.fromkeys((job.workers, _fewest_workers(job, cluster))):
        placements = room.place(job, workers)
        if placements is not None:
            node = most_on(part for part in placements if job.worker in {None, part.shape})
            return Admit(job, workers, "" if node is None else room.name_of(node))
    return None


def _leaves(job: QueueJob, cluster: Cluster) -> bool:
    """Whether workers that it has given up are still there. A pod that does not go holds up the others only so long."""
    since = _resized_time(job, cluster.now)
    return bool(since and job.leaving and cluster.now - since < cluster.rules.shrink_after)


def _job_to_make_room_for(
    cluster: Cluster, room: Room, leaving: Sequence[QueueJob], waiting: Sequence[QueueJob]
) -> tuple[QueueJob | None, tuple[Placement, ...]]:
    """For whom workers are given up, as far as the queue is still the same, and its room when they are gone."""
    later = room.copy()
    for other in leaving:
        for pod in other.leaving:
            later.give(pod)
    for job in _by_claim((job for job in waiting if _due(job, cluster) <= cluster.now), cluster):
        placements = later.place(job, job.least)
        if placements is not None:
            return job, placements
    return None, ()


# --- Shrinking -----------------------------------------------------------------------------------------------------


def _by_claim(waiting: Iterable[QueueJob], cluster: Cluster) -> list[QueueJob]:
    """For whom others give up workers: by priority; then who has waited for long, by age; then who needs the fewest."""
    after, now = cluster.rules.reserve_after, cluster.now

    def claim(job: QueueJob) -> tuple[int, int, datetime, str]:
        has_waited = after is not None and now - _waits_since(job, now) >= after
        return -job.priority, 0 if has_waited else job.least, job.created, job.uid

    return sorted(waiting, key=claim)


def _yielding(cluster: Cluster, room: Room, running: Sequence[QueueJob], waiting: Sequence[QueueJob]) -> _Yield | None:
    """The first waiting job for which the workers that others may give up are enough; nothing is taken if none is."""
    able = [job for job in running if job.elastic and job.workers > job.least and _may_resize(job, cluster)]
    claims = _by_claim(waiting, cluster) if able else ()
    for priority, jobs in groupby(claims, key=lambda job: job.priority):
        givers = [job for job in able if job.priority <= priority]
        steps = list(_steps(givers))
        all_given = _after(room, steps)
        for job in jobs:
            if all_given.place(job, job.least) is not None:
                return _Yield(job, tuple(_fewest(room, steps, job)))
    return None


def _is_held(
    cluster: Cluster, room: Room, running: Sequence[QueueJob], claimants: Sequence[QueueJob], pressing: _Yield
) -> bool:
    """Whether workers stay until their job has saved its work.

    What counts is for how long jobs wait that could start instead: whatever programs say of their checkpoints, nobody
    waits longer for them than ``SAVES_WITHIN``. A time that is yet to come harms only the job whose program says it.
    """
    now = cluster.now
    if not any(_has_unsaved_work(resize.job, now) for resize in pressing.resizes):
        return False
    overdue = [job for job in claimants if now >= _due(job, cluster) + SAVES_WITHIN]
    return not (overdue and _yielding(cluster, room, running, overdue))


def _has_unsaved_work(job: QueueJob, now: datetime) -> bool:
    """Whether it saves its work, and has not done so just now."""
    return job.checkpoint_time is not None and now - job.checkpoint_time > _JUST_SAVED


class _Step(NamedTuple):
    """A worker that a job can give up: that of the highest index it still has."""

    job: QueueJob
    workers: int
    """How many are left then."""
    pod: BoundPod | None
    """``None`` if it is on no node."""


def _steps(givers: Sequence[QueueJob]) -> Iterator[_Step]:
    """Workers in the order in which they are given up: all of one job before the next, as each is resized once."""
    for job in sorted(givers, key=_cost):
        pods = job.bound_workers
        for index in range(job.workers - 1, job.least - 1, -1):
            yield _Step(job, index, pods.get(index))


def _cost(job: QueueJob) -> tuple[int, int, float, str]:
    """Who gives up workers first has the least: of jobs with as much to spare, who has saved its work last."""
    checkpoint_at = job.checkpoint_time.timestamp() if job.checkpoint_time else 0.0
    return job.priority, job.least - job.workers, -checkpoint_at, job.uid


def _after(room: Room, steps: Iterable[_Step]) -> Room:
    later = room.copy()
    for step in steps:
        if step.pod:
            later.give(step.pod)
    return later


def _fewest(room: Room, steps: Sequence[_Step], job: QueueJob) -> Iterator[Resize]:
    """As few as are needed: the shortest beginning of the list, and of that no job that can keep its workers."""
    enough, few = len(steps), 0
    while few < enough:
        middle = (few + enough) // 2
        if _after(room, steps[:middle]).place(job, job.least) is None:
            few = middle + 1
        else:
            enough = middle
    choice = list(steps[:enough])
    givers = {step.job.uid: step.job for step in choice}
    for uid in list(givers)[:-1][:MOST_SPARED]:
        without = [step for step in choice if step.job.uid != uid]
        if _after(room, without).place(job, job.least) is not None:
            choice = without
    lowest = {step.job.uid: step for step in choice}
    return (Resize(step.job, step.workers, step.job.servers) for step in lowest.values())


# --- Growing -------------------------------------------------------------------------------------------------------


def _growth(cluster: Cluster, capacity: FreeCapacity, running: Sequence[QueueJob]) -> Iterator[Resize]:
    """One worker for each job in turn, until nobody is left who may have more and for whom there is room."""
    able = [job for job in running if job.elastic and not job.unplaced and _may_resize(job, cluster)]
    growing = {job.uid: job.workers for job in able}
    turn, full = able, dict[Shape, int]()
    while turn:
        turn = [job for job in turn if growing[job.uid] < job.most and _grows(capacity, job, full)]
        for job in turn:
            growing[job.uid] += 1
    return (Resize(job, growing[job.uid], job.servers) for job in able if growing[job.uid] > job.workers)


def _grows(capacity: FreeCapacity, job: QueueJob, full: dict[Shape, int]) -> bool:
    return job.worker is not None and capacity.place_next(job.worker, full, at=job.node)


# --- When ----------------------------------------------------------------------------------------------------------


def _waits_since(job: QueueJob, now: datetime) -> datetime:
    """Since when a job has waited: not since before it was created, and not since a moment that is yet to come."""
    if job.queued_time is None:
        return now
    return min(job.created if is_ahead(job.queued_time, now) else max(job.queued_time, job.created), now)


def _resized_time(job: QueueJob, now: datetime) -> datetime | None:
    """When it was last resized; a moment that is yet to come was noted by a wrong clock, and holds up nobody."""
    return None if job.resized_time is None or is_ahead(job.resized_time, now) else job.resized_time


def _due(job: QueueJob, cluster: Cluster) -> datetime:
    return _waits_since(job, cluster.now) + cluster.rules.shrink_after


def _may_resize(job: QueueJob, cluster: Cluster) -> bool:
    moment = _resized_time(job, cluster.now)
    return moment is None or cluster.now - moment >= cluster.rules.resize_interval


def _last_start(running: Iterable[QueueJob], now: datetime) -> datetime:
    starts = [job.admitted_time for job in running if job.admitted_time and not is_ahead(job.admitted_time, now)]
    return max(starts, default=datetime.min.replace(tzinfo=UTC))
