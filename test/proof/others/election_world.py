"""Replicas that contend for one Lease: what each knows and may do is real (``Candidate``, ``Fence``, ``LeaseRecord``).

The API server, the network and time are a model: every replica tries once a second, unless it is stopped. The sentences
are those of docs/faults.md. Who has the right to do so may take the Lease from its holder, who learns of it with the
next renewal: until then two may write.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from proof.engine import Move
from proof.engine import State as Packed
from support.fake_clock import FakeClock
from tf_operator.machinery.election.candidate import Candidate
from tf_operator.machinery.election.fence import Fence, NotLeading
from tf_operator.machinery.election.lease import Lease, LeaseRecord, Observation

LEASE, TERM, TRY, LONGEST = 4, 3, 2, 6
"""The lease duration, the renew deadline, how long a try takes at most, and what somebody writes into the Lease."""
SLACK = 2
"""A retry period, and 3 s, which are less than another one."""
NEVER = -1
CREATE = 0
_WALL: Final = datetime(2026, 1, 1, tzinfo=UTC)

Stored = tuple[Any, ...]
"""The Lease on the server: version, holder, duration (0: none) and transitions; empty when there is none.

A write has the same parts, with the version that it replaces (or ``CREATE``).
"""


class Process(NamedTuple):
    """One replica. Ages and terms are counted from now."""

    life: int = 0
    observation: Stored = ()
    age: int = 0
    own: int = NEVER
    """The transitions of the record that was confirmed as its own."""
    term: int = 0
    """How long its fence is still open."""
    leads: bool = False
    phase: str = ""
    """Within a try: it ``reads``, ``updates`` or ``creates`` next, or ``waits`` for a reply."""
    reply: Stored = ()
    sent: int = 0
    is_due: bool = True
    trouble: str = ""


class State(NamedTuple):
    """Everything that what happens next depends on."""

    processes: tuple[Any, ...]
    faults: int
    edits: int
    lease: Stored = ()
    late: Stored = ()
    """A write that has not arrived yet."""
    robbed: tuple[int, ...] = ()
    """Those from whom the Lease was taken in their term."""
    silence: int = 0
    """For how long nobody leads, although somebody could and nothing has happened."""


@dataclass(frozen=True, slots=True)
class ElectionBound:
    """How many replicas, and how much may go wrong."""

    name: str
    replicas: int = 2
    faults: int = 2
    edits: int = 0
    may_novices_create: bool = True
    """Whether a replica that has just started, or lost its term, may create a Lease that was deleted in another's."""


EDITS: Final[dict[str, Callable[[Stored], Stored]]] = {
    "deletes the Lease": lambda _: (),
    "annotates the Lease": lambda lease: lease,
    "empties the Lease": lambda lease: (lease[0], "", 0, 0),
    "takes the Lease": lambda lease: (lease[0], "thief", LEASE, lease[3] + 1),
    "shortens the Lease": lambda lease: (*lease[:2], 1, lease[3]),
    "prolongs the Lease": lambda lease: (*lease[:2], LONGEST, lease[3]),
}
_ROBBERIES: Final = frozenset({"empties the Lease", "takes the Lease"})
EDITED: Final = ElectionBound("two replicas, and somebody edits the Lease", faults=1, edits=1)
SIZES: Final = {
    "quick": (ElectionBound("two replicas", faults=1),),
    "gate": (ElectionBound("two replicas"), EDITED),
    "night": (
        ElectionBound("two replicas", faults=3),
        ElectionBound("two replicas, and somebody edits the Lease", edits=1),
        ElectionBound("two replicas, and somebody edits the Lease twice", faults=1, edits=2),
        ElectionBound("three replicas", replicas=3, faults=1),
    ),
}


