"""The plan of the queue: who starts, who gives up workers, who gets more. Its table of contents is ``make_schedule``.

Jobs start in the order of priority and age, and a later one may overtake one that does not fit. When one has waited for
``shrink_after``, elastic jobs of no higher priority give up workers for it, if that is enough. When nothing has started
for ``grow_after``, elastic jobs get workers one by one in turn. No job is resized twice within ``resize_interval``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from tf_operator.planning.autoscaling.capacity import FreeCapacity, Node, Placed, most_on
from tf_operator.planning.autoscaling.jobs import Admit, QueueJob, Schedule, WorkerResize
from tf_operator.planning.autoscaling.shapes import MOST_RULES, Places, Shape
from tf_operator.planning.snapshot import is_ahead

MOST_WAITING: Final = 100
"""Waiting jobs of one namespace that are looked at: a user with ten thousand keeps nobody else's waiting."""

MOST_SPARED: Final = 20
"""Jobs for which it is tried whether they can keep the workers that were to be given up."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What the operator was started with."""

    shrink_after: timedelta = timedelta(seconds=120)
    grow_after: timedelta = timedelta(seconds=60)
    resize_interval: timedelta = timedelta(minutes=5)
    resizes: bool = True
    """Without it, jobs start only with all that they ask for, and keep that."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known at one moment."""

    now: datetime
    nodes: tuple[Node, ...]
    jobs: tuple[QueueJob, ...]
    rules: QueueRules = QueueRules()


class _Yield(NamedTuple):
    """For whom workers are given up, and of which jobs how many are left."""

    job: QueueJob
    resizes: tuple[WorkerResize, ...]


def make_schedule(cluster: Cluster) -> Schedule:
    """What is to be done now."""
    running = sorted((job for job in cluster.jobs if job.is_admitted), key=_rank)
    waiting = list(_considered(job for job in cluster.jobs if not job.is_admitted))
    capacity = FreeCapacity(cluster.nodes)
    for job in running:
        _reserve(capacity, job)
    admitted = list(_admissions(cluster, capacity, running, waiting))
    starting = {found.job.uid for found in admitted}
    left = [job for job in waiting if job.uid not in starting]
    found = Schedule(tuple(admitted), waiting=sum(not job.is_admitted for job in cluster.jobs) - len(admitted))
    if not cluster.rules.resizes:
        return found
    return _with_resizes(cluster, capacity, running, left, found)


def _with_resizes(
    cluster: Cluster, capacity: FreeCapacity, running: list[QueueJob], waiting: list[QueueJob], found: Schedule
) -> Schedule:
    """Shrink for who has waited long enough, grow when nothing has started for long enough; else wait for that."""
    now, rules, resizes = cluster.now, cluster.rules, list[WorkerResize]()
    moments = [_since(job.resized_at, now) + rules.resize_interval for job in running if job.resized_at]
    if not found.decisions and not any(_leaves(job, cluster) for job in running):
        due = [job for job in waiting if _due(job, cluster) <= now]
        pressing = _yielding(cluster, capacity, running, due)
        resizes = list(pressing.resizes) if pressing else []
        may_come = None if pressing else _yielding(cluster, capacity, running, waiting)
        grows_at = _last_start(running, now) + rules.grow_after
        if may_come:
            moments.append(_due(may_come.job, cluster))
        elif not resizes and grows_at <= now:
            resizes = list(_growth(cluster, capacity, running))
        moments.append(grows_at)
    moments += [_due(job, cluster) for job in waiting]
    moments += [job.resized_at + rules.shrink_after for job in running if job.resized_at and _leaves(job, cluster)]
    wake_at = min((moment for moment in moments if moment > now), default=None)
    return Schedule((*found.decisions, *resizes), found.waiting, wake_at)


# --- Admission -----------------------------------------------------------------------------------------------------


def _rank(job: QueueJob) -> tuple[int, datetime, str]:
    return job.rank


