"""A search through every state of a world, the nearest first: so what breaks a sentence has the shortest history.

Of a state that was visited only 16 bytes of its hash are kept, and on disk how it was reached. That two states of 10^8
have the same hash has a chance of one in 10^22.
"""

import marshal
import resource
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import IO, Any, NamedTuple, Protocol

from proof.fairness import TIME, Waits

State = tuple[Any, ...]
"""Numbers, texts and tuples of such."""

_HASH_BYTES = 16
_STEP = Struct("<IH")
_CANONICAL = 2
"""The version of marshal without references: equal states are equal bytes."""


class Move(NamedTuple):
    """What may happen next."""

    name: str
    state: State
    breaks: tuple[str, ...] = ()
    """The sentences that it breaks."""
    is_fair: bool = True
    """Whether it comes about without a fault and without anybody: a circle of such moves never ends."""
    is_recurring: bool = False
    """Whether it may come about again and again, for ever, although it need not: as new jobs come."""
    is_time: bool = False
    """Whether it is time that passes."""


class World(Protocol):
    """What is searched."""

    def start(self) -> State:
        """The first state."""

    def moves(self, state: State) -> Iterable[Move]:
        """Everything that may happen in a state."""

    def resting(self, state: State) -> Iterable[str]:
        """The sentences that a state breaks by itself."""


Waiting = Callable[[State], Sequence[str]]
"""Who waits in a state, as sentences."""


@dataclass(frozen=True, slots=True)
class Break:
    """A sentence that does not hold, and the shortest history after which it does not."""

    sentence: str
    history: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {number:2} {move}" for number, move in enumerate(self.history, 1))])


@dataclass(slots=True)
class Outcome:
    """What a search came to."""

    states: int = 0
    edges: int = 0
    seconds: float = 0.0
    is_complete: bool = True
    breaks: list[Break] = field(default_factory=list)
    moves: frozenset[str] = frozenset()
    """The names of all moves that happened."""

    def __str__(self) -> str:
        rate = self.states / self.seconds if self.seconds else 0.0
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        whole = "" if self.is_complete else ", not all of them"
        return (
            f"{self.states} states{whole}, {self.edges} moves, {self.seconds:.1f} s of CPU, "
            f"{rate:.0f} states/s, {megabytes} MB"
        )


def search(world: World, *, most: int, stops_at_first: bool = False, waits_in: Waiting | None = None) -> Outcome:
    """Visit every state, up to so many. What ``waits_in`` says of a state must not stay so for ever."""
    with tempfile.TemporaryFile(prefix="proof-") as file:
        return _Search(world, _Parents(file), most, stops_at_first, waits_in).run()


def replayed(world: World, history: Iterable[str]) -> Iterator[State]:
    """The states of a history."""
    state = world.start()
    yield state
    for name in history:
        state = next(move.state for move in world.moves(state) if move.name == name)
        yield state


class _Parents:
    """By the number of a state: from which one it was reached first, and by which move."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, parent: int, move: str) -> None:
        number = self._numbers.get(move)
        if number is None:
            number = self._numbers[move] = len(self._names)
            self._names.append(move)
        self._file.write(_STEP.pack(parent, number))

    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def history(self, number: int) -> tuple[str, ...]:
        moves = []
        self._file.flush()
        while number:
            self._file.seek((number - 1) * _STEP.size)
            number, move = _STEP.unpack(self._file.read(_STEP.size))
            moves.append(self._names[move])
        self._file.seek(0, 2)
        return tuple(reversed(moves))


class _Search:
    def __init__(
        self, world: World, parents: _Parents, most: int, stops_at_first: bool, waits_in: Waiting | None
    ) -> None:
        self._world, self._parents, self._most, self._stops = world, parents, most, stops_at_first
        self._waits_in, self._waits = waits_in, Waits()
        self._numbers: dict[bytes, int] = {}
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._from, self._to = array("I"), array("I")
        self._broken: set[Hashable] = set()
        self._outcome = Outcome()

    def run(self) -> Outcome:
        began = time.process_time()
        self._number_of(self._world.start(), 0, "")
        self._visit_all()
        outcome = self._outcome
        if outcome.is_complete and not (self._stops and outcome.breaks):
            self._look_for_circles()
            for sentence, number in self._waits.for_ever():
                self._note(sentence, number)
        outcome.states = len(self._numbers)
        outcome.seconds = time.process_time() - began
        outcome.moves = self._parents.names()
        return outcome

    def _visit_all(self) -> None:
        ahead, world, fair_from, fair_to = self._ahead, self._world, self._from.append, self._to.append
        while ahead:
            number, packed = ahead.popleft()
            state = marshal.loads(packed)
            self._look_at(state, number)
            for move in world.moves(state):
                self._outcome.edges += 1
                for sentence in move.breaks:
                    self._note(sentence, number, move.name)
                reached = self._number_of(move.state, number, move.name)
                if move.is_fair:
                    fair_from(number)
                    fair_to(reached)
                if self._waits_in and (move.is_fair or move.is_recurring):
                    self._waits.add_move(number, reached, _name_of_wait(move))
            if self._stops and self._outcome.breaks:
                return
            if len(self._numbers) >= self._most:
                self._outcome.is_complete = False
                return

    def _look_at(self, state: State, number: int) -> None:
        for sentence in self._world.resting(state):
            self._note(sentence, number)
        if self._waits_in:
            self._waits.add_state(self._waits_in(state))

    def _number_of(self, state: State, parent: int, move: str) -> int:
        packed = marshal.dumps(state, _CANONICAL)
        digest = blake2b(packed, digest_size=_HASH_BYTES).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self._numbers)
            if number:
                self._parents.add(parent, move)
            self._ahead.append((number, packed))
        return number

    def _note(self, sentence: str, number: int, *moves: str) -> None:
        if sentence not in self._broken:
            self._broken.add(sentence)
            self._outcome.breaks.append(Break(sentence, (*self._parents.history(number), *moves)))

    def _look_for_circles(self) -> None:
        """States from which the operator and the cluster, left alone, never come to rest."""
        for number in _never_resting(len(self._numbers), self._from, self._to)[:1]:
            self._note("left alone, the job never comes to rest", number)


def _name_of_wait(move: Move) -> str:
    """What has to happen some time; empty if it need not."""
    if not move.is_fair:
        return ""
    return TIME if move.is_time else move.name


def _never_resting(count: int, sources: "array[int]", targets: "array[int]") -> list[int]:
    """The states that lead into a circle, whatever happens next: those that are left when what rests is taken away."""
    leaving = array("I", bytes(4 * count))
    arriving = array("I", bytes(4 * (count + 1)))
    for source, target in zip(sources, targets, strict=True):
        leaving[source] += 1
        arriving[target + 1] += 1
    for number in range(count):
        arriving[number + 1] += arriving[number]
    place, coming = array("I", arriving), array("I", bytes(4 * len(sources)))
    for source, target in zip(sources, targets, strict=True):
        coming[place[target]] = source
        place[target] += 1
    resting = [number for number in range(count) if not leaving[number]]
    left = count
    while resting:
        target = resting.pop()
        left -= 1
        for position in range(arriving[target], arriving[target + 1]):
            source = coming[position]
            leaving[source] -= 1
            if not leaving[source]:
                resting.append(source)
    return [number for number in range(count) if leaving[number]] if left else []
