"""The state of a cluster with the job queue, and where its scheduler can place pods."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from proof.queues.job_queue_bounds import QueueBound
from proof.queues.job_queue_objects import READY, PodState
from proof.queues.job_queue_operator import FAR

ALL_PLACED = -1
_NODE = PodState._fields.index("node")


class State(NamedTuple):
    """Everything that what happens next depends on: plain values, so that equal states are equal bytes."""

    jobs: tuple[Any, ...]
    """Empty for one that is not there."""
    nodes: tuple[int, ...]
    unplaced_for: tuple[int, ...]
    pods: tuple[Any, ...] = ()
    flight: tuple[Any, ...] = ()
    """Decisions that are not written yet: the job, what it was decided on, and its status after it."""
    has_changed: bool = True
    """Whether the loop of the queue has to plan."""
    wake: int = FAR
    """In how many seconds it plans although nothing has happened."""
    late: tuple[Any, ...] = ()
    """A decision of an operator that was killed, which may still arrive."""
    lag: tuple[Any, ...] = ()
    """What the caches show as it was, a job or (-1) all pods, and whether what they lack is a decision of this life."""
    faults: int = 0
    edits: int = 0
    has_lost: bool = False
    """Whether pods were lost with their node."""


def placements(state: State, bound: QueueBound, job: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The scheduler places what it can, on the node that the pods prefer, or on others."""
    if not any(pod[0] == job and pod[_NODE] < 0 for pod in state.pods):
        return
    options = dict[tuple[Any, ...], str]()
    for first in range(len(state.nodes)):
        placed = _placed(state, bound, job, first)
        if placed != state.pods:
            options.setdefault(placed, f"pods of {bound.jobs[job].name} are placed, first on node {first}")
    yield from ((name, placed) for placed, name in options.items())


def _placed(state: State, bound: QueueBound, job: int, first: int) -> tuple[Any, ...]:
    room, pods = room_of(state, bound), []
    nodes = sorted(range(len(room)), key=lambda node: node != first)
    only = bound.jobs[job].node
    for pod in map(PodState._make, state.pods):
        if pod.job == job and pod.node < 0 and not pod.is_leaving:
            options = (node for node in nodes if room[node] >= pod.slots and only in {None, node})
            node = next(options, -1)
            if node >= 0:
                room[node] -= pod.slots
                pod = pod._replace(node=node)  # noqa: PLW2901
        pods.append(tuple(pod))
    return tuple(sorted(pods))


def room_of(state: State, bound: QueueBound) -> list[int]:
    """What the nodes that are ready have left."""
    room = [slots if condition == READY else 0 for slots, condition in zip(bound.slots, state.nodes, strict=True)]
    for pod in map(PodState._make, state.pods):
        if pod.node >= 0 and state.nodes[pod.node] == READY:
            room[pod.node] -= pod.slots
    return room
