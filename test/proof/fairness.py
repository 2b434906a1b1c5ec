"""Whether anybody may wait for ever, although nothing that has to happen is left undone for ever.

What has to happen does so if it is possible for long enough: a pod that can be placed is placed, a job that runs ends.
What may happen again and again, as new jobs come, need not. Somebody waits for ever if there is a group of states, each
of which leads to each other, in which he waits, and which leaves nothing undone: whatever has to happen is done in it,
or is impossible in one of its states. Where there is time, it passes in it, too: nothing happens infinitely often in
a moment.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_NOBODY_WAITS_FOR_IT: Final = 0xFFFF
TIME: Final = "time passes"
_TIME: Final = 1
"""Its bit."""


@dataclass(slots=True)
class Waits:
    """Who waits in which state, and which moves lead where."""

    sentences: list[str] = field(default_factory=list)
    _by_state: list[int] = field(default_factory=list)
    """A bit for each sentence."""
    _sources: "array[int]" = field(default_factory=lambda: array("I"))
    _targets: "array[int]" = field(default_factory=lambda: array("I"))
    _names: "array[int]" = field(default_factory=lambda: array("H"))
    _numbers: dict[str, int] = field(default_factory=lambda: {TIME: 0})

    def add_state(self, sentences: Sequence[str]) -> None:
        """The next state, and what must not stay so for ever in it."""
        bits = 0
        for sentence in sentences:
            if sentence not in self.sentences:
                self.sentences.append(sentence)
            bits |= 1 << self.sentences.index(sentence)
        self._by_state.append(bits)

    def add_move(self, source: int, target: int, name: str) -> None:
        """A move that has to happen: ``TIME``, or another; or with no name one that may."""
        self._sources.append(source)
        self._targets.append(target)
        self._names.append(self._numbers.setdefault(name, len(self._numbers)) if name else _NOBODY_WAITS_FOR_IT)

    def for_ever(self) -> Iterator[tuple[str, int]]:
        """Each sentence that may stay true for ever, and the first state of those in which it does."""
        for place, sentence in enumerate(self.sentences):
            numbers = [number for number, bits in enumerate(self._by_state) if bits >> place & 1]
            if (number := self._first(numbers)) is not None:
                yield sentence, number

    def _first(self, numbers: list[int]) -> int | None:
        place = {number: position for position, number in enumerate(numbers)}
        inner: list[list[int]] = [[] for _ in numbers]
        names: list[list[int]] = [[] for _ in numbers]
        possible = [0] * len(numbers)
        for source, target, name in zip(self._sources, self._targets, self._names, strict=True):
            position = place.get(source)
            if position is None:
                continue
            bit = 0 if name == _NOBODY_WAITS_FOR_IT else 1 << name
            possible[position] |= bit
            if (after := place.get(target)) is not None:
                inner[position].append(after)
                names[position].append(bit)
        for group in _components(inner):
            moves = [zip(inner[position], names[position], strict=True) for position in group]
            members = set(group)
            done = [bit for pairs in moves for after, bit in pairs if after in members]
            if self._leaves_nothing_undone([possible[position] for position in group], done):
                return numbers[min(group)]
        return None

    def _leaves_nothing_undone(self, possible: list[int], done: list[int]) -> bool:
        """Of what has to happen, what is possible in each state of a group, and what is done in it."""
        always, all_done = -1, 0
        for bits in possible:
            always &= bits
        for bit in done:
            all_done |= bit
        is_moment = bool(done) and 0 in self._names and not all_done & _TIME
        return not (always & ~all_done or is_moment)


def _components(edges: list[list[int]]) -> Iterator[list[int]]:
    """Groups of states of which each leads to each other: those that reach a state, of those that it reaches."""
    backwards: list[list[int]] = [[] for _ in edges]
    for state, after in enumerate(edges):
        for target in after:
            backwards[target].append(state)
    is_new = bytearray(b"\1") * len(edges)
    done = [state for root in range(len(edges)) for state in _reached(root, edges, is_new)]
    is_new = bytearray(b"\1") * len(edges)
    for root in reversed(done):
        if group := list(_reached(root, backwards, is_new)):
            yield group


def _reached(root: int, edges: list[list[int]], is_new: bytearray) -> Iterator[int]:
    """What is new of all that a state leads to, and itself: each after all that it leads to."""
    if not is_new[root]:
        return
    is_new[root] = 0
    path = [(root, iter(edges[root]))]
    while path:
        state, left = path[-1]
        after = next((target for target in left if is_new[target]), None)
        if after is None:
            path.pop()
            yield state
        else:
            is_new[after] = 0
            path.append((after, iter(edges[after])))