def _considered(jobs: Iterable[QueueJob]) -> Iterator[QueueJob]:
    """The first of each namespace, in the order of the queue."""
    numbers, rules = Counter[str](), defaultdict[str, set[Places]](set)
    costs = Counter[str]()
    for job in sorted(jobs, key=_rank):
        namespace = job.key.namespace
        numbers[namespace] += 1
        places = {need.shape.places for need in job.needs} - rules[namespace]
        rules[namespace] |= places
        costs[namespace] += sum(found.rules for found in places)
        if numbers[namespace] <= MOST_WAITING and costs[namespace] <= MOST_RULES:
            yield job


def _reserve(capacity: FreeCapacity, job: QueueJob) -> None:
    """Keep room for the pods of a job that are on no node yet."""
    if job.is_reserved and (groups := job.unplaced) and capacity.place(groups, at=job.node) is None:
        for group in groups:
            for _ in range(group.number):
                if capacity.place((group._replace(number=1),)) is None:
                    break


def _admissions(
    cluster: Cluster, capacity: FreeCapacity, running: Sequence[QueueJob], waiting: Sequence[QueueJob]
) -> Iterator[Admit]:
    """Who fits, in order. First comes the job for which others are just giving up workers: nobody takes its room."""
    leaving = [job for job in running if _leaves(job, cluster)]
    favoured, room = _favoured(cluster, capacity, leaving, waiting) if leaving else (None, ())
    if favoured and (found := _start(cluster, capacity, favoured)):
        yield found
    else:
        capacity.take(room)
    for job in waiting:
        if job is not favoured and (found := _start(cluster, capacity, job)):
            yield found


def _start(cluster: Cluster, capacity: FreeCapacity, job: QueueJob) -> Admit | None:
    """With all that it asks for, or with the fewest workers that it starts with."""
    for workers in dict.fromkeys((job.workers, job.least if cluster.rules.resizes else job.workers)):
        placed = capacity.place(job.groups(workers))
        if placed is not None:
            node = most_on(part for part in placed if job.worker in {None, part.shape})
            return Admit(job, workers, "" if node is None else capacity.name_of(node))
    return None


def _leaves(job: QueueJob, cluster: Cluster) -> bool:
    """Whether workers that it has given up are still there. A pod that does not go holds up the others only so long."""
    since = job.resized_at
    return bool(since and job.leaving and cluster.now - _since(since, cluster.now) < cluster.rules.shrink_after)


def _favoured(
    cluster: Cluster, capacity: FreeCapacity, leaving: Sequence[QueueJob], waiting: Sequence[QueueJob]
) -> tuple[QueueJob | None, tuple[Placed, ...]]:
    """For whom workers are given up, as far as the queue is still the same, and its room when they are gone."""
    later = capacity.copy()
    for other in leaving:
        for node in other.leaving:
            later.give(node, other.worker)
    for job in sorted((job for job in waiting if _due(job, cluster) <= cluster.now), key=_claim):
        placed = later.place(job.groups(job.least))
        if placed is not None:
            return job, placed
    return None, ()


# --- Shrinking -----------------------------------------------------------------------------------------------------


def _claim(job: QueueJob) -> tuple[int, int, datetime, str]:
    """For whom others give up workers: by priority, and then for who needs the fewest."""
    return -job.priority, job.least, job.created, job.uid


def _yielding(
    cluster: Cluster, capacity: FreeCapacity, running: Sequence[QueueJob], waiting: Sequence[QueueJob]
) -> _Yield | None:
    """The first waiting job for which the workers that others may give up are enough; nothing is taken if none is."""
    able = [job for job in running if job.elastic and job.workers > job.least and _may_resize(job, cluster)]
    if not able or not waiting:
        return None
    for priority, jobs in groupby(sorted(waiting, key=_claim), key=lambda job: job.priority):
        givers = [job for job in able if job.priority <= priority]
        steps = list(_steps(givers))
        all_given = _after(capacity, steps)
        for job in jobs:
            if all_given.place(job.groups(job.least)) is not None:
                return _Yield(job, tuple(_fewest(capacity, steps, job)))
    return None


