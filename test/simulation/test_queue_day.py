"""A day of the job queue: 200 jobs on 12 nodes, on a virtual clock.

The test is the scheduler and the pods: a pod is bound where it fits, first on the node that its job prefers; it begins
to work after a while, and one that is given up goes after its grace period. What the queue reaches is compared with a
clairvoyant packing, for which nothing takes time: at each moment it has as many workers at work as there may be.

Other days have one large job among very many small ones, and jobs without pods.
"""

import heapq
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ElasticRange
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.capacity import Node
from tf_operator.planning.job_queue.jobs import Admit, BoundPod, QueueJob, ReplicaNeed
from tf_operator.planning.job_queue.schedule import Cluster, QueueRules, make_schedule

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
DAY, JOBS, GPUS = 86400.0, 200, 8
NODES = [f"node-{index:02}" for index in range(12)]
STARTS, GOES, REPLACED = 20.0, 30.0, 60.0
"""Seconds until a pod works, until one that is given up is gone, and until pods that know more others work."""
WORKER = ReplicaType.WORKER
DEFAULT_RULES = QueueRules()


@dataclass
class Life:
    """One job: what is left of its work, and where its workers are."""

    job: QueueJob
    arrives: float
    work: float
    is_dynamic: bool
    workers: dict[int, str] = field(default_factory=dict)
    works_from: dict[int, float] = field(default_factory=dict)
    going: dict[int, str] = field(default_factory=dict)
    ended: float | None = None
    admitted: float | None = None

    @property
    def gpus(self) -> int:
        return self.job.worker.requests[0][1]

    def at_work(self, now):
        return sum(index in self.workers and self.works_from[index] <= now for index in range(self.job.workers))

    def view(self):
        places = {**self.going, **self.workers}
        if not places:
            return self.job
        requests = self.job.worker.requests
        return replace(self.job, pods=tuple(BoundPod(WORKER, index, node, requests) for index, node in places.items()))


class Day:
    """The cluster and its jobs, from one event to the next."""

    def __init__(self, lives, rules=DEFAULT_RULES, others=()):
        self.lives, self.rules, self.others = lives, rules, others
        self.now, self.done, self.resizes, self.least = 0.0, 0.0, [], []
        self.moments = [life.arrives for life in self.lives]
        heapq.heapify(self.moments)

    def run(self, *, until=float("inf")):
        while self.moments and self.moments[0] <= until:
            moment = heapq.heappop(self.moments)
            if moment > self.now or not self.now:
                self._advance(moment)
                self._plan()

    def _advance(self, moment):
        """Let the workers work; jobs end, and pods that are given up go."""
        for life in self._running():
            done = min(life.at_work(self.now) * (moment - self.now), life.work)
            life.work -= done
            self.done += done * life.gpus * (self.now < DAY)
            if life.work <= 1e-6:
                life.ended, life.workers, life.going = moment, {}, {}
        self.now = moment
        for life in self._running():
            indexes = [index for index in life.going if life.works_from[index] <= moment]
            for index in indexes:
                del life.going[index]
            self._bind(life)

    def _plan(self):
        now = MIDNIGHT + timedelta(seconds=self.now)
        there = [life for life in self.lives if life.arrives <= self.now and life.ended is None]
        held = self._held()
        nodes = tuple(Node(name, _gpus(GPUS), _gpus(held[name])) for name in NODES)
        schedule = make_schedule(Cluster(now, nodes, (*self.others, *(life.view() for life in there)), self.rules))
        by_uid = {life.job.uid: life for life in there}
        for decision in schedule.decisions:
            if life := by_uid.get(decision.job.uid):
                self._act(life, decision, now)
        without_pods = {decision.job.uid for decision in schedule.decisions} - by_uid.keys()
        self.others = tuple(replace(job, is_admitted=job.is_admitted or job.uid in without_pods) for job in self.others)
        for life in self._running():
            self._bind(life)
        self._wake(schedule.wake_at)

    def _act(self, life, decision, now):
        old_workers = life.job.workers
        life.job = replace(life.job, workers=decision.workers)
        if isinstance(decision, Admit):
            life.admitted = self.now
            life.job = replace(life.job, is_admitted=True, admitted_time=now, node=decision.node)
            return
        life.job = replace(life.job, resized_time=now)
        self.resizes.append((life.job.uid, self.now))
        for index in range(decision.workers, old_workers):
            life.going[index] = life.workers.pop(index)
            life.works_from[index] = self.now + GOES
        if decision.workers > old_workers and not life.is_dynamic:
            life.works_from |= dict.fromkeys(life.workers, self.now + REPLACED)

    def _bind(self, life):
        for index in range(life.job.workers):
            if index in life.workers or index in life.going:
                continue
            held = self._held()
            room = [name for name in [life.job.node, *NODES] if name and held[name] + life.gpus <= GPUS]
            if room:
                life.workers[index], life.works_from[index] = room[0], self.now + STARTS

    def _wake(self, wake_at):
        """At the next thing that happens by itself."""
        if wake_at:
            heapq.heappush(self.moments, (wake_at - MIDNIGHT).total_seconds())
        for life in self._running():
            self.least.append(life.job.workers - life.job.least)
            later = [moment for moment in life.works_from.values() if moment > self.now]
            speed = life.at_work(self.now)
            for moment in [*later, *([self.now + life.work / speed] if speed else [])]:
                heapq.heappush(self.moments, max(moment, self.now + 1e-3))

    def _running(self):
        return [life for life in self.lives if life.job.is_admitted and life.ended is None]

    def _held(self):
        used_gpus = dict.fromkeys(NODES, 0)
        for life in self._running():
            for node in (*life.workers.values(), *life.going.values()):
                used_gpus[node] += life.gpus
                assert used_gpus[node] <= GPUS
        return used_gpus


