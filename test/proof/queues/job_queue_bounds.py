"""Which jobs wait in the job queue, on which nodes, and what may happen to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from proof.queues.job_queue_oracle import Wish
from support.jobs import builders
from support.jobs.templates import Template
from support.resources import Json

SLOT: Final = "example.com/slot"
CLASSES: Final[Mapping[str, int]] = {"high": 10}


class Spec(NamedTuple):
    """What people change of a job. In states it is a plain tuple."""

    is_suspended: bool
    workers: int
    slots: int
    """What each pod asks for."""
    generation: int = 1


EDITS: Final[Mapping[str, Callable[[Spec], Spec]]] = {
    "suspends": lambda spec: spec._replace(is_suspended=True),
    "resumes": lambda spec: spec._replace(is_suspended=False),
    "scales to 1": lambda spec: spec._replace(workers=1),
    "scales to 2": lambda spec: spec._replace(workers=2),
    "scales to 3": lambda spec: spec._replace(workers=3),
    "asks for 2 slots for each pod of": lambda spec: spec._replace(slots=2),
}
DELETE, CREATE = "deletes", "creates"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job."""

    name: str
    workers: int
    slots: int = 1
    least: int | None = None
    most: int | None = None
    """The range of an elastic job."""
    is_dynamic: bool = True
    """Whether workers may come and go beside the others."""
    priority: str = ""
    namespace: str = ""
    ends: bool = True
    recurs: bool = False
    """Whether another job like it comes when it has ended, again and again."""
    is_there: bool = True
    """``False``: somebody has to create it first."""
    node: int | None = None
    """The only node on which it may run."""

    def start(self) -> Spec:
        return Spec(is_suspended=False, workers=self.workers, slots=self.slots)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace or f"of-{self.name}", self.name

    def template(self, slots: int) -> Template:
        template = Template().resources(requests={SLOT: str(slots)})
        template = template.spec(priorityClassName=self.priority) if self.priority else template
        return template if self.node is None else template.spec(nodeSelector={"node": str(self.node)})

    def body(self, spec: Spec) -> Json:
        """The job as it is stored, without metadata of its own."""
        job = builders.tfjob(self.name).in_namespace(self.key[0])
        job = job.workers(spec.workers, template=self.template(spec.slots), restart="ExitCode")
        job = job.dynamic_workers() if self.is_dynamic else job
        job = job.elastic(self.least, self.most) if self.least and self.most else job
        return job.suspended(spec.is_suspended).body()

    def wish(self, spec: Spec, age: int) -> Wish:
        """The same for the oracle."""
        return Wish(
            self.name,
            age,
            CLASSES.get(self.priority, 0),
            spec.workers,
            spec.slots,
            spec.workers if self.least is None else min(self.least, spec.workers),
            spec.workers if self.most is None else max(self.most, spec.workers),
            is_elastic=self.least is not None,
            is_dynamic=self.is_dynamic,
            is_suspended=spec.is_suspended,
            node=self.node,
        )


@dataclass(frozen=True, slots=True)
class QueueBound:
    """Some jobs and nodes, and how much may go wrong."""

    name: str
    jobs: tuple[QueuedJob, ...]
    """From the oldest to the youngest."""
    slots: tuple[int, ...] = (2, 2)
    """Of each node."""
    faults: int = 1
    edits: int = 0
    may: frozenset[str] = frozenset({"is killed", "loses a reply", "lags"})
    people: tuple[tuple[int, str], ...] = ()
    """The job, and what is done to it."""
    hopes: tuple[int, ...] = ()
    """The jobs that must not wait for ever, as long as they fit."""
    reserves: bool = True
    longest: int = 300
    """How many seconds of waiting are told from one another; after these, time stands still for who waits."""


ALL_FAULTS: Final = frozenset({"is killed", "loses a reply", "is refused", "lags", "loses a node", "is late"})
BOUNDS: Final = (
    QueueBound(
        "a large job among small ones that come again and again",
        (QueuedJob("one", 1, recurs=True), QueuedJob("two", 1, recurs=True), QueuedJob("big", 4)),
        hopes=(2,),
        faults=0,
    ),
    QueueBound(
        "a job without pods and one that cannot fit",
        (QueuedJob("none", 0), QueuedJob("huge", 3, slots=2), QueuedJob("small", 2)),
        hopes=(2,),
        may=ALL_FAULTS,
    ),
    QueueBound(
        "jobs of two priorities",
        (QueuedJob("low", 3), QueuedJob("high", 3, priority="high")),
        hopes=(0, 1),
        may=frozenset({"is late"}),
    ),
    QueueBound(
        "an elastic job gives way",
        (
            QueuedJob("elastic", 2, least=1, most=3, ends=False),
            QueuedJob("first", 3),
            QueuedJob("second", 2, is_there=False),
        ),
        hopes=(0, 1, 2),
        edits=1,
        people=((2, CREATE),),
    ),
    QueueBound(
        "workers in step are resized",
        (QueuedJob("elastic", 2, least=1, most=4, is_dynamic=False, ends=False), QueuedJob("first", 2)),
        hopes=(0, 1),
        may=frozenset({"is killed", "loses a reply", "lags"}),
    ),
    QueueBound(
        "jobs are suspended, resumed, deleted and created",
        (QueuedJob("old", 3), QueuedJob("young", 2)),
        hopes=(0, 1),
        edits=2,
        may=frozenset({"lags"}),
        people=((0, "suspends"), (0, "resumes"), (0, DELETE), (0, CREATE), (1, "suspends"), (1, "resumes")),
    ),
    QueueBound(
        "jobs are edited",
        (QueuedJob("other", 2), QueuedJob("edited", 2)),
        hopes=(0, 1),
        edits=1,
        slots=(3, 2),
        people=((1, "scales to 1"), (1, "scales to 2"), (1, "scales to 3"), (1, "asks for 2 slots for each pod of")),
    ),
    QueueBound(
        "a decision is overruled",
        (QueuedJob("elastic", 2, least=1, most=3, ends=False),),
        hopes=(0,),
        edits=2,
        slots=(2, 1),
        people=((0, "scales to 1"), (0, "scales to 3")),
    ),
)
LARGE: Final = ("jobs are suspended, resumed, deleted and created", "jobs are edited", "a decision is overruled")
QUICK: Final = ("a job without pods and one that cannot fit", "workers in step are resized")
GATE: Final = tuple(replace(bound, faults=0) if bound.name in LARGE else bound for bound in BOUNDS)
SIZES: Final[Mapping[str, tuple[QueueBound, ...]]] = {
    "quick": tuple(replace(bound, faults=0) for bound in BOUNDS if bound.name in QUICK),
    "planted": GATE,
    "gate": GATE,
    "night": tuple(replace(bound, faults=bound.faults if bound.edits else bound.faults + 1) for bound in BOUNDS),
}
"""What ``make test``, ``make proof`` and ``make nightly`` search, and where planted defects have to show."""
