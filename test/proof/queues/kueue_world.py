"""One job in a queue of Kueue: everything that may happen next to it, its Workload and its pods.

What the operator does is real (``kueue_operator``). Kueue is a model of what its owners of Workloads have to expect of
it: it keeps quota, admits, evicts, and admits again when the quota was given back.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from proof.engine import Move
from proof.engine import State as Packed
from proof.queues import kueue_oracle as oracle
from proof.queues.kueue_bounds import ACTIVATE, DEACTIVATE, DELETE, EDITS, KueueBound
from proof.queues.kueue_operator import (
    CHANGE_WORKLOAD,
    DELETE_POD,
    DELETE_WORKLOAD,
    FLAVORS,
    MAKE_POD,
    MAKE_WORKLOAD,
    NONE,
    RESUME,
    STORE,
    KueueOperator,
    PodState,
    Seen,
    Spec,
    pod_uid,
)
from support.jobs.builders import merge
from support.resources import Json


class State(NamedTuple):
    """Everything that what happens next depends on: plain values, so that equal states are equal bytes."""

    spec: tuple[Any, ...]
    status: int = 0
    workload: int = NONE
    birth: int = 0
    """Of the Workload: how many there have been before it."""
    pods: tuple[Any, ...] = ()
    view: tuple[Any, ...] = ()
    """What the plan in flight was made from."""
    at: int = 0
    is_outdated: bool = False
    """Whether somebody else has changed the job since."""
    is_changed: bool = False
    """Whether somebody else has changed the Workload since."""
    lag: tuple[Any, ...] = ()
    """The Workload as the cache shows it: its number and its birth."""
    is_readable: bool = True
    failures: int = 0
    losses: int = 0
    faults: int = 0
    edits: int = 0
    evictions: int = 0


Done = tuple[State, tuple[str, ...]] | None


class KueueWorld:
    """The world of one bound."""

    def __init__(self, bound: KueueBound) -> None:
        self.bound = bound
        self.operator = KueueOperator(bound.start)

    def start(self) -> Packed:
        bound = self.bound
        return tuple(State(tuple(bound.start), faults=bound.faults, edits=bound.edits, evictions=bound.evictions))

    def waiting(self, packed: Packed) -> list[str]:
        """What must not stay so for ever."""
        state = State._make(packed)
        return oracle.still_waiting(self.operator.statuses[state.status], self._workload(state))

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which neither the operator nor the cluster has anything to do."""
        state = State._make(packed)
        if state.view or state.lag or not state.is_readable or self.operator.plan(self._view(state)).steps:
            return
        if any(PodState._make(pod).is_leaving for pod in state.pods):
            return
        yield from oracle.on_rest(
            self._wish(state),
            self.operator.statuses[state.status],
            self._workload(state),
            self._places(state.pods),
        )

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        yield from self._operator(state)
        yield from self._cluster(state)
        yield from self._kueue(state)
        if state.edits:
            yield from self._people(state)

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if state.lag:
            yield _move("the cache catches up", state._replace(lag=()))
        if not state.is_readable:
            yield _move("Kueue can be read again", state._replace(is_readable=True))
        elif state.faults and "cannot be read" in self.bound.may:
            unreadable = state._replace(is_readable=False, faults=state.faults - 1)
            yield _move("Kueue cannot be read", unreadable, is_fair=False)
        if state.view:
            yield from self._step(state)
            return
        view = self._view(state)
        if self.operator.plan(view).steps:
            # With an old picture it may plan again and again; it does not go on for ever, for the cache catches up.
            planned = state._replace(view=tuple(view), is_changed=bool(state.lag))
            yield _move("the operator plans", planned, is_fair=not state.lag)

    def _step(self, state: State) -> Iterator[Move]:
        view = Seen._make(state.view)
        steps = self.operator.plan(view).steps
        verb, *details = steps[state.at]
        is_last = state.at + 1 == len(steps)
        advanced = _dropped(state) if is_last else state._replace(at=state.at + 1)
        name = f"the operator {verb}" + (f" {details[0]}" if verb in {MAKE_POD, DELETE_POD} else "")
        if state.is_outdated and verb != STORE:
            yield _move("the operator sees the change, and stops", _dropped(state))
            return
        done = self._done(advanced, view, state, verb, details)
        if done is None:
            yield _move(f"{name}, and meets a conflict", _dropped(state))
            return
        after, breaks = done
        yield _move(name, after, breaks)
        if not state.faults:
            return
        faulty = after._replace(faults=state.faults - 1)
        if "loses a reply" in self.bound.may:
            yield _move(f"{name}, and the reply is lost", _dropped(faulty), breaks, is_fair=False)
        if "is refused" in self.bound.may:
            refused = _dropped(state)._replace(faults=state.faults - 1)
            yield _move(f"the server fails when {name}", refused, is_fair=False)
        if "is killed" in self.bound.may and not is_last:
            yield _move(f"the operator is killed after: {name}", _dropped(faulty), breaks, is_fair=False)
        if "lags" in self.bound.may and verb in {MAKE_WORKLOAD, CHANGE_WORKLOAD, DELETE_WORKLOAD} and not state.lag:
            lagging = faulty._replace(lag=(state.workload, state.birth))
            yield _move(f"{name}, which the cache does not show", lagging, breaks, is_fair=False)

    def _done(self, state: State, view: Seen, earlier: State, verb: str, details: list[Any]) -> Done:
        """What a write does, and the sentences that it breaks; ``None`` if it is refused."""
        if verb == STORE:
            return None if earlier.is_outdated else self._stored(state, details[0])
        if verb == DELETE_POD:
            pods = (
                tuple(pod._replace(is_leaving=True)) if pod_uid(pod) == details[0] else tuple(pod)
                for pod in map(PodState._make, state.pods)
            )
            return state._replace(pods=tuple(sorted(pods))), ()
        if verb in {CHANGE_WORKLOAD, DELETE_WORKLOAD}:
            is_current = state.workload != NONE and details[0] == f"w{state.birth}"
            if not is_current or (verb == CHANGE_WORKLOAD and details[2] and earlier.is_changed):
                return None
            if verb == DELETE_WORKLOAD:
                return self._gone(state, view)
            return self._changed_by_operator(state, view, details[1])
        return self._create(state, view, verb, details)

    def _stored(self, state: State, after: int) -> Done:
        statuses, facts = self.operator.statuses, oracle.Facts(state.failures, state.losses)
        return state._replace(status=after), tuple(oracle.on_status(statuses[state.status], statuses[after], facts))

    def _create(self, state: State, view: Seen, verb: str, details: list[Any]) -> Done:
        wish, workload = Spec._make(view.spec).wish(), self._workload_in(view)
        if verb == RESUME:
            spec = Spec._make(state.spec)
            resumed = spec._replace(is_suspended=False, generation=spec.generation + 1)
            return state._replace(spec=tuple(resumed)), tuple(oracle.on_resume(workload))
        if verb == MAKE_POD:
            ordinal, pool, processors = details
            place = oracle.Place(ordinal, pool, processors, is_running=False, has_ended=False, is_leaving=False)
            breaks = oracle.on_create_pod(wish, workload, place)
            return self._with_pod(state, ordinal, pool, processors), tuple(breaks)
        created = json.loads(details[0])
        if state.workload != NONE:
            return None
        breaks = oracle.on_create_workload(wish, workload, created, self._places(view.pods))
        return state._replace(workload=self.operator.workload_number(created)), tuple(breaks)

    def _gone(self, state: State, view: Seen) -> Done:
        wish, workload = Spec._make(view.spec).wish(), self._workload_in(view)
        breaks = oracle.on_delete_workload(wish, workload or {}, self._places(view.pods))
        return state._replace(workload=NONE, birth=state.birth + 1), tuple(breaks)

    def _changed_by_operator(self, state: State, view: Seen, change: str) -> Done:
        current, operator = self.operator.workloads[state.workload], self.operator
        changed, status = merge(current, json.loads(change)), operator.statuses[view.status]
        is_fixed = oracle.has(current, "QuotaReserved") and not oracle.has(self._workload_in(view), "QuotaReserved")
        if is_fixed and any(current["spec"][name] != changed["spec"][name] for name in ("podSets", "queueName")):
            return None  # Kueue's webhook refuses it
        breaks = oracle.on_change_workload(current, changed, status, self._places(view.pods))
        return state._replace(workload=operator.workload_number(changed)), tuple(breaks)

    def _workload_in(self, view: Seen) -> Json | None:
        return None if view.workload == NONE else self.operator.workloads[view.workload]

    def _with_pod(self, state: State, ordinal: int, pool: str, processors: int) -> State:
        here = [pod for pod in map(PodState._make, state.pods) if pod.ordinal == ordinal]
        if here:
            return state  # its name is taken
        birth = self.operator.free_birth(state.status, ordinal, set())
        pod = PodState(ordinal, birth, pool, processors)
        return state._replace(pods=tuple(sorted((*state.pods, tuple(pod)))))

    # --- Pods

    def _cluster(self, state: State) -> Iterator[Move]:
        for pod in map(PodState._make, state.pods):
            name = f"worker-{pod.ordinal}"
            if pod.is_leaving:
                yield _move(f"{name} is gone", _with(state, pod, None))
                continue
            if pod.how == "Pending":
                yield _move(f"{name} runs", _with(state, pod, pod._replace(how="Running")))
            if pod.how != "Running":
                continue
            yield _move(f"{name} exits with 0", _with(state, pod, pod._replace(how="exit 0")))
            if state.faults and "fails" in self.bound.may:
                failed = _with(state, pod, pod._replace(how="exit 137"))
                counted = failed._replace(failures=state.failures + 1, faults=state.faults - 1)
                yield _move(f"{name} exits with 137", counted, is_fair=False)
            if state.faults and "is lost" in self.bound.may:
                lost = _with(state, pod, None)._replace(losses=state.losses + 1, faults=state.faults - 1)
                yield _move(f"{name} is lost with its node", lost, is_fair=False)

    # --- Kueue

    def _kueue(self, state: State) -> Iterator[Move]:
        workload = self._workload(state)
        if workload is None or oracle.has(workload, "Finished"):
            return
        is_active, is_reserved = workload["spec"].get("active", True), oracle.has(workload, "QuotaReserved")
        if not is_reserved:
            if is_active:
                yield from self._reserve(state, workload)
        elif oracle.has(workload, "Evicted"):
            return  # its owner gives the quota back
        elif is_active:
            yield from self._reserved(state, workload)
        else:
            evicted = _evicted(workload, "Deactivated")
            yield self._changed("Kueue evicts the Workload that is not active", state, evicted)

    def _reserved(self, state: State, workload: Json) -> Iterator[Move]:
        if not oracle.has(workload, "Admitted"):
            yield self._changed("Kueue admits the Workload", state, _with_conditions(workload, Admitted="True"))
        if state.evictions:
            left = state._replace(evictions=state.evictions - 1)
            yield self._changed("Kueue evicts the Workload", left, _evicted(workload, "Preempted"), is_fair=False)

    def _reserve(self, state: State, workload: Json) -> Iterator[Move]:
        count, _ = oracle.asks_for(workload)
        for flavor in FLAVORS if state.evictions else FLAVORS[:1]:
            for number in {count, self.operator.least or count}:
                sets = [{"name": "worker", "flavors": {"cpu": flavor}, "count": number}]
                status = {"admission": {"clusterQueue": "all", "podSetAssignments": sets}}
                reserved = _with_conditions(merge(workload, {"status": status}), QuotaReserved="True", Evicted="False")
                yield self._changed(f"Kueue reserves quota of {flavor} for {number}", state, reserved)

    def _changed(self, name: str, state: State, workload: Json, *, is_fair: bool = True) -> Move:
        """Kueue, or somebody, changes the Workload."""
        number = self.operator.workload_number(workload)
        return _move(name, state._replace(workload=number, is_changed=bool(state.view)), is_fair=is_fair)

    # --- People

    def _people(self, state: State) -> Iterator[Move]:
        edited, workload = state._replace(edits=state.edits - 1), self._workload(state)
        for edit in self.bound.people:
            name = f"somebody {edit}"
            if edit in {DEACTIVATE, ACTIVATE}:
                is_active = edit == ACTIVATE
                if workload and workload["spec"].get("active", True) is not is_active:
                    changed = merge(workload, {"spec": {"active": is_active}})
                    yield self._changed(name, edited, changed, is_fair=False)
            elif edit == DELETE:
                if workload:
                    gone = edited._replace(workload=NONE, birth=state.birth + 1, is_changed=bool(state.view))
                    yield _move(name, gone, is_fair=False)
            else:
                spec = Spec._make(state.spec)
                after = EDITS[edit](spec)
                if after != spec:
                    changed_spec = tuple(after._replace(generation=spec.generation + 1))
                    changed_job = edited._replace(spec=changed_spec, is_outdated=bool(state.view))
                    yield _move(name, changed_job, is_fair=False)

    # --- What a state is to others

    def _view(self, state: State) -> Seen:
        workload, birth = state.lag or (state.workload, state.birth)
        return Seen(state.spec, state.status, workload, birth, state.pods, state.is_readable)

    def _workload(self, state: State) -> Json | None:
        return None if state.workload == NONE else self.operator.workloads[state.workload]

    def _wish(self, state: State) -> oracle.Wish:
        return Spec._make(state.spec).wish()

    def _places(self, pods: tuple[Any, ...]) -> list[oracle.Place]:
        return [
            oracle.Place(
                pod.ordinal,
                pod.pool,
                pod.processors,
                is_running=pod.how == "Running",
                has_ended=pod.how.startswith("exit"),
                is_leaving=pod.is_leaving,
            )
            for pod in map(PodState._make, pods)
        ]


def _with(state: State, old: PodState, new: PodState | None) -> State:
    others = [pod for pod in state.pods if pod != old]
    return state._replace(pods=tuple(sorted([*others, tuple(new)] if new else others)))


def _dropped(state: State) -> State:
    return state._replace(view=(), at=0, is_outdated=False, is_changed=False)


def _evicted(workload: Json, reason: str) -> Json:
    return _with_conditions(workload, reason, Evicted="True")


def _with_conditions(workload: Json, reason: str = "Kueue", **changes: str) -> Json:
    conditions = [entry for entry in workload.get("status", {}).get("conditions", ()) if entry["type"] not in changes]
    conditions += [
        {"type": kind, "status": status, "reason": reason, "message": "m"} for kind, status in changes.items()
    ]
    return merge(workload, {"status": {"conditions": conditions}})


def _move(name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), broken, is_fair)
