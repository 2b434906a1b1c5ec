"""What the nodes have left, and where the pods of a job fit.

Columns of numbers, one for each resource, because a plan asks hundreds of times about a thousand nodes. What does not
fit once does not fit later in the same plan, unless something is given back: that is remembered.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.shapes import Amounts, Places, Shape, Taint


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    allocatable: Amounts = ()
    used: Amounts = ()
    """The requests of the pods on it that have not ended."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_usable: bool = True
    """Whether it is ready and not cordoned."""

    def counting(self, prefixes: tuple[str, ...]) -> Self:
        """The same with these resources only."""
        own, used = (shapes.counted(amounts, prefixes) for amounts in (self.allocatable, self.used))
        return replace(self, allocatable=own, used=used)


class Group(NamedTuple):
    """So many pods of one shape."""

    shape: Shape
    number: int
    follows: bool = False
    """They go to the node with most of the others: parameter servers to that with most workers."""


class Placement(NamedTuple):
    """So many pods of one shape on one node."""

    node: int
    shape: Shape
    number: int


class FreeCapacity:
    """What is left, while a plan is made."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = tuple(node for node in nodes if node.is_usable)
        self._index = {node.name: index for index, node in enumerate(self._nodes)}
        self._free: dict[str, list[int]] = {}
        for index, node in enumerate(self._nodes):
            for name, amount in node.allocatable:
                self._column(name)[index] += amount
        self._most = {name: tuple(column) for name, column in self._free.items()}
        for index, node in enumerate(self._nodes):
            for name, amount in node.used:
                self._column(name)[index] -= amount
        self._total = {name: sum(column) for name, column in self._free.items()}
        self._nodes_by_places: dict[Places, list[int]] = {}
        self._without_room: set[tuple[Group, ...]] = set()

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other._nodes, other._index, other._nodes_by_places = self._nodes, self._index, self._nodes_by_places
        other._most = self._most
        other._free = {name: list(column) for name, column in self._free.items()}
        other._total, other._without_room = dict(self._total), set(self._without_room)
        return other

    def name_of(self, index: int) -> str:
        return self._nodes[index].name

    def place(self, groups: Sequence[Group], *, at: str = "") -> tuple[Placement, ...] | None:
        """Take room for all these pods: on one node if one can hold them (this one, if it can), else on the first.

        ``None``, and nothing is taken, if there is no room for all of them.
        """
        groups_with_pods = tuple(group for group in groups if group.number)
        if not groups_with_pods:
            return ()
        if groups_with_pods in self._without_room:
            return None
        placements = self._together(groups_with_pods, self._index.get(at))
        if placements is None:
            placements = self._spread(groups_with_pods)
        if placements is None:
            self._without_room.add(groups_with_pods)
        return placements

    def place_some(self, group: Group, *, at: str = "") -> tuple[Placement, ...]:
        """Take room for as many of these pods as there is, first on this node."""
        placements = tuple(self._first_fit(group, self._index.get(at)))
        self._move(*placements)
        return placements

    def place_next(self, shape: Shape, full: dict[Shape, int], *, at: str = "") -> bool:
        """Take room for one pod, as ``place`` does, for callers that place thousands.

        ``full`` begins empty: of each shape, how many nodes have no room for it. Nothing is given back meanwhile.
        """
        nodes, needs = self.nodes_for(shape.places), self._scarcest_first(shape.requests)
        preferred_node, first = self._index.get(at), full.get(shape, 0)
        if preferred_node is not None and self._has_room(preferred_node, needs) and preferred_node in nodes:
            self._move(Placement(preferred_node, shape, 1))
            return True
        while first < len(nodes) and not self._has_room(nodes[first], needs):
            first += 1
        full[shape] = first
        if first < len(nodes):
            self._move(Placement(nodes[first], shape, 1))
        return first < len(nodes)

    def has_room_for(self, groups: Sequence[Group]) -> bool:
        """Whether ``place`` would take room for all these pods."""
        placements = self.place(groups)
        self._move(*(part._replace(number=-part.number) for part in placements or ()))
        return placements is not None

    def place_soonest(self, groups: Sequence[Group], later: Self) -> tuple[Placement, ...]:
        """Take room for as many of these pods as will fit in the end, where the least has to be given back for it.

        ``later`` is what is left in the end. The room is taken from both, whether it is already there or not.
        """
        numbers = Counter[tuple[int, Shape]]()
        for shape, number, _ in groups:
            requests = shape.requests
            nodes = [index for index in self.nodes_for(shape.places) if later.missing(index, requests) <= 0]
            heap = [(max(self.missing(index, requests), 0.0), index) for index in nodes]
            heapq.heapify(heap)
            rest = number
            while heap and rest:
                _, index = heapq.heappop(heap)
                numbers[index, shape] += 1
                rest -= 1
                for capacity in (self, later):
                    capacity.keep((Placement(index, shape, 1),))
                if later.missing(index, requests) <= 0:
                    heapq.heappush(heap, (max(self.missing(index, requests), 0.0), index))
        return tuple(Placement(index, shape, number) for (index, shape), number in numbers.items())

    def missing(self, node: int, requests: Amounts) -> float:
        """How much a node lacks of what is asked for, in parts of that; not above zero if it has it."""
        return max(((amount - self._column(name)[node]) / amount for name, amount in requests), default=0.0)

    def count(self, shape: Shape, *, most: int) -> int:
        return sum(part.number for part in self._first_fit(Group(shape, most), None))

    def total(self, name: str) -> int:
        """How much all nodes had in the beginning of a resource that one of them has."""
        return self._total[name]

    def left(self, node: int, name: str) -> int:
        return self._column(name)[node]

    def index_of(self, node: str) -> int | None:
        """The number of a node, if it is one that counts."""
        return self._index.get(node)

    def keep(self, placements: Iterable[Placement]) -> None:
        """Take room, whether there is any or not: what is given back there later is taken, too."""
        self._move(*placements)

    def give_all(self, placements: Iterable[Placement]) -> None:
        """All this is given up; of no node there is more than it can allocate, whatever its pods say they had."""
        for node, shape, count in placements:
            for name, amount in shape.requests:
                column, most = self._column(name), self._most.get(name)
                column[node] = min(column[node] + amount * count, most[node] if most else 0)
        self._without_room.clear()

    def take(self, placements: Iterable[Placement]) -> None:
        """Take room, whether there is any or not: no more than all of it."""
        for node, shape, count in placements:
            for name, amount in shape.requests:
                column = self._column(name)
                column[node] = max(column[node] - amount * count, min(column[node], 0))

    def give(self, node: str, shape: Shape) -> None:
        """A pod of this shape on this node is given up, if the node is one that counts."""
        index = self._index.get(node)
        if index is not None:
            self._move(Placement(index, shape, -1))
            self._without_room.clear()

    def _together(self, groups: Sequence[Group], first: int | None) -> tuple[Placement, ...] | None:
        total: dict[str, int] = {}
        for group in groups:
            for name, amount in group.shape.requests:
                total[name] = total.get(name, 0) + amount * group.number
        needs = self._scarcest_first(total.items())
        lists = {group.shape.places: self.nodes_for(group.shape.places) for group in groups}
        candidates, *others = sorted(lists.values(), key=len) or [[]]
        node_sets = [set(other) for other in others]
        for index in _with_room(([first] if first in candidates else []) + candidates, needs):
            if self._has_room(index, needs) and all(index in some for some in node_sets):
                placements = tuple(Placement(index, group.shape, group.number) for group in groups)
                self._move(*placements)
                return placements
        return None

    def _spread(self, groups: Sequence[Group]) -> tuple[Placement, ...] | None:
        """First fit over the nodes; what follows goes to the node with most of the others, if it can."""
        placements: list[Placement] = []
        for group in sorted(groups, key=lambda group: group.follows):
            parts = self._first_fit(group, most_on(placements) if group.follows else None)
            if sum(part.number for part in parts) < group.number:
                self._move(*(part._replace(number=-part.number) for part in placements))
                return None
            self._move(*parts)
            placements += parts
        return tuple(placements)

    def _first_fit(self, group: Group, preferred_node: int | None) -> list[Placement]:
        shape, rest, placements = group.shape, group.number, list[Placement]()
        needs = self._scarcest_first(shape.requests)
        nodes = _with_room(self.nodes_for(shape.places), needs)
        if preferred_node in nodes:
            nodes = [preferred_node, *(index for index in nodes if index != preferred_node)]
        for index in nodes:
            number = rest
            for column, amount in needs:
                number = min(number, column[index] // amount)
            if number > 0:
                placements.append(Placement(index, shape, number))
                rest -= number
                if not rest:
                    break
        return placements

    @staticmethod
    def _has_room(index: int, needs: list[tuple[list[int], int]]) -> bool:
        return all(column[index] >= amount for column, amount in needs)

    def _scarcest_first(self, requests: Iterable[tuple[str, int]]) -> list[tuple[list[int], int]]:
        """Each resource that is asked for with how much; that first of which there is least for what is asked."""
        order = sorted(requests, key=lambda request: self._total.get(request[0], 0) / request[1])
        return [(self._column(name), amount) for name, amount in order]

    def nodes_for(self, places: Places) -> list[int]:
        """The nodes on which such pods may run."""
        if places not in self._nodes_by_places:
            self._nodes_by_places[places] = [
                index for index, node in enumerate(self._nodes) if places.accept(node.labels, node.name, node.taints)
            ]
        return self._nodes_by_places[places]

    def _column(self, name: str) -> list[int]:
        if name not in self._free:
            self._free[name] = [0] * len(self._nodes)
        return self._free[name]

    def _move(self, *parts: Placement) -> None:
        for node, shape, count in parts:
            for name, amount in shape.requests:
                self._column(name)[node] -= amount * count


def _with_room(nodes: list[int], needs: list[tuple[list[int], int]]) -> list[int]:
    """The nodes that have what is asked for of the scarcest resource."""
    if not needs:
        return nodes
    column, amount = needs[0]
    return [index for index in nodes if column[index] >= amount]


def most_on(placements: Iterable[Placement]) -> int | None:
    """The node with most pods, the first of several; ``None`` for no pods."""
    counts = Counter[int]()
    for part in placements:
        counts[part.node] += part.number
    return max(counts, key=lambda node: counts[node], default=None)