class _Step(NamedTuple):
    """A worker that a job can give up: that of the highest index it still has."""

    job: QueueJob
    workers: int
    """How many are left then."""
    node: str
    """Where it is; empty for nowhere."""


def _steps(givers: Sequence[QueueJob]) -> Iterator[_Step]:
    """Workers in the order in which they are given up: all of one job before the next, as each is resized once."""
    for job in sorted(givers, key=lambda job: (job.priority, job.least - job.workers, job.uid)):
        nodes = job.worker_nodes
        for index in range(job.workers - 1, job.least - 1, -1):
            yield _Step(job, index, nodes.get(index, ""))


def _after(capacity: FreeCapacity, steps: Iterable[_Step]) -> FreeCapacity:
    later = capacity.copy()
    for job, _, node in steps:
        later.give(node, job.worker)
    return later


def _fewest(capacity: FreeCapacity, steps: Sequence[_Step], wanted: QueueJob) -> Iterator[WorkerResize]:
    """As few as are needed: the shortest beginning of the list, and of that no job that can keep its workers."""
    groups = wanted.groups(wanted.least)
    enough, few = len(steps), 0
    while few < enough:
        middle = (few + enough) // 2
        if _after(capacity, steps[:middle]).place(groups) is None:
            few = middle + 1
        else:
            enough = middle
    taken = list(steps[:enough])
    givers = {step.job.uid: step.job for step in taken}
    for uid in list(givers)[:-1][:MOST_SPARED]:
        without = [step for step in taken if step.job.uid != uid]
        if _after(capacity, without).place(groups) is not None:
            taken = without
    lowest = {step.job.uid: step for step in taken}
    return (WorkerResize(step.job, step.workers) for step in lowest.values())


# --- Growing -------------------------------------------------------------------------------------------------------


def _growth(cluster: Cluster, capacity: FreeCapacity, running: Sequence[QueueJob]) -> Iterator[WorkerResize]:
    """One worker for each job in turn, until nobody is left who may have more and for whom there is room."""
    able = (job for job in running if job.elastic and not job.unplaced and _may_resize(job, cluster))
    growing = {job.uid: job.workers for job in able}
    turn, full = [job for job in running if job.uid in growing], dict[Shape, int]()
    while turn:
        turn = [job for job in turn if growing[job.uid] < job.most and _grows(capacity, job, full)]
        for job in turn:
            growing[job.uid] += 1
    return (WorkerResize(job, growing[job.uid]) for job in running if growing.get(job.uid, 0) > job.workers)


def _grows(capacity: FreeCapacity, job: QueueJob, full: dict[Shape, int]) -> bool:
    return job.worker is not None and capacity.place_next(job.worker, full, at=job.node)


# --- When ----------------------------------------------------------------------------------------------------------


def _since(moment: datetime, now: datetime) -> datetime:
    """A moment that was noted as past; not one that a wrong clock has written into the future."""
    return now if is_ahead(moment, now) else moment


def _due(job: QueueJob, cluster: Cluster) -> datetime:
    """From when on others give up workers for a waiting job."""
    return _since(job.queued_at or cluster.now, cluster.now) + cluster.rules.shrink_after


def _may_resize(job: QueueJob, cluster: Cluster) -> bool:
    """Whether it was not resized a moment ago."""
    if job.resized_at is None:
        return True
    return cluster.now - _since(job.resized_at, cluster.now) >= cluster.rules.resize_interval


def _last_start(running: Iterable[QueueJob], now: datetime) -> datetime:
    starts = [_since(job.admitted_at, now) for job in running if job.admitted_at]
    return max(starts, default=now - timedelta(days=1))
