"""What may happen to the pods of a job: what a kubelet, the control plane and people do to one.

Each is an event: the pod before, and after. Which of them are faults says how much of the budget of a bound they take.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from proof import pods
from proof.pods import (
    DELETED,
    DRAINED,
    EVICTED,
    EVICTED_EARLY,
    OOM_KILLED,
    PENDING,
    REJECTED,
    RUNS,
    STUCK,
    UNPLACED,
    UNSCHEDULABLE,
    PodState,
)

Change = Callable[[PodState], PodState | None]


class Event(NamedTuple):
    """What happens to one pod."""

    name: str
    old: PodState
    new: PodState | None
    """``None``: it is gone."""
    is_fault: bool = False
    is_fair: bool = True

    @property
    def is_noted(self) -> bool:
        """Whether an operator remembers the pod as it was, until its next life."""
        if self.old.is_hidden:
            return False
        return self.new is None or self.new.is_hidden or (self.begins_to_leave and self.old.has_ended)

    @property
    def begins_to_leave(self) -> bool:
        return self.new is not None and self.new.is_terminating and not self.old.is_terminating


def _if_runs(how: str) -> Change:
    return lambda pod: pod._replace(how=how) if pod.how == RUNS and not pod.was_killed else None


def _beside(code: int) -> Change:
    """A program that a kubelet does not start again, beside a container that goes on."""
    how = pods.ended(code, has_sidecar=True)
    return lambda pod: pod._replace(how=how) if pod.how == RUNS and pod.policy == "Never" else None


def _evicted(pod: PodState) -> PodState | None:
    if pod.has_ended or not pod.node:
        return None
    return pod._replace(how=EVICTED_EARLY if pod.how == PENDING else EVICTED)


def _restarted(pod: PodState) -> PodState | None:
    return pod._replace(restarts=pod.restarts + 1) if pod.how == RUNS and pod.policy != "Never" else None


def _killed_for_memory(pod: PodState) -> PodState | None:
    """An OOM kill. What its kubelet starts again then goes on until the pod is taken away."""
    if pod.how != RUNS or pod.restarts:
        return None
    return pod._replace(how=OOM_KILLED) if pod.policy == "Never" else pod._replace(restarts=1, was_killed=True)


def _rejected(pod: PodState) -> PodState | None:
    return pod._replace(how=REJECTED) if pod.how == PENDING else None


def drained(pod: PodState) -> PodState | None:
    """Evicted by the API, or of a node that is drained or lost."""
    return None if pod.has_ended else pod.deleted(DRAINED)


FAULTS: tuple[tuple[str, str, Change], ...] = (
    ("fails", "exits with 137", _if_runs("exit 137")),
    ("fails for good", "exits with 1", _if_runs("exit 1")),
    ("ends beside a sidecar", "ends with 0, and a sidecar goes on", _beside(0)),
    ("ends beside a sidecar", "ends with 137, and a sidecar goes on", _beside(137)),
    ("restarts in place", "is restarted in place", _restarted),
    ("needs more memory", "is killed for its memory", _killed_for_memory),
    ("is evicted", "is evicted", _evicted),
    ("is rejected", "is rejected by its node", _rejected),
    ("is drained", "is drained", drained),
    ("is deleted", "is deleted", lambda pod: pod.deleted(DELETED)),
    ("loses its label", "loses its label", lambda pod: None if pod.is_hidden else pod._replace(is_hidden=True)),
)
"""The fault, in words, and what it makes of a pod, if it can happen to it."""


def events(pod: PodState, may: frozenset[str], nodes: Sequence[str]) -> Iterator[Event]:
    """What may happen to a pod next, of these faults."""
    name = f"{pod.kind.lower()}-{pod.ordinal}"
    yield from _leaves(pod, name, may) if pod.is_terminating else _lives(pod, name, may)
    yield from () if pod.is_terminating or pod.node else _waits(pod, name, nodes)


def _waits(pod: PodState, name: str, nodes: Sequence[str]) -> Iterator[Event]:
    """A scheduler knows at once whether there is a node for a pod; all of them have room."""
    allowed = [node for node in nodes if node not in pod.avoids]
    if pod.how == UNPLACED:
        yield from (Event(f"{name} is placed on {node}", pod, pod._replace(node=node, how=PENDING)) for node in allowed)
        if not allowed:
            yield Event(f"no node takes {name}", pod, pod._replace(how=UNSCHEDULABLE))
    elif pod.how == UNSCHEDULABLE:
        yield Event(f"{name} has waited for five minutes", pod, pod._replace(how=STUCK))


def _leaves(pod: PodState, name: str, may: frozenset[str]) -> Iterator[Event]:
    yield Event(f"{name} is gone", pod, None)
    if pod.how == RUNS and "ends when stopped" in may:
        yield Event(f"{name} exits with 0 when it is stopped", pod, pod._replace(how="exit 0"))
        yield Event(f"{name} exits with 137 when it is stopped", pod, pod._replace(how="exit 137"))


def _lives(pod: PodState, name: str, may: frozenset[str]) -> Iterator[Event]:
    if pod.how == PENDING:
        yield Event(f"{name} runs", pod, pod._replace(how=RUNS))
    elif pod.how == RUNS and pod.policy != "Always" and not pod.was_killed:
        yield Event(f"{name} exits with 0", pod, pod._replace(how="exit 0"))
    if pod.is_hidden:
        yield Event(f"{name} has its label back", pod, pod._replace(is_hidden=False), is_fair=False)
    for fault, wording, change in FAULTS:
        if fault in may and (after := change(pod)) is not None:
            yield Event(f"{name} {wording}", pod, after, is_fault=True, is_fair=False)
    if "is collected" in may and pod.has_ended:
        yield Event(f"{name} is collected", pod, None, is_fault=True, is_fair=False)