def _life(chance, number):
    workers = chance.choice([1, 2, 2, 4, 4, 8, 12])
    most = workers + chance.choice([0, 2, 4, 8])
    needs = (ReplicaNeed(WORKER, workers, shapes.Shape(_gpus(chance.choice([1, 1, 1, 2])))),)
    arrives = chance.uniform(0, DAY * 0.9)
    created = MIDNIGHT + timedelta(seconds=arrives)
    job = QueueJob(
        key=ObjectKey(f"team-{number % 7}", f"job-{number}"),
        uid=f"{number:03}",
        created=created,
        needs=needs,
        elastic=ElasticRange(WORKER, max(workers // 2, 1), most),
        workers=workers,
        queued_time=created,
    )
    hours = chance.choice([0.5, 1, 2, 3, 4])
    return Life(job, arrives, work=workers * hours * 3600, is_dynamic=chance.random() < 0.5)


def _among_small_ones(chance, priority):
    """One job of 8 GPUs, and 1152 of one GPU, which come so fast that they would keep all nodes busy for the day."""
    job = _life(chance, 0).job
    small = [
        replace(
            job,
            key=ObjectKey("small", f"small-{number}"),
            uid=f"{number:04}",
            created=MIDNIGHT + timedelta(seconds=number * 60),
            queued_time=MIDNIGHT + timedelta(seconds=number * 60),
            needs=(ReplicaNeed(WORKER, 1, shapes.Shape(_gpus(1))),),
            elastic=None,
            workers=1,
        )
        for number in range(1152)
    ]
    came = MIDNIGHT + timedelta(hours=3)
    needs = (ReplicaNeed(WORKER, 1, shapes.Shape(_gpus(8))),)
    large = replace(small[0], uid="large", created=came, queued_time=came, needs=needs, priority=priority)
    lives = [
        Life(job, number * 60.0, work=chance.uniform(1, 3) * 3600, is_dynamic=True) for number, job in enumerate(small)
    ]
    return [*lives, Life(large, 3 * 3600.0, work=3600.0, is_dynamic=True)]


def _gpus(count):
    return shapes.amounts({"gpu": count})


def clairvoyant(lives):
    """GPU seconds of the day, if what may be at work always is, the longest first, on one node as large as all."""
    step, done = 30.0, 0.0
    work = {life.job.uid: life.work for life in lives}
    now = 0.0
    while now < DAY:
        free = float(len(NODES) * GPUS)
        there = [life for life in lives if life.arrives <= now and work[life.job.uid] > 0]
        for life in sorted(there, key=lambda life: -work[life.job.uid] / life.job.most):
            used = min(life.job.most, free / life.gpus, work[life.job.uid] / step)
            work[life.job.uid] -= used * step
            free -= used * life.gpus
            done += used * life.gpus * step
        now += step
    return done


@pytest.mark.parametrize(
    ("seed", "saved"),
    [
        pytest.param(0, None, id="nobody says that he saves"),
        pytest.param(0, MIDNIGHT - timedelta(days=1), id="nobody saves in time", marks=pytest.mark.nightly),
        pytest.param(1, None, marks=pytest.mark.nightly),
    ],
)
def test_a_day_of_the_queue_uses_what_a_clairvoyant_packing_would(seed, saved):
    chance = random.Random(seed)
    day = Day([_life(chance, number) for number in range(JOBS)])
    for life in day.lives:
        life.job = replace(life.job, checkpoint_time=saved)
    best = clairvoyant(day.lives)
    day.run()

    assert best > 0.95 * len(NODES) * GPUS * DAY
    assert day.done >= 0.98 * best
    assert all(life.ended is not None for life in day.lives)
    assert min(day.least) >= 0
    last = {}
    for uid, moment in day.resizes:
        assert moment - last.get(uid, -DAY) >= 299.99
        last[uid] = moment
    assert day.resizes


@pytest.mark.parametrize(
    ("priority", "longest"),
    [
        # five minutes, and what the longest job on the node it waits for may still take
        pytest.param(1_000_000, timedelta(hours=3, minutes=6), id="of a higher priority"),
        # of the same priority, also the turns of the others
        pytest.param(0, timedelta(hours=5), id="of the same priority"),
    ],
)
def test_a_large_job_among_very_many_small_ones_starts_in_bounded_time(priority, longest):
    day = Day(_among_small_ones(random.Random(2), priority))
    large = day.lives[-1]
    day.run(until=large.arrives + longest.total_seconds())

    assert large.admitted is not None
    assert sum(life.ended is not None for life in day.lives) > 100


def test_without_reservation_small_jobs_pass_a_large_one_for_as_long_as_they_come():
    day = Day(_among_small_ones(random.Random(2), 1_000_000), replace(DEFAULT_RULES, reserve_after=None))
    day.run(until=7 * 3600)

    assert day.lives[-1].admitted is None
    assert sum(life.ended is not None for life in day.lives) > 100


def test_jobs_without_pods_start_at_once_and_change_nothing_for_the_others():
    days = []
    for number in (0, 20):
        chance = random.Random(0)
        lives = [_life(chance, number) for number in range(40)]
        template = replace(lives[0].job, needs=(), workers=0)
        others = tuple(replace(template, uid=f"empty-{number}", elastic=None) for number in range(number))
        days.append(Day(lives, others=others))
        days[-1].run()

    assert [life.ended for life in days[0].lives] == [life.ended for life in days[1].lives]
    assert all(job.is_admitted for job in days[1].others)
