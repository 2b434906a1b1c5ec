"""What the nodes can hold at most: without any pods on them, and with all of them ready.

A job that asks for more waits for other nodes, or an edit, and not for other jobs to end: its status says so, and it
does not count as one of those that are looked at for its namespace. What is said is certain. Whether pods of several
shapes fit beside each other is not tried.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from tf_operator.job import constants
from tf_operator.job.record import UnfitCause, UnfitRecord
from tf_operator.planning.job_queue.capacity import FreeCapacity, Node
from tf_operator.planning.job_queue.jobs import QueueJob, ReplicaNeed
from tf_operator.planning.job_queue.shapes import Shape


class Limits:
    """The nodes without any pods."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._empty = FreeCapacity(replace(node, used=(), is_usable=True) for node in nodes)
        self._most = cache(self._count)

    def unfit(self, job: QueueJob, workers: int) -> UnfitRecord | None:
        """Why a job can never fit with so many workers; ``None`` if it may."""
        total = Counter[str]()
        for need, group in zip(job.needs, job.groups(workers), strict=True):
            if not group.number:
                continue
            most = self._most(need.shape)
            if not most:
                nodes = self._empty.nodes_for(need.shape.places)
                cause = UnfitCause.POD_TOO_LARGE if nodes else UnfitCause.NO_NODE
                return UnfitRecord(cause, need.type, self._scarce(nodes, need) if nodes else "")
            if group.number > most:
                return UnfitRecord(UnfitCause.TOO_MANY_PODS, need.type)
            total.update({name: amount * group.number for name, amount in need.shape.requests})
        scarce = next((name for name, amount in total.items() if amount > self._empty.total(name)), "")
        return UnfitRecord(UnfitCause.TOO_MANY_PODS, resource=scarce) if scarce else None

    def _count(self, shape: Shape) -> int:
        return self._empty.count(shape, most=constants.MOST_REPLICAS)

    def _scarce(self, nodes: list[int], need: ReplicaNeed) -> str:
        """The resource of which no node has enough; empty if only no node has enough of all."""
        for name, amount in need.shape.requests:
            if all(self._empty.left(node, name) < amount for node in nodes):
                return name
        return ""
