"""Which jobs wait in a queue of Kueue, and what may happen to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from proof.queues.kueue_operator import Spec

EDITS: Final[Mapping[str, Callable[[Spec], Spec]]] = {
    "suspends the job": lambda spec: spec._replace(is_suspended=True),
    "resumes the job": lambda spec: spec._replace(is_suspended=False),
    "asks for more of each pod": lambda spec: spec._replace(processors=2),
    "asks for less of each pod": lambda spec: spec._replace(processors=1),
    "names another queue": lambda spec: spec._replace(queue="other"),
    "takes the queue's name away": lambda spec: spec._replace(queue=""),
}
DEACTIVATE, ACTIVATE, DELETE = "deactivates the Workload", "activates the Workload", "deletes the Workload"
ONE_WORKER: Final = Spec(workers=1)
OPERATOR: Final = frozenset({"is killed", "loses a reply", "is refused", "lags"})


@dataclass(frozen=True, slots=True)
class KueueBound:
    """One job, and how much may go wrong with it."""

    name: str
    start: Spec = ONE_WORKER
    faults: int = 1
    edits: int = 0
    evictions: int = 1
    may: frozenset[str] = OPERATOR
    people: tuple[str, ...] = ()


BOUNDS: Final = (
    KueueBound("two workers are evicted", Spec(), may=frozenset({"is killed"})),
    KueueBound("a worker is evicted twice", evictions=2),
    KueueBound("a worker fails, or is lost", may=frozenset({"fails", "is lost", "lags"})),
    KueueBound("fewer workers are admitted", Spec(workers=2, least=1), may=frozenset({"is killed"})),
    KueueBound("Kueue cannot be read", may=frozenset({"cannot be read"})),
    KueueBound("a job is suspended and resumed", edits=2, evictions=0, people=("suspends the job", "resumes the job")),
    KueueBound(
        "a job is edited", edits=2, evictions=0, people=("asks for more of each pod", "asks for less of each pod")
    ),
    KueueBound(
        "a job changes its queue",
        edits=2,
        evictions=0,
        may=frozenset({"is killed"}),
        people=("names another queue", "takes the queue's name away"),
    ),
    KueueBound("a Workload is deactivated", edits=2, evictions=0, people=(DEACTIVATE, ACTIVATE)),
    KueueBound("a Workload is deleted", edits=1, evictions=0, people=(DELETE,)),
)
QUICK: Final = ("a worker is evicted twice", "a Workload is deactivated")
SIZES: Final[Mapping[str, tuple[KueueBound, ...]]] = {
    "quick": tuple(replace(bound, faults=0) for bound in BOUNDS if bound.name in QUICK),
    "planted": BOUNDS,
    "gate": BOUNDS,
    "night": tuple(replace(bound, faults=bound.faults + 1) for bound in BOUNDS),
}
"""What ``make test``, ``make proof`` and ``make nightly`` search, and where planted defects have to show."""