class ElectionWorld:
    """The world of one bound."""

    def __init__(self, bound: ElectionBound) -> None:
        self.bound = bound
        self._clock = FakeClock()

    def start(self) -> Packed:
        processes = tuple(tuple(Process()) for _ in range(self.bound.replicas))
        return tuple(State(processes, self.bound.faults, self.bound.edits))

    def resting(self, packed: Packed) -> Iterator[str]:
        state = State._make(packed)
        writers = {number for number, process in _each(state) if self._may_write(process)} - {*state.robbed}
        if len(writers) > 1:
            yield "two replicas may write"
        for number in writers:
            if state.lease and not _holds(state, number):
                yield "a replica may write outside its own lease"
        copies = (state.lease, *(process.observation for _, process in _each(state)))
        longest = max([LEASE, *(stored[2] for stored in copies if stored)])
        if state.silence > longest + SLACK:
            yield "no standby leads a lease duration and a retry period after the last leader"

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        is_led = any(_leads_well(state, number, process) for number, process in _each(state)) and not state.late
        for name, after, is_fair in self._course(state):
            yield Move(name, _canonical(after), is_fair=is_fair and not is_led)
        if state.faults:
            calm = state._replace(faults=state.faults - 1, silence=0)
            for number, process in _each(state):
                for name, after in self._faults(calm, number, process):
                    yield Move(f"{_identity(state, number)} {name}", _canonical(after), is_fair=False)
        if state.edits and state.lease:
            yield from (Move(name, _canonical(after), is_fair=False) for name, after in _edited(state))

    def _course(self, state: State) -> Iterator[tuple[str, State, bool]]:
        """What happens without a further fault: the name of a move, the state after it, and whether it is bound to."""
        if state.late:
            yield "the late write arrives", self._arrived(state._replace(late=(), silence=0), state.late)[0], True
        for number, process in _each(state):
            who = _identity(state, number)
            if process.trouble:
                after = _with(state._replace(silence=0), number, process._replace(trouble=""))
                yield f"{who} is {process.trouble} no more", after, True
            if process.trouble != "stopped":
                yield from ((f"{who} {name}", after, True) for name, after in self._step(state, number, process))
        if not any(_is_busy(process) for _, process in _each(state)):
            is_healthy = any(not process.trouble for _, process in _each(state))
            yield "a second passes", _later(state, is_healthy), is_healthy and not state.late

    # --- What a replica does

    def _step(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        if process.phase == "waits":
            calm = state._replace(silence=0)
            yield "gets its reply", self._answered(calm, number, process)
            if process.sent >= TRY or not process.term:
                yield "gives up", _with(calm, number, _idle(process))
        elif process.leads and not process.term and not process.phase:
            yield "notices that its term is over", _with(state, number, Process(process.life))
        elif process.is_due and process.trouble:
            yield "reaches nobody", _with(state, number, _idle(process))
        elif process.is_due and (write := self._write(state, number, process)):
            yield "writes", self._answered(*self._replied(state, number, process, write))
        elif process.is_due:
            yield "reads", self._read(state, number, process)

    def _read(self, state: State, number: int, process: Process) -> State:
        lease = _lease(state.lease) if state.lease else None
        candidate = _candidate(state, number).after_read(lease, 0)
        if candidate.may_take(0):
            taking = _informed(process, candidate)._replace(phase="updates" if lease else "creates")
            return _with(state, number, taking)
        process = _informed(process, candidate.rejected())
        return _with(state, number, Process(process.life) if process.leads else _idle(process))

    def _write(self, state: State, number: int, process: Process) -> Stored:
        """What it sends next, if that is a write."""
        candidate = _candidate(state, number)
        if process.phase not in {"updates", "creates"} and (process.phase or candidate.renewable is None):
            return ()
        record = candidate.record(_WALL)
        guard = CREATE if process.phase == "creates" else process.observation[0]
        return guard, record.holder, record.seconds or 0, record.transitions

    def _replied(self, state: State, number: int, process: Process, write: Stored) -> tuple[State, int, Process]:
        """The write has arrived, and the reply comes next."""
        is_novice = _is_novice(process) or number in state.robbed
        after, reply = self._arrived(state, write, is_novice=is_novice)
        waiting = process._replace(phase="waits", reply=(*reply, process.phase == ""), sent=0)
        return _with(after, number, waiting), number, waiting

    def _arrived(self, state: State, write: Stored, *, is_novice: bool = True) -> tuple[State, Stored]:
        """The API server: an update is refused if the Lease is not as it was, and a create if there is one."""
        if write[0] != (state.lease[0] if state.lease else CREATE):
            return state, ()
        if write[0] == CREATE and is_novice and self.bound.may_novices_create:
            state = _robbed(state)
        lease = (_next_version(state), *write[1:])
        return state._replace(lease=lease), lease

    def _answered(self, state: State, number: int, process: Process) -> State:
        *reply, is_first = process.reply
        if not reply:
            refused = _idle(process)._replace(phase="reads", is_due=True) if is_first else _idle(process)
            return _with(state, number, refused)
        candidate = _candidate(state, number).after_write(_lease(tuple(reply)), 0)
        fence = self._fence(process.term)
        fence.open_until(self._clock.monotonic() + candidate.term_end(-process.sent))
        term = max(0, round(fence.remaining()))
        if term and _holds(state, number):
            state = state._replace(silence=0, robbed=tuple(other for other in state.robbed if other != number))
        leading = _idle(_informed(process, candidate))._replace(term=term, leads=process.leads or term > 0)
        return _with(state, number, leading)

    def _fence(self, term: int) -> Fence:
        fence = Fence(self._clock)
        fence.open_until(self._clock.monotonic() + term)
        return fence

    def _may_write(self, process: Process) -> bool:
        """Whether a write of its work leaves, also if it was begun before it was stopped."""
        try:
            self._fence(process.term).check()
        except NotLeading:
            return False
        return True

    # --- What goes wrong

    def _faults(self, state: State, number: int, process: Process) -> Iterator[tuple[str, State]]:
        novice = _with(state, number, Process(process.life + 1))
        yield "is killed, and another one starts", novice
        if process.trouble:
            return
        for trouble in ("stopped", "cut off"):
            yield f"is {trouble}", _with(state, number, process._replace(trouble=trouble))
        # All work has ended, and the fence is closed.
        record = _lease(state.lease).record if _holds(state, number) else None
        free = record.released(_WALL) if record else None
        release = (state.lease[0], free.holder, free.seconds, free.transitions) if free else ()
        yield "resigns, and another one starts", self._arrived(novice, release)[0] if release else novice
        if not process.is_due or not (write := self._write(state, number, process)):
            return
        tried = _with(state, number, _idle(process))
        yield "is refused", tried
        yield (
            "writes, and the reply is lost",
            _with(self._replied(state, number, process, write)[0], number, _idle(process)),
        )
        yield "writes, and the reply is slow", self._replied(state, number, process, write)[0]
        if not state.late:
            yield "writes, and nothing arrives yet", tried._replace(late=write)


def _edited(state: State) -> Iterator[tuple[str, State]]:
    # Twice before a standby has looked: to it the Lease was missing all the time. A known limit, too.
    is_missed = any(process.observation[:1] == (CREATE,) for _, process in _each(state))
    for name, edit in EDITS.items():
        lease = edit(state.lease)
        if not lease and is_missed:
            continue
        after = _robbed(state) if name in _ROBBERIES else state
        lease = (_next_version(state), *lease[1:]) if lease else ()
        yield f"somebody {name}", after._replace(lease=lease, edits=state.edits - 1, silence=0)


def _robbed(state: State) -> State:
    return state._replace(robbed=tuple(number for number, process in _each(state) if _has_term(process)))


def _has_term(process: Process) -> bool:
    """Whether its fence is open, or may be with the next reply."""
    return process.term > 0 or process.phase == "waits"


def _later(state: State, is_healthy: bool) -> State:
    processes = tuple(
        tuple(
            process._replace(
                age=min(process.age + 1, LONGEST) if process.observation else 0,
                term=max(process.term - 1, 0),
                sent=min(process.sent + 1, LONGEST) if process.phase == "waits" else 0,
                is_due=process.is_due or not process.phase,
            )
        )
        for _, process in _each(state)
    )
    is_led = any(process.term for _, process in _each(state))
    silence = min(state.silence + 1, LONGEST + SLACK + 1) if is_healthy and not is_led and not state.late else 0
    robbed = tuple(number for number in state.robbed if _has_term(Process._make(processes[number])))
    return state._replace(processes=processes, robbed=robbed, silence=silence)


def _is_novice(process: Process) -> bool:
    """Whether it has just started, or has just lost its term."""
    return not process.observation or (process.own != NEVER and not process.term)


def _is_busy(process: Process) -> bool:
    """Whether it does something before a second is over."""
    if process.trouble == "stopped":
        return False
    is_over = process.leads and not process.term
    return is_over or (process.sent >= TRY if process.phase == "waits" else process.is_due)


def _leads_well(state: State, number: int, process: Process) -> bool:
    return process.term > 0 and not process.trouble and _holds(state, number) and number not in state.robbed


def _holds(state: State, number: int) -> bool:
    return state.lease[1:2] == (_identity(state, number),)


def _identity(state: State, number: int) -> str:
    return f"{'abc'[number]}{state.processes[number][0]}"


def _each(state: State) -> Iterator[tuple[int, Process]]:
    return ((number, Process._make(process)) for number, process in enumerate(state.processes))


def _with(state: State, number: int, process: Process) -> State:
    processes = (*state.processes[:number], tuple(process), *state.processes[number + 1 :])
    return state._replace(processes=processes)


def _idle(process: Process) -> Process:
    return process._replace(phase="", reply=(), sent=0, is_due=False)


def _candidate(state: State, number: int) -> Candidate:
    process = Process._make(state.processes[number])
    observation = Observation(_lease(process.observation), -process.age) if process.observation else None
    own = LeaseRecord(transitions=process.own) if process.own != NEVER else None
    return Candidate(_identity(state, number), LEASE, TERM, observation, own)


def _informed(process: Process, candidate: Candidate) -> Process:
    """The replica with what it knows now."""
    own = candidate.own.transitions if candidate.own else NEVER
    if candidate.observation is None:
        return process._replace(own=own)
    lease, age = candidate.observation.lease, round(-candidate.observation.at)
    stored = (int(lease.version or CREATE), lease.record.holder, lease.record.seconds or 0, lease.record.transitions)
    return process._replace(observation=stored, age=age, own=own)


def _lease(stored: Stored) -> Lease:
    version, holder, seconds, transitions = stored
    body = {"metadata": {"resourceVersion": str(version)}} if version else {}
    return Lease(LeaseRecord(holder, seconds or None, _WALL, _WALL, transitions), body)


def _versions(state: State) -> set[int]:
    """All that are known anywhere."""
    processes = [process for _, process in _each(state)]
    places = (
        state.lease,
        state.late,
        *(process.observation for process in processes),
        *(process.reply[:-1] for process in processes),
    )
    return {stored[0] for stored in places if stored} - {CREATE}


def _next_version(state: State) -> int:
    return max(_versions(state), default=0) + 1


def _canonical(state: State) -> Packed:
    """Only whether two versions are the same matters."""
    numbers = {version: number for number, version in enumerate(sorted(_versions(state)), 1)}

    def renumbered(stored: Stored) -> Stored:
        return (numbers.get(stored[0], CREATE), *stored[1:]) if len(stored) > 1 else stored

    processes = tuple(
        tuple(process._replace(observation=renumbered(process.observation), reply=renumbered(process.reply)))
        for _, process in _each(state)
    )
    return tuple(state._replace(processes=processes, lease=renumbered(state.lease), late=renumbered(state.late)))
