"""Jobs as the queue sees them: who waits, who runs, how many workers each has, and where its pods are."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tf_operator.job.record import ReplicaType, UnfitRecord
from tf_operator.job.training_job import ElasticRange
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.capacity import Group
from tf_operator.planning.job_queue.shapes import Amounts, Shape


class ReplicaNeed(NamedTuple):
    """The pods of one type: as many as have room, or are asked for; but for workers, of which the plan decides."""

    type: ReplicaType
    number: int
    shape: Shape


class BoundPod(NamedTuple):
    """A pod of a job on a node, that has not ended."""

    type: ReplicaType
    ordinal: int
    node: str
    requests: Amounts
    """What it holds there, whatever its template says now."""

    @property
    def shape(self) -> Shape:
        """What is free again without it; where it may be, is settled."""
        return Shape(self.requests)


@dataclass(frozen=True, slots=True)
class QueueJob:
    """One job that waits for room, or has it."""

    key: ObjectKey
    uid: str
    created: datetime
    needs: tuple[ReplicaNeed, ...]
    """What it asks for."""
    priority: int = 0
    elastic: ElasticRange | None = None
    """``None`` for a job that the job queue does not resize."""
    workers: int = 0
    """In force, or asked for."""
    requested_workers: int = 0
    """How many its user wants who has changed their number while it has room."""
    requested_servers: int = 0
    """The same of parameter servers."""
    completions: tuple[tuple[ReplicaType, int], ...] = ()
    """How many replicas of a type need no pod any more."""
    pods: tuple[BoundPod, ...] = ()
    is_admitted: bool = False
    queued_time: datetime | None = None
    admitted_time: datetime | None = None
    resized_time: datetime | None = None
    checkpoint_time: datetime | None = None
    """When it last saved what it has done, as its program says."""
    node: str = ""
    """The node that its pods prefer."""
    unfit: UnfitRecord | None = None
    """Why it cannot fit, as it was last noted."""
    start_time: datetime | None = None
    """From when its deadline counts, if it runs."""
    longest: timedelta | None = None
    """How long it runs at most: its deadline; ``None`` if it has none."""
    is_reserved: bool = True
    """Whether room is kept for those of its pods that are on no node yet."""

    @property
    def least(self) -> int:
        """With how few workers it starts."""
        return min(self.elastic.least, self.workers) if self.elastic else self.workers

    @property
    def most(self) -> int:
        """How many workers it may grow to."""
        return max(self.elastic.most, self.workers) if self.elastic else self.workers

    def counting(self, prefixes: tuple[str, ...]) -> "QueueJob":
        """The same with these resources only."""
        needs = (
            need._replace(shape=replace(need.shape, requests=shapes.counted(need.shape.requests, prefixes)))
            for need in self.needs
        )
        pods = (pod._replace(requests=shapes.counted(pod.requests, prefixes)) for pod in self.pods)
        return replace(self, needs=tuple(needs), pods=tuple(pods))

    def ends_at(self, now: datetime) -> datetime | None:
        """When it has ended at the latest, if that is known of it and it has room, or gets room now."""
        since = (self.start_time or self.admitted_time) if self.is_admitted else now
        return min(since, now) + self.longest if since and self.longest is not None else None

    @property
    def rank(self) -> tuple[int, datetime, str]:
        return -self.priority, self.created, self.uid

    def groups(self, workers: int) -> tuple[Group, ...]:
        return tuple(
            Group(need.shape, workers if need.type is ReplicaType.WORKER else need.number, need.type is ReplicaType.PS)
            for need in self.needs
        )

    @property
    def unplaced(self) -> tuple[Group, ...]:
        """Those of its pods that are to come, or are on no node yet."""
        places = {(pod.type, pod.ordinal) for pod in self.pods}
        completions = dict(self.completions)
        groups = []
        for need in self.needs:
            total = self.workers if need.type is ReplicaType.WORKER else need.number
            here = sum(kind is need.type and ordinal < total for kind, ordinal in places)
            missing = max(total - here - completions.get(need.type, 0), 0)
            groups.append(Group(need.shape, missing, need.type is ReplicaType.PS))
        return tuple(group for group in groups if group.number)

    @property
    def servers(self) -> int:
        """How many parameter servers it has, or asks for."""
        return sum(need.number for need in self.needs if need.type is ReplicaType.PS)

    @property
    def growth(self) -> dict[ReplicaType, int]:
        """How many more replicas its user wants than it has room for; the parameter servers come first."""
        missing = {
            ReplicaType.PS: self.requested_servers - self.servers,
            ReplicaType.WORKER: self.requested_workers - self.workers,
        }
        return {kind: number for kind, number in missing.items() if self.is_admitted and number > 0}

    @property
    def worker(self) -> Shape | None:
        return self.shape_of(ReplicaType.WORKER)

    def shape_of(self, kind: ReplicaType) -> Shape | None:
        return next((need.shape for need in self.needs if need.type is kind), None)

    @property
    def bound_workers(self) -> dict[int, BoundPod]:
        return {pod.ordinal: pod for pod in self.pods if pod.type is ReplicaType.WORKER}

    @property
    def leaving(self) -> tuple[BoundPod, ...]:
        """The workers that the job has given up, and that are still on a node."""
        return tuple(pod for pod in self.pods if pod.type is ReplicaType.WORKER and pod.ordinal >= self.workers)


def left_alone(jobs: Iterable[QueueJob], uids: Collection[str]) -> Iterator[QueueJob]:
    """The jobs, where nothing can be decided about some: of these, what runs keeps its room, and the rest get none."""
    for job in jobs:
        if job.uid not in uids:
            yield job
        elif job.is_admitted:
            yield replace(job, elastic=None, requested_workers=0, requested_servers=0)


class Admit(NamedTuple):
    job: QueueJob
    workers: int
    node: str
    """That which holds all its pods, or most of its workers."""


class Resize(NamedTuple):
    """A job that runs has another number of workers, or room for more parameter servers, from now on."""

    job: QueueJob
    workers: int
    servers: int

    @property
    def is_as_asked(self) -> bool:
        """Whether its user has made it, and has all of it: it is no further step of the job queue."""
        job = self.job
        return self.workers in {job.workers, job.requested_workers} and self.servers in {
            job.servers,
            job.requested_servers,
        }


Decision = Admit | Resize


class FitNote(NamedTuple):
    """It has to be noted why a job that waits cannot fit, or that it can now."""

    job: QueueJob
    unfit: UnfitRecord | None


@dataclass(frozen=True, slots=True)
class Schedule:
    decisions: tuple[Decision, ...] = ()
    notes: tuple[FitNote, ...] = ()
    """Of those that still wait."""
    waiting: int = 0
    """Jobs that still wait after that."""
    wake_at: datetime | None = field(default=None)
    """When it may be another, although nothing happens."""
    kept_for: QueueJob | None = None
    """The job that has waited for so long that others do not get the room that it needs."""


def priority_of(classes: Iterable[str], values: Mapping[str, int], default: int) -> int:
    """Of a job whose pods have these classes, empty for none: the least, so that one pod gets the others no place."""
    return min(values.get(name, default) for name in classes)
