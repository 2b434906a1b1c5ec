"""A line of keys in which flows take turns, so that many keys of one flow keep no key of another one waiting.

Within a flow keys leave in the order they came. A controller uses the namespace as the flow, as the apiserver's
priority and fairness does.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Flow = Callable[[K], Hashable]


class FairLine(Generic[K]):
    """A deque as far as the work queue needs one; all operations take constant time."""

    def __init__(self, flow: Flow[K]) -> None:
        self._flow = flow
        self._flows: OrderedDict[Hashable, deque[K]] = OrderedDict()
        """The flows that have keys; the first one is next."""

    def append(self, key: K) -> None:
        """Put the key behind those of its flow."""
        self._flows.setdefault(self._flow(key), deque()).append(key)

    def popleft(self) -> K:
        flow, keys = self._flows.popitem(last=False)
        key = keys.popleft()
        if keys:
            self._flows[flow] = keys
        return key

    def clear(self) -> None:
        self._flows.clear()

    def __bool__(self) -> bool:
        return bool(self._flows)
