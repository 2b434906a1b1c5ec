"""How writes are spread, so that no job waits for another one's thousand pods, or another namespace's thousand jobs.

A job's writes begin one after the other, each when there is a slot for it; the slots are few. Of the jobs that wait for
one, that of the namespace that has the fewest slots comes first, and within a namespace the job that has had least in
its reconcile. So the first pod of a small job never waits behind the five hundredth of a large one. Nor does it wait
behind the jobs of a crowded namespace: the work queue takes jobs of each namespace in turn.

A reconcile also holds a worker. After its share it gives the worker up as soon as another job waits, and goes on later
with a plan of its own time. If nobody waits it goes on, and a single large job costs one plan.

Whatever is planned stops when the job is deleted or its spec changes: at most the writes in flight still happen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.clock import Clock
from tf_operator.projections.jobs import StoredJob

T = TypeVar("T")

MOST_AT_ONCE: Final = 32
"""Writes of one job in flight: more do not make the apiserver faster."""
MOST_IN_ALL: Final = 40
"""Writes of all jobs in flight; a few connections are left for statuses, events and reads."""
SHARE: Final = 32
"""Writes, each of up to two requests, after which a reconcile lets others have the worker.

Sixteen workers finish their shares with 1024 requests: two seconds at the default rate limit, if all began at once.
"""
LONGEST_PLAN: Final = 10.0
"""Seconds after which a plan is made again although nobody waits: pods may have failed, or a deadline have passed."""


class Line(Protocol):
    """The queue, as far as a share ends because of it."""

    @property
    def has_waiting(self) -> bool:
        """Whether another key waits for a worker."""

    @property
    def is_shutting_down(self) -> bool:
        """Whether the process ends: another one does the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    namespace: str
    had: int
    came: asyncio.Future[None]


class Slots:
    """So many at once; of those who wait, the namespace that has the fewest is next, and its job that has had least."""

    def __init__(self, most: int = MOST_IN_ALL) -> None:
        self._free = most
        self._taken: dict[str, int] = {}
        """By namespace; none of them has none."""
        self._waiting: list[_Turn] = []
        """One entry for each worker at most."""

    async def take(self, namespace: str, had: int) -> None:
        if self._free:
            self._free -= 1
            self._count(namespace, 1)
            return
        turn = _Turn(namespace, had, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await turn.came
        except asyncio.CancelledError:
            if not turn.came.cancelled():
                self.free(namespace)  # it was given in this very moment
            raise

    def free(self, namespace: str) -> None:
        self._count(namespace, -1)
        self._waiting = [turn for turn in self._waiting if not turn.came.done()]
        if not self._waiting:
            self._free += 1
            return
        turn = min(self._waiting, key=lambda turn: (self._taken.get(turn.namespace, 0), turn.had))
        self._waiting.remove(turn)
        self._count(turn.namespace, 1)
        turn.came.set_result(None)

    def _count(self, namespace: str, by: int) -> None:
        if taken := self._taken.get(namespace, 0) + by:
            self._taken[namespace] = taken
        else:
            del self._taken[namespace]


class Stop(Enum):
    """Why a reconcile carries out no more of its plan."""

    CHANGED = auto()
    """The job has changed, or is gone: the plan is worth nothing any more."""
    SHARE_OVER = auto()
    """It is another job's turn, or the plan is too old."""


class Share(msgspec.Struct, frozen=True):
    """What one reconcile of one job may still do."""

    job: TrainingJob
    jobs: Store[StoredJob]
    line: Line
    clock: Clock
    slots: Slots
    ends_at: float
    """On the monotonic clock."""

    def stop(self, begun: int) -> Stop | None:
        """Whether to stop after so many writes."""
        if self._has_changed():
            return Stop.CHANGED
        gives_way = self.line.has_waiting or self.line.is_shutting_down
        is_over = begun >= SHARE and (gives_way or self.clock.monotonic() >= self.ends_at)
        return Stop.SHARE_OVER if is_over else None

    def _has_changed(self) -> bool:
        """Whether the cache knows a newer spec, or the end. It may be older than the job, which may be read live."""
        stored = self.jobs.by_uid(self.job.uid)
        if stored is None:
            return True
        metadata = stored.metadata
        is_deleted = metadata.deletion_timestamp is not None and not self.job.is_being_deleted
        return is_deleted or metadata.generation > self.job.generation


@dataclass(frozen=True, slots=True)
class Shares:
    jobs: Store[StoredJob]
    line: Line
    clock: Clock
    slots: Slots

    def begin(self, job: TrainingJob, within: float | None = None) -> Share:
        """The share of a reconcile that begins now; ``within`` seconds another plan is due in any case."""
        seconds = LONGEST_PLAN if within is None else min(within, LONGEST_PLAN)
        return Share(job, self.jobs, self.line, self.clock, self.slots, self.clock.monotonic() + seconds)


class Done(msgspec.Struct, Generic[T], frozen=True):
    """What came of writes, and why they were stopped before the last one, if they were."""

    outcomes: tuple[T, ...]
    stop: Stop | None


async def carry_out(writes: Sequence[Callable[[], Awaitable[T]]], share: Share, *, at_first: int) -> Done[T]:
    """Do all within the share: ``at_first`` so many at once, and one more with each that is done.

    With 1 at first, a mistake that all share is made once and not a thousand times. When a write fails none is begun
    any more; those in flight are waited for, and then the first error is raised.
    """
    room, namespace = asyncio.Semaphore(at_first), share.job.key.namespace
    size = at_first
    outcomes: list[T] = []
    failures: list[Exception] = []

    async def do(write: Callable[[], Awaitable[T]]) -> None:
        try:
            outcomes.append(await write())
        except Exception as error:  # noqa: BLE001 (raised below, when all that has begun is done)
            failures.append(error)

    def done(_: object) -> None:
        nonlocal size
        share.slots.free(namespace)
        room.release()
        if size < MOST_AT_ONCE:
            size += 1
            room.release()

    stop = None
    async with asyncio.TaskGroup() as flight:
        for begun, write in enumerate(writes):
            await room.acquire()
            await share.slots.take(namespace, begun)
            stop = share.stop(begun)
            if stop or failures:
                share.slots.free(namespace)
                break
            flight.create_task(do(write)).add_done_callback(done)
    if failures:
        raise failures[0]
    return Done(tuple(outcomes), stop)
