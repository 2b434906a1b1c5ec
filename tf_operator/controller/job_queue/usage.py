"""What is held of each node, kept up to date as pods come and go, so that a plan does not add up all pods."""

from collections import Counter

from tf_operator.controller.job_queue.projections import CachedNode, CountedPod
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.capacity import Node


class NodeUsage:
    """A handler of the informer of pods."""

    def __init__(self) -> None:
        self.has_changed = False
        """Whether anything is another than at the last plan; whoever plans resets it."""
        self._requests: dict[str, Counter[str]] = {}

    def node(self, cached: CachedNode) -> Node:
        return Node(
            cached.metadata.name,
            cached.allocatable,
            shapes.amounts(self._requests.get(cached.metadata.name, {})),
            labels=cached.labels,
            taints=cached.taints,
            is_usable=cached.is_usable,
        )

    def on_add(self, item: CountedPod) -> None:
        """It holds what it asks for."""
        if item.node:
            self._requests.setdefault(item.node, Counter()).update(dict(item.requests))
            self.has_changed = True

    def on_update(self, old: CountedPod, new: CountedPod) -> None:
        """It may be bound now, or have ended."""
        if (old.node, old.requests) != (new.node, new.requests):
            self._release(old)
            self.on_add(new)

    def on_delete(self, last: CountedPod, *, final_state_known: bool) -> None:  # noqa: ARG002 (the protocol of handlers)
        self._release(last)

    def _release(self, pod: CountedPod) -> None:
        requests = self._requests.get(pod.node)
        if requests is None:
            return
        requests.subtract(dict(pod.requests))
        self.has_changed = True
        if not any(requests.values()):
            del self._requests[pod.node]


class OnNode:
    def __init__(self, usage: NodeUsage) -> None:
        self._usage = usage

    def on_add(self, item: CachedNode) -> None:  # noqa: ARG002 (the protocol of handlers)
        self._usage.has_changed = True

    def on_update(self, old: CachedNode, new: CachedNode) -> None:
        """Heartbeats change nothing."""
        self._usage.has_changed = self._usage.has_changed or old.differs(new)

    def on_delete(self, last: CachedNode, *, final_state_known: bool) -> None:  # noqa: ARG002 (the protocol of handlers)
        self._usage.has_changed = True
