"""One job in a cluster: its state as a small value, and everything that may happen next.

What the operator does is real (``planner``). What the cluster and people do is here, and so is what the operator does
not decide: when it is killed, which reply is lost, what its caches do not show yet.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from proof import oracle, pods
from proof.bounds import EDITS, Bound, Spec
from proof.engine import Move
from proof.engine import State as Packed
from proof.oracle import Facts
from proof.planner import DELETE_POD, DELETE_SERVICES, MAKE_POD, MAKE_SERVICE, STORE, Entry, Planner, Seen, Step
from proof.pods import DELETED, DRAINED, EVICTED, EVICTED_EARLY, OURS, PENDING, REJECTED, RUNS, Notes, PodState

NOTHING, QUIET = -1, ()
NOBODYS = Entry((), None, oracle.NONE)
"""Of a write of which nobody remembers what it was decided from."""


def _if_runs(how: str) -> Callable[[PodState], PodState | None]:
    return lambda pod: pod._replace(how=how) if pod.how == RUNS else None


def _beside(code: int) -> Callable[[PodState], PodState | None]:
    """A program that a kubelet does not start again, beside a container that goes on."""
    how = pods.ended(code, has_sidecar=True)
    return lambda pod: pod._replace(how=how) if pod.how == RUNS and pod.policy == "Never" else None


def _evicted(pod: PodState) -> PodState | None:
    if pod.has_ended:
        return None
    return pod._replace(how=EVICTED_EARLY if pod.how == PENDING else EVICTED)


def _restarted(pod: PodState) -> PodState | None:
    return pod._replace(restarts=pod.restarts + 1) if pod.how == RUNS and pod.policy != "Never" else None


def _rejected(pod: PodState) -> PodState | None:
    return pod._replace(how=REJECTED) if pod.how == PENDING else None


FAULTS = (
    ("fails", "exits with 137", _if_runs("exit 137")),
    ("fails for good", "exits with 1", _if_runs("exit 1")),
    ("ends beside a sidecar", "ends with 0, and a sidecar goes on", _beside(0)),
    ("ends beside a sidecar", "ends with 137, and a sidecar goes on", _beside(137)),
    ("restarts in place", "is restarted in place", _restarted),
    ("is evicted", "is evicted", _evicted),
    ("is rejected", "is rejected by its node", _rejected),
)
"""What may happen to a pod that stays: the fault, in words, and what it makes of the pod, if it can happen to it."""


class State(NamedTuple):
    """Everything that what happens next depends on: plain values, so that equal states are equal bytes."""

    spec: Spec
    status: int = 0
    pods: tuple[Any, ...] = ()
    services: tuple[Any, ...] = ()
    births: tuple[Any, ...] = ()
    departed: tuple[Any, ...] = ()
    """What this life of the operator remembers of pods that are gone, and of how they were before."""
    ended: tuple[Any, ...] = ()
    plan: int = NOTHING
    """The plan in flight, and how many of its steps are done."""
    at: int = 0
    planned: tuple[int, ...] = ()
    """The spec that the plan in flight was made from."""
    is_outdated: bool = False
    """Whether the job was written since: a status that is guarded by its version is refused."""
    late: tuple[Any, ...] = ()
    """A write of an earlier life that has not arrived yet, whether it is outdated, and the spec that it is about."""
    faults: int = 0
    edits: int = 0
    happened: int = 0
    settled: int = 0
    is_deleted: bool = False


class JobWorld:
    """The world of one bound."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.planner = Planner(bound)
        self._facts: list[Facts] = []
        self._fact_numbers: dict[Facts, int] = {}
        self._number(oracle.NONE)

    def start(self) -> Packed:
        return tuple(State(self.bound.start(), faults=self.bound.faults, edits=self.bound.edits))

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which there is nothing left to do."""
        state = State(*packed)
        if state.is_deleted or state.plan != NOTHING or state.late:
            return
        entry = self.planner.plans[self._plan(state)]
        if entry.steps or any(PodState(*pod).is_terminating for pod in state.pods):
            return
        yield from oracle.on_rest(
            oracle.Rest(
                self.planner.spec(state.spec),
                self.planner.statuses[state.status],
                self._facts[state.happened],
                self._facts[state.settled] | entry.facts,
                tuple(pods.look(PodState(*pod)) for pod in state.pods),
                frozenset(state.services),
                waits=entry.wait is not None,
                generation=self.bound.generation(state.spec),
            )
        )

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State(*packed)
        if state.is_deleted:
            return
        yield from self._operator(state)
        yield from self._cluster(state)
        if state.edits:
            for name in self.bound.people:
                spec = EDITS[name](state.spec)
                if spec[:-1] != state.spec[:-1]:
                    yield self._edited(state, name, spec)

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if state.late and (state.plan == NOTHING or state.late[0][0] in {MAKE_POD, DELETE_POD}):
            yield self._arrived(state, *state.late)
        if state.plan == NOTHING:
            yield from self._between_plans(state)
            return
        yield from self._step(state)
        if state.faults:
            yield from self._failed_step(state)

    def _between_plans(self, state: State) -> Iterator[Move]:
        number = self._plan(state)
        entry = self.planner.plans[number]
        if entry.steps:
            yield _move("the operator plans", self._begun(state, number))
        elif entry.wait is not None and self.bound.is_timed:
            status = self.planner.waited(state.status, entry.wait)
            yield _move("time passes", state._replace(status=status), is_fair=False)
        if state.faults and "is killed" in self.bound.may and (state.departed or state.ended):
            yield _move("the operator is killed", _killed(state), is_fair=False)

    def _step(self, state: State) -> Iterator[Move]:
        """The next step of the plan in flight."""
        entry = self.planner.plans[state.plan]
        step = entry.steps[state.at]
        name = f"the operator {_worded(step)}"
        if state.planned != state.spec and step[0] != STORE:
            # "A job that is deleted, suspended or changed meanwhile gets only the pods whose requests are in flight."
            yield _move("the operator sees the change, and stops", _dropped(state))
        elif step[0] == STORE and state.is_outdated:
            yield _move(f"{name}, and meets a conflict", _dropped(state))
        else:
            after, broken = self._done(state, step, entry, is_outdated=state.is_outdated)
            yield _move(name, _advanced(after, entry.steps), broken)

    def _failed_step(self, state: State) -> Iterator[Move]:
        """The same, and it fails."""
        may, entry = self.bound.may, self.planner.plans[state.plan]
        step = entry.steps[state.at]
        name = f"the operator {_worded(step)}"
        if "loses a reply" in may and not (step[0] == STORE and state.is_outdated):
            after, broken = self._done(state, step, entry, is_outdated=state.is_outdated, is_heard=False)
            left = _dropped(after)._replace(faults=state.faults - 1)
            yield _move(f"{name}, and the reply is lost", left, broken, is_fair=False)
        if "is refused" in may:
            yield _move(f"the server fails when {name}", _failed(state, entry.steps), is_fair=False)
        if "is killed" in may:
            killed, late = _killed(state), (step, state.is_outdated, state.planned)
            yield _move("the operator is killed", killed, is_fair=False)
            name = f"the operator is killed while it {_worded(step)}"
            yield _move(name, killed._replace(late=late), is_fair=False)

    def _arrived(self, state: State, step: Step, is_outdated: bool, planned: tuple[int, ...]) -> Move:
        """A write of an earlier life, of which nobody waits for the reply."""
        earlier = state._replace(late=(), planned=planned)
        after, broken = self._done(earlier, step, NOBODYS, is_outdated=is_outdated, is_heard=False)
        if step[0] in {MAKE_POD, DELETE_POD}:
            broken = ()  # it was right when it was sent
        is_job = step[0] == STORE and not is_outdated
        after = after._replace(
            planned=state.planned, is_outdated=state.is_outdated or (is_job and state.plan != NOTHING)
        )
        return _move("a write of its earlier life arrives", after, broken)

    def _plan(self, state: State) -> int:
        present = tuple(PodState(*pod) for pod in state.pods)
        view = Seen(state.spec, state.status, present, state.services, _notes(state))
        return self.planner.plan(view, present)

    def _begun(self, state: State, number: int) -> State:
        # A status of an earlier life has arrived before another one leads, or never does.
        late = state.late if state.late and state.late[0][0] in {MAKE_POD, DELETE_POD} else ()
        state = state._replace(plan=number, at=0, planned=state.spec, is_outdated=False, late=late)
        if not self.planner.plans[number].resumes:
            return state
        return state._replace(pods=_old(state.pods), departed=_old(state.departed), ended=_old(state.ended))

    def _done(
        self, state: State, step: Step, entry: Entry, *, is_outdated: bool, is_heard: bool = True
    ) -> tuple[State, tuple[str, ...]]:
        """What a write does, and the sentences that it breaks."""
        match step:
            case (str() as verb, int() as after, _) if verb == STORE:
                return self._stored(state, after, entry, is_outdated=is_outdated, is_heard=is_heard)
            case (str() as verb, kind, index, name) if verb == MAKE_POD:
                return self._created(state, kind, index, name)
            case (str() as verb, kind, index, _) if verb == MAKE_SERVICE:
                services = tuple(sorted({*state.services, (kind, index)}))
                return state._replace(services=services), ()
            case (str() as verb, uid) if verb == DELETE_POD:
                return self._deleted(state, uid, entry)
            case (str() as verb, names) if verb == DELETE_SERVICES:
                left = tuple(
                    service for service in state.services if f"job-{service[0].lower()}-{service[1]}" not in names
                )
                return state._replace(services=left), ()
            case _:
                return state._replace(is_deleted=True), ()

    def _stored(
        self, state: State, after: int, entry: Entry, *, is_outdated: bool, is_heard: bool
    ) -> tuple[State, tuple[str, ...]]:
        if is_outdated:
            return state, ()
        statuses, facts, departed = self.planner.statuses, entry.facts, entry.departed
        broken: tuple[str, ...] = ()
        settled = self._facts[state.settled]
        if after != state.status:
            spec = self.planner.spec(state.planned or state.spec)
            happened = self._facts[state.happened] | facts
            write = oracle.Stored(spec, statuses[state.status], statuses[after], happened, settled, facts)
            broken = tuple(oracle.on_status(write))
        late = (state.late[0], True, state.late[2]) if state.late else ()
        stored = state._replace(status=after, settled=self._number(settled | facts), late=late, is_outdated=False)
        if is_heard:
            stored = stored._replace(departed=tuple(pod for pod in stored.departed if pod[:-1] not in departed))
        return stored, broken

    def _created(self, state: State, kind: str, index: int, name: str) -> tuple[State, tuple[str, ...]]:
        if any(pod[3] == name for pod in state.pods):
            return state, ()  # it is ours, and there already
        broken = tuple(oracle.on_create(self._children(state), (kind, index)))
        births = dict(state.births)
        births[kind, index] = birth = births.get((kind, index), 0) + 1
        policy = self.planner.spec(state.spec).policy(kind)
        pod = PodState(kind, index, birth, name, "Never" if policy == "ExitCode" else policy)
        notes = self._noted(state, "created", pod)
        # A create that is late comes before the pod of its name is gone again: it meets that pod, and does nothing.
        late = () if state.late and state.late[0] == (MAKE_POD, kind, index, name) else state.late
        return state._replace(
            late=late, pods=tuple(sorted((*state.pods, tuple(pod)))), births=tuple(sorted(births.items())), **notes
        ), broken

    def _deleted(self, state: State, uid: str, entry: Entry) -> tuple[State, tuple[str, ...]]:
        pod = next((PodState(*fields) for fields in state.pods if PodState(*fields).uid == uid), None)
        if pod is None:
            return state, ()
        planned_pod = next((other for other in entry.pods if other.uid == uid), None)
        if planned_pod and state.planned == state.spec:
            planned_pod = planned_pod._replace(is_old=pod.is_old)
        broken: tuple[str, ...] = ()
        if planned_pod and not state.is_outdated:
            broken = tuple(oracle.on_delete(self._children(state), pods.look(planned_pod)))
        if pod.is_terminating:
            return state, broken
        return self._terminating(state, pod, OURS), broken

    def _children(self, state: State) -> oracle.Children:
        return oracle.Children(
            self.planner.spec(state.planned or state.spec),
            {} if state.is_outdated else self.planner.statuses[state.status],
            self._facts[state.settled],
            tuple(pods.look(PodState(*pod)) for pod in state.pods),
            frozenset((*state.services, *(self.planner.plans[state.plan].services if state.plan != NOTHING else ()))),
        )

    # --- The cluster, and people

    def _cluster(self, state: State) -> Iterator[Move]:
        for fields in state.pods:
            pod = PodState(*fields)
            name = f"{pod.kind.lower()}-{pod.ordinal}"
            if pod.is_terminating:
                yield _move(f"{name} is gone", self._gone(state, pod))
                continue
            if pod.how == PENDING:
                yield _move(f"{name} runs", self._changed(state, pod, pod._replace(how=RUNS)))
            elif pod.how == RUNS:
                done = pod._replace(how="exit 0")
                if pod.policy == "Always":
                    continue
                yield _move(f"{name} exits with 0", self._changed(state, pod, done))
            if state.faults:
                yield from self._faults(state._replace(faults=state.faults - 1), pod, name)

    def _faults(self, state: State, pod: PodState, name: str) -> Iterator[Move]:
        for fault, wording, after in FAULTS:
            if fault in self.bound.may and (changed := after(pod)) is not None:
                yield _move(f"{name} {wording}", self._changed(state, pod, changed), is_fair=False)
        for fault, by in (("is drained", DRAINED), ("is deleted", DELETED)):
            if fault in self.bound.may and not (by == DRAINED and pod.has_ended):
                yield _move(f"{name} {fault}", self._terminating(state, pod, by), is_fair=False)
        if "is collected" in self.bound.may and pod.has_ended:
            yield _move(f"{name} is collected", self._gone(state, pod), is_fair=False)

    def _changed(self, state: State, old: PodState, new: PodState) -> State:
        changed = tuple(sorted((*(pod for pod in state.pods if pod != old), tuple(new))))
        return self._happened(state._replace(pods=changed), new)

    def _terminating(self, state: State, pod: PodState, by: str) -> State:
        after = pod.deleted(by)
        remaining = tuple(sorted((*(other for other in state.pods if other != pod), tuple(after))))
        return self._happened(state._replace(pods=remaining, **self._noted(state, "terminating", pod)), after)

    def _gone(self, state: State, pod: PodState) -> State:
        left = tuple(other for other in state.pods if other != pod)
        state = state._replace(pods=left, **self._noted(state, "deleted", pod))
        return self._happened(state, pod, is_gone=True)

    def _noted(self, state: State, event: str, pod: PodState) -> dict[str, Any]:
        notes = Notes(
            tuple(PodState(*fields) for fields in state.departed), tuple(PodState(*fields) for fields in state.ended)
        )
        after = pods.noted(notes, event, pod, self.bound.api)
        return {"departed": tuple(map(tuple, after.departed)), "ended": tuple(map(tuple, after.ended))}

    def _happened(self, state: State, pod: PodState, *, is_gone: bool = False) -> State:
        """What has become possible by what happened to a pod. After the end nothing counts any more."""
        is_surplus = self.planner.spec(state.spec).is_dynamic
        if (pod.leaving == OURS and not is_surplus) or oracle.end_of(self.planner.statuses[state.status]):
            return state
        happened = self._facts[state.happened]
        new = frozenset(oracle.possible(self.planner.spec(state.spec), pods.look(pod, is_gone=is_gone)))
        return state if new <= happened else state._replace(happened=self._number(happened | new))

    def _edited(self, state: State, name: str, spec: Spec) -> Move:
        late = (state.late[0], True, state.late[2]) if state.late else ()
        old_job, new_job = self.planner.spec(state.spec), self.planner.spec(spec)
        settled = self._number(oracle.after_edit(old_job, new_job, self._facts[state.settled]))
        outdated = state.plan != NOTHING
        after = state._replace(settled=settled, spec=spec, edits=state.edits - 1, is_outdated=outdated, late=late)
        return _move(f"somebody {name}", after, is_fair=False)

    def _number(self, facts: Facts) -> int:
        number = self._fact_numbers.get(facts)
        if number is None:
            number = self._fact_numbers[facts] = len(self._facts)
            self._facts.append(facts)
        return number


def _notes(state: State) -> Notes:
    return Notes(tuple(PodState(*pod) for pod in state.departed), tuple(PodState(*pod) for pod in state.ended))


def _advanced(state: State, steps: tuple[Step, ...]) -> State:
    return state._replace(at=state.at + 1) if state.at + 1 < len(steps) else _dropped(state)


def _killed(state: State) -> State:
    return _dropped(state)._replace(departed=QUIET, ended=QUIET, faults=state.faults - 1)


def _failed(state: State, steps: tuple[Step, ...]) -> State:
    """The rest of the plan is left, apart from progress."""
    state, last = state._replace(faults=state.faults - 1), len(steps) - 1
    if state.at < last and steps[last][0] == STORE and steps[last][2]:
        return state._replace(at=last)
    return _dropped(state)


def _old(states: tuple[Any, ...]) -> tuple[Any, ...]:
    """The pods, which are of an earlier run by now."""
    return tuple(tuple(PodState(*pod)._replace(is_old=True)) for pod in states)


def _dropped(state: State) -> State:
    return state._replace(plan=NOTHING, at=0, planned=(), is_outdated=False)


def _worded(step: Step) -> str:
    verb = step[0]
    if verb in {MAKE_POD, MAKE_SERVICE}:
        return f"{verb} {step[1].lower()}-{step[2]}"
    return f"{verb} {step[1]}" if verb == DELETE_POD else str(verb)


def _move(name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), broken, is_fair)
