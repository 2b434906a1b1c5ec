"""One job in a cluster: its state as a small value, and everything that may happen next.

What the operator does is real (``planner``). What becomes of pods is in ``cluster``. What the operator does not decide
is here: when it is killed, which reply is lost, what its caches do not show yet, and what people change.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

from proof import cluster, oracle, pods
from proof.bounds import AGAIN, EDITS, Bound
from proof.cluster import Event
from proof.engine import Move
from proof.engine import State as Packed
from proof.oracle import Facts
from proof.planner import DELETE_POD, DELETE_SERVICES, MAKE_POD, MAKE_SERVICE, NOW, STORE, Entry, Planner, Seen, Step
from proof.pods import OURS, UNPLACED, Notes, PodState
from proof.policies import memory_oracle, node_oracle, service_oracle, whole_job_oracle
from proof.wordings import Spec

NOTHING, QUIET = -1, ()
NOBODYS = Entry((), None, oracle.NONE)
"""Of a write of which nobody remembers what it was decided from."""
MOST_ATTEMPTS = 2
"""After so many refusals in a row nothing is new about one more."""


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
    """A write of an earlier life that has not arrived yet, whether it is outdated, the spec that it is about, what had
    been seen, and the pods of which nobody knows in which run they were made."""
    lagging: tuple[Any, ...] = ()
    """The pod that the caches show as it was, since they lack its last event."""
    cached: tuple[int, ...] = ()
    """The spec that the caches show, if that is an old one."""
    rejected: tuple[Any, ...] = ()
    """How often in a row a create was refused, whether it is due again, and which names were taken."""
    leftovers: tuple[Any, ...] = ()
    """What is left of an earlier job of this name, and has its names: verbs and replicas."""
    waits: tuple[Any, ...] = ()
    """Replicas whose failure was noted just now: their next pod waits for a second at least."""
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
        self._ends_lives = bool({"is killed", "is succeeded"} & bound.may)

    def start(self) -> Packed:
        return tuple(State(self.bound.start(), faults=self.bound.faults, edits=self.bound.edits))

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which there is nothing left to do."""
        state = State._make(packed)
        if state.is_deleted or state.plan != NOTHING or state.late or state.lagging or state.cached or state.leftovers:
            return
        entry = self.planner.plans[self._plan(state)]
        if entry.steps or any(PodState._make(pod).is_terminating for pod in state.pods):
            return
        rest = oracle.Rest(
            self.planner.spec(state.spec),
            self.planner.told[state.status],
            self._facts[state.happened],
            self._facts[state.settled] | _true_facts(state, entry),
            tuple(pods.look(PodState._make(pod)) for pod in state.pods),
            frozenset(state.services),
            now=NOW,
            wait=entry.wait,
            is_rejected=bool(state.rejected),
            generation=self.bound.generation(state.spec),
        )
        yield from oracle.on_rest(rest)
        yield from node_oracle.on_rest(rest)
        yield from service_oracle.on_rest(rest)

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        if state.is_deleted:
            return
        yield from self._operator(state)
        yield from self._cluster(state)
        if state.edits:
            yield from self._people(state)

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if state.late and (state.plan == NOTHING or state.late[0][0] in {MAKE_POD, DELETE_POD}):
            yield self._arrived(state)
        if state.plan == NOTHING:
            yield from self._between_plans(state)
            return
        yield from self._step(state)
        if state.faults:
            yield from self._failed_step(state)

    def _between_plans(self, state: State) -> Iterator[Move]:
        if state.lagging or state.cached:
            yield _move("the cache catches up", self._caught_up(state)._replace(cached=()))
        number = self._plan(state)
        entry = self.planner.plans[number]
        if entry.steps:
            # With an old picture it may plan again and again; it does not go on for ever, for the cache catches up.
            yield _move("the operator plans", self._begun(state, number), is_fair=not state.cached)
        elif state.rejected and state.rejected[1] and not entry.creates:
            yield _move("the operator forgets the refusal", state._replace(rejected=()))
        elif state.rejected and entry.wait is not None:
            due = (state.rejected[0], True, state.rejected[2])
            yield _move("the time to try again comes", state._replace(rejected=due), is_fair=False)
        elif entry.wait is not None and self.bound.is_timed and not state.late:
            status = self.planner.waited(state.status, entry.wait)
            yield _move("time passes", state._replace(status=status, waits=()))
        if state.faults and (state.departed or state.ended or state.rejected or state.lagging or state.cached):
            yield from (_move(name, ended, is_fair=False) for name, ended in self._ends_of_life(state))

    def _ends_of_life(self, state: State) -> Iterator[tuple[str, State]]:
        """The operator is killed, or another one leads, which remembers those that have succeeded."""
        fresh = _dropped(state)._replace(ended=QUIET, rejected=(), lagging=(), cached=(), faults=state.faults - 1)
        if "is killed" in self.bound.may:
            yield "the operator is killed", fresh._replace(departed=QUIET)
        remembered = tuple(pod for pod in state.departed if PodState._make(pod).phase == "Succeeded")
        if "is succeeded" in self.bound.may and (remembered or "is killed" not in self.bound.may):
            yield "another operator leads", fresh._replace(departed=remembered)

    def _step(self, state: State) -> Iterator[Move]:
        """The next step of the plan in flight."""
        entry = self.planner.plans[state.plan]
        step = entry.steps[state.at]
        name = f"the operator {worded(step)}"
        if state.planned != (state.cached or state.spec) and step[0] != STORE:
            # "A job that is deleted, suspended or changed meanwhile gets only the pods whose requests are in flight."
            yield _move("the operator sees the change, and stops", _dropped(state))
        elif step[0] == STORE and state.is_outdated:
            yield _move(f"{name}, and meets a conflict", _dropped(state))
        elif taken := _taken(state, step):
            refused = self._refused(state, entry, (*(state.rejected[2] if state.rejected else ()), taken))
            yield _move(f"{name}, whose name is taken", refused)
        else:
            after, broken = self._done(state, step, entry, is_outdated=state.is_outdated)
            yield _move(name, _advanced(after, entry), broken)

    def _failed_step(self, state: State) -> Iterator[Move]:
        """The same, and it fails."""
        may, entry = self.bound.may, self.planner.plans[state.plan]
        step = entry.steps[state.at]
        name = f"the operator {worded(step)}"
        if "loses a reply" in may and not (step[0] == STORE and state.is_outdated) and not _taken(state, step):
            after, broken = self._done(state, step, entry, is_outdated=state.is_outdated, is_heard=False)
            left = _dropped(after)._replace(faults=state.faults - 1)
            yield _move(f"{name}, and the reply is lost", left, broken, is_fair=False)
        if "is refused" in may:
            yield _move(f"the server fails when {name}", _failed(state, entry.steps), is_fair=False)
        if "exceeds a quota" in may and step[0] == MAKE_POD:
            refused = self._refused(state, entry, ())._replace(faults=state.faults - 1)
            yield _move(f"{name}, and exceeds a quota", refused, is_fair=False)
        late = (step, state.is_outdated, state.planned, *self._seen(state, entry, step))
        for end, ended in self._ends_of_life(state):
            yield _move(end, ended, is_fair=False)
            if not _taken(state, step):
                yield _move(f"{end} while the old one {worded(step)}", ended._replace(late=late), is_fair=False)

    def _refused(self, state: State, entry: Entry, names: tuple[Any, ...]) -> State:
        """A create is refused. What is left of the plan is left, apart from its progress; the next plan reports it."""
        attempts, is_due = state.rejected[:2] if state.rejected else (0, True)
        rejected = (min(attempts + is_due, MOST_ATTEMPTS), False, tuple(sorted(set(names))))
        return _left(state._replace(rejected=rejected), entry.steps)

    def _seen(self, state: State, entry: Entry, step: Step) -> tuple[int, tuple[Any, ...]]:
        """What a status was decided from, as far as it matters when it comes late."""
        if step[0] != STORE:
            return self._number(oracle.NONE), ()
        undated = tuple(tuple(pod) for pod in entry.pods if pod.attempt == oracle.ANY_ATTEMPT)
        return self._number(_true_facts(state, entry)), undated

    def _arrived(self, state: State) -> Move:
        """A write of an earlier life, of which nobody waits for the reply."""
        step, is_outdated, planned, facts, undated = state.late
        earlier = state._replace(late=(), planned=planned)
        entry = NOBODYS
        if step[0] == STORE:
            entry = NOBODYS._replace(facts=self._facts[facts], pods=tuple(map(PodState._make, undated)))
        after, broken = self._done(earlier, step, entry, is_outdated=is_outdated, is_heard=False)
        if step[0] in {MAKE_POD, DELETE_POD, DELETE_SERVICES}:
            broken = ()  # it was right when it was sent
        is_job = step[0] == STORE and not is_outdated
        after = after._replace(
            planned=state.planned, is_outdated=state.is_outdated or (is_job and state.plan != NOTHING)
        )
        return _move("a write of its earlier life arrives", after, broken)

    def _plan(self, state: State) -> int:
        seen = state.pods
        if state.lagging:
            old = PodState._make(state.lagging)
            seen = tuple(sorted((*(pod for pod in seen if PodState._make(pod).uid != old.uid), state.lagging)))
        if any(pod[-1] for pod in seen):
            seen = tuple(pod for pod in seen if not PodState._make(pod).is_hidden)
        spec, rejected = state.cached or state.spec, state.rejected[:2]
        return self.planner.plan(Seen(spec, state.status, seen, state.services, state.departed, rejected), state.pods)

    def _begun(self, state: State, number: int) -> State:
        # A status of an earlier life has arrived before another one leads, or never does.
        late = state.late if state.late and state.late[0][0] in {MAKE_POD, DELETE_POD} else ()
        planned = state.cached or state.spec
        state = state._replace(plan=number, at=0, planned=planned, is_outdated=bool(state.cached), late=late)
        if not self.planner.plans[number].resumes or state.cached:
            return state
        lagging = _old((state.lagging,))[0] if state.lagging else ()
        return state._replace(
            pods=_old(state.pods), departed=_old(state.departed), ended=_old(state.ended), lagging=lagging
        )

    def _done(
        self, state: State, step: Step, entry: Entry, *, is_outdated: bool, is_heard: bool = True
    ) -> tuple[State, tuple[str, ...]]:
        """What a write does, and the sentences that it breaks."""
        match step:
            case (str() as verb, int() as after, _) if verb == STORE:
                return self._stored(state, after, entry, is_outdated=is_outdated, is_heard=is_heard)
            case (str() as verb, *_) if verb == MAKE_POD:
                return self._created(state, step, is_late=entry is NOBODYS)
            case (str() as verb, kind, index, _) if verb == MAKE_SERVICE:
                services = tuple(sorted({*state.services, (kind, index)}))
                return state._replace(services=services), ()
            case (str() as verb, uid) if verb == DELETE_POD:
                return self._deleted(state, uid, entry)
            case (str() as verb, places) if verb == DELETE_SERVICES:
                left = tuple(service for service in state.services if service not in places)
                broken = (
                    () if state.is_outdated else tuple(service_oracle.on_delete_services(self._children(state), places))
                )
                return state._replace(services=left), broken
            case _:
                status = self.planner.told[state.status]
                return state._replace(is_deleted=True), tuple(oracle.on_expiry(self._job(state), status, NOW))

    def _stored(
        self, state: State, after: int, entry: Entry, *, is_outdated: bool, is_heard: bool
    ) -> tuple[State, tuple[str, ...]]:
        if is_outdated:
            return state, ()
        statuses, facts, departed = self.planner.told, _true_facts(state, entry), entry.departed
        broken: tuple[str, ...] = ()
        settled = self._facts[state.settled]
        if after != state.status:
            spec = self._job(state)
            happened = self._facts[state.happened] | facts
            write = oracle.Stored(spec, statuses[state.status], statuses[after], happened, settled, facts, NOW)
            broken = tuple(sentence for book in _ORACLES for sentence in book.on_status(write))
        late = (state.late[0], True, *state.late[2:]) if state.late else ()
        attempt = oracle.attempt_of(statuses[state.status])
        if attempt < oracle.attempt_of(statuses[after]):
            state = state._replace(pods=_of_attempt(state.pods, attempt, {pod.uid for pod in entry.pods}))
        if self.bound.nodes:
            state = state._replace(pods=_given_up(state.pods, node_oracle.given_up(statuses[after])))
        stored = state._replace(status=after, settled=self._number(settled | facts), late=late, is_outdated=False)
        if self.bound.is_timed:
            failed = {(fact.kind, fact.ordinal) for fact in facts - settled if fact.outcome == "failed"}
            stored = stored._replace(waits=tuple(sorted({*state.waits, *failed})))
        if is_heard:
            # The resume that this status notes makes pods old that were not when they were planned for.
            known = {pod[:_HOW_OLD] for pod in departed}
            stored = stored._replace(departed=tuple(pod for pod in stored.departed if pod[:_HOW_OLD] not in known))
        if attempt < oracle.attempt_of(statuses[after]):
            uids = {pod.uid for pod in entry.pods}
            departed, ended = (_of_attempt(each, attempt, uids) for each in (stored.departed, stored.ended))
            stored = stored._replace(departed=departed, ended=ended)
        return stored, broken

    def _created(self, state: State, step: Step, *, is_late: bool) -> tuple[State, tuple[str, ...]]:
        _, kind, index, name, avoids, memory, is_host = step
        state = self._caught_up(state)
        if any(pod[3] == name for pod in state.pods):
            return state, ()  # it is ours, and there already
        children = self._children(state)
        broken = (
            *oracle.on_create(children, (kind, index)),
            *node_oracle.on_create(children, avoids),
            *service_oracle.on_create(children, (kind, index), is_host=is_host),
        )
        births = dict(state.births)
        births[kind, index] = birth = births.get((kind, index), 0) + 1
        policy = self.planner.spec(state.spec).policy(kind)
        policy = policy if policy in oracle.IN_PLACE else "Never"
        # A pod that comes late may be new to whoever begins the next attempt at this moment.
        attempt = oracle.ANY_ATTEMPT if is_late else oracle.attempt_of(self.planner.told[state.status])
        pod = PodState(kind, index, birth, name, policy, attempt, memory=memory, is_host=is_host)
        if self.bound.nodes:
            pod = pod._replace(node="", avoids=avoids, how=UNPLACED)
        created = _without_late(state, name)._replace(
            pods=tuple(sorted((*state.pods, tuple(pod)))), births=tuple(sorted(births.items()))
        )
        return self._noted(created, "created", pod), broken

    def _deleted(self, state: State, uid: str, entry: Entry) -> tuple[State, tuple[str, ...]]:
        state = self._caught_up(state)
        pod = next((pod for pod in map(PodState._make, state.pods) if pod.uid == uid), None)
        if pod is None:
            return state, ()
        planned_pod = next((other for other in entry.pods if other.uid == uid), None)
        if planned_pod and state.planned == state.spec:
            planned_pod = planned_pod._replace(is_old=pod.is_old)
        if planned_pod and pod.attempt == node_oracle.GIVEN_UP:
            planned_pod = planned_pod._replace(attempt=pod.attempt)
        broken: tuple[str, ...] = ()
        if planned_pod and not state.is_outdated:
            broken = tuple(oracle.on_delete(self._children(state), pods.look(planned_pod)))
        if pod.is_terminating:
            return state, broken
        return self._after(state, Event("", pod, pod.deleted(OURS))), broken

    def _children(self, state: State) -> oracle.Children:
        return oracle.Children(
            self._job(state),
            {} if state.is_outdated else self.planner.told[state.status],
            self._facts[state.settled],
            tuple(pods.look(PodState._make(pod)) for pod in state.pods),
            frozenset((*state.services, *(self.planner.plans[state.plan].services if state.plan != NOTHING else ()))),
            frozenset(state.waits),
        )

    # --- The cluster

    def _cluster(self, state: State) -> Iterator[Move]:
        """What happens to pods, and whether the caches show it.

        While a plan is carried out, what happens to a pod that no step of it touches is not seen: it happens after the
        plan, which comes to the same. What is noted at once is lost with a life, so that may happen in between.
        """
        for leftover in state.leftovers:
            yield _move(f"{leftover[1].lower()}-{leftover[2]} of the old job is gone", _freed(state, leftover))
        untouched = self._untouched(state)
        for pod in map(PodState._make, state.pods):
            for event in cluster.events(pod, self.bound.may, self.bound.nodes):
                left = state.faults - event.is_fault
                if left >= 0 and (pod.uid not in untouched or (event.is_noted and left and self._ends_lives)):
                    yield from self._event(state._replace(faults=left), event, may_lag=pod.uid not in untouched)
        if state.faults and "loses a node" in self.bound.may and len(state.pods) > 1 and not untouched:
            yield self._lost_node(state)

    def _event(self, state: State, event: Event, *, may_lag: bool) -> Iterator[Move]:
        yield _move(event.name, self._after(state, event), is_fair=event.is_fair)
        if may_lag and state.faults and "lags" in self.bound.may and not event.old.is_hidden:
            lagging = self._after(state._replace(faults=state.faults - 1), event, is_shown=False)
            yield _move(f"{event.name}, which the cache does not show", lagging, is_fair=False)

    def _lost_node(self, state: State) -> Move:
        after = state._replace(faults=state.faults - 1)
        for pod in map(PodState._make, state.pods):
            if not pod.is_terminating and (drained := cluster.drained(pod)):
                after = self._after(after, Event("", pod, drained))
        return _move("the node of all pods is lost", after, is_fair=False)

    def _untouched(self, state: State) -> frozenset[str]:
        if state.plan == NOTHING or state.late:
            return frozenset()
        left = self.planner.plans[state.plan].steps[state.at :]
        touched = {step[1] for step in left if step[0] == DELETE_POD}
        return frozenset(uid for pod in state.pods if (uid := PodState._make(pod).uid) not in touched)

    def _after(self, state: State, event: Event, *, is_shown: bool = True) -> State:
        """The state after an event; the caches show those before it, and this one, too, if it ``is_shown``."""
        state, old, new = self._caught_up(state), event.old, event.new
        others = [pod for pod in state.pods if pod != old]
        state = state._replace(pods=tuple(sorted([*others, tuple(new)] if new else others)))
        state = self._observed(state, event) if is_shown else state._replace(lagging=tuple(old))
        state = state if new else _without_late(state, old.name)
        return self._happened(state, new or old, is_gone=new is None)

    def _caught_up(self, state: State) -> State:
        if not state.lagging:
            return state
        old = PodState._make(state.lagging)
        new = next((pod for pod in map(PodState._make, state.pods) if pod.uid == old.uid), None)
        return self._observed(state._replace(lagging=()), Event("", old, new))

    def _observed(self, state: State, event: Event) -> State:
        """What the operator notes of an event that it sees."""
        old, new = event.old, event.new
        if old.is_hidden:
            return self._noted(state, "created", new) if new and not new.is_hidden else state
        if new is None or new.is_hidden:
            return self._noted(state, "deleted", old)
        return self._noted(state, "terminating", old) if event.begins_to_leave else state

    def _noted(self, state: State, event: str, pod: PodState) -> State:
        notes = Notes(tuple(map(PodState._make, state.departed)), tuple(map(PodState._make, state.ended)))
        after = pods.noted(notes, event, pod, self.bound.api)
        return state._replace(departed=tuple(map(tuple, after.departed)), ended=tuple(map(tuple, after.ended)))

    def _happened(self, state: State, pod: PodState, *, is_gone: bool = False) -> State:
        """What has become possible by what happened to a pod. After the end nothing counts any more."""
        is_surplus = self.planner.spec(state.spec).is_dynamic
        if (pod.leaving == OURS and not is_surplus) or oracle.end_of(self.planner.told[state.status]):
            return state
        happened = self._facts[state.happened]
        new = frozenset(oracle.possible(self.planner.spec(state.spec), pods.look(pod, is_gone=is_gone)))
        return state if new <= happened else state._replace(happened=self._number(happened | new))

    # --- People

    def _people(self, state: State) -> Iterator[Move]:
        if self.bound.decided and self.planner.told[state.status].get("observedGeneration") != state.spec[3]:
            return  # an edit that is taken back before the operator sees it overrules nothing
        for name in self.bound.people:
            if name == AGAIN:
                yield from self._made_again(state)
                continue
            spec = EDITS[name](state.spec)
            if spec[:-1] != state.spec[:-1]:
                after = self._edited(state, spec)
                yield _move(f"somebody {name}", after, is_fair=False)
                if state.faults and "lags" in self.bound.may:
                    lagging = after._replace(cached=state.cached or state.spec, faults=state.faults - 1)
                    yield _move(f"somebody {name}, which the cache does not show", lagging, is_fair=False)

    def _edited(self, state: State, spec: Spec) -> State:
        late = (state.late[0], True, *state.late[2:]) if state.late else ()
        old_job, new_job = self.planner.spec(state.spec), self.planner.spec(spec)
        settled = self._number(oracle.after_edit(old_job, new_job, self._facts[state.settled]))
        outdated, edits = state.plan != NOTHING, state.edits - 1
        return state._replace(settled=settled, spec=spec, edits=edits, is_outdated=outdated, late=late, cached=())

    def _made_again(self, state: State) -> Iterator[Move]:
        """The job is deleted, and another one made of its name. What the old one has left is collected."""
        leftovers = {(MAKE_POD, pod[0], pod[1]) for pod in state.pods} | {(MAKE_SERVICE, *at) for at in state.services}
        leftovers |= set(state.leftovers)
        fresh = State(self.bound.start(), births=state.births, faults=state.faults, edits=state.edits - 1)
        yield _move(f"somebody {AGAIN}", fresh._replace(leftovers=tuple(sorted(leftovers))), is_fair=False)
        if state.plan == NOTHING:
            return
        step = self.planner.plans[state.plan].steps[state.at]
        if step[0] in {MAKE_POD, MAKE_SERVICE} and step[:3] not in leftovers:
            with_late = fresh._replace(leftovers=tuple(sorted({*leftovers, step[:3]})))
            yield _move(f"somebody {AGAIN} while the operator {worded(step)}", with_late, is_fair=False)

    def _job(self, state: State) -> oracle.Job:
        """As it is in what the operator has decided on."""
        return self.planner.spec(state.planned or state.spec)

    def _number(self, facts: Facts) -> int:
        number = self._fact_numbers.get(facts)
        if number is None:
            number = self._fact_numbers[facts] = len(self._facts)
            self._facts.append(facts)
        return number


_ORACLES = (oracle, whole_job_oracle, node_oracle, memory_oracle)
_HOW_OLD = PodState._fields.index("is_old")


def _of_attempt(states: Iterable[Any], attempt: int, uids: Container[str]) -> tuple[Any, ...]:
    """The pods, of which those with these UIDs are of this run at the latest."""
    pods_ = map(PodState._make, states)
    return tuple(
        sorted(tuple(pod._replace(attempt=pod.attempt or attempt) if pod.uid in uids else pod) for pod in pods_)
    )


def _given_up(states: Iterable[Any], uids: Container[str]) -> tuple[Any, ...]:
    pods_ = map(PodState._make, states)
    return tuple(sorted(tuple(pod._replace(attempt=node_oracle.GIVEN_UP) if pod.uid in uids else pod) for pod in pods_))


def _without_late(state: State, name: str) -> State:
    """A create that is late comes before the pod of its name is gone again: it meets that pod, and does nothing."""
    is_late = state.late and state.late[0][0] == MAKE_POD and state.late[0][3] == name
    return state._replace(late=()) if is_late else state


def _true_facts(state: State, entry: Entry) -> Facts:
    """What nobody could miss: no pod is lost that has lost only its label."""
    hidden = {pod[:3] for pod in state.pods if pod[-1]}
    return frozenset(fact for fact in entry.facts if fact[1:4] not in hidden) if hidden else entry.facts


def _taken(state: State, step: Step) -> tuple[Any, ...]:
    """Whose name is taken, if that of a child is: by another job, or by a pod that is not watched."""
    if step[0] not in {MAKE_POD, MAKE_SERVICE}:
        return ()
    if step[:3] in state.leftovers:
        return tuple(step[:3])
    is_hidden = step[0] == MAKE_POD and any(pod[3] == step[3] and pod[-1] for pod in state.pods)
    return tuple(step[:3]) if is_hidden else ()


def _freed(state: State, leftover: tuple[Any, ...]) -> State:
    """Something of the old job is gone; who waits for its name need wait no longer."""
    rejected = state.rejected
    if rejected and leftover in rejected[2]:
        rejected = (rejected[0], True, tuple(name for name in rejected[2] if name != leftover))
    return state._replace(leftovers=tuple(other for other in state.leftovers if other != leftover), rejected=rejected)


def _advanced(state: State, entry: Entry) -> State:
    at = state.at + 1
    if state.rejected and at >= entry.acts_until and state.rejected[1]:
        state = state._replace(rejected=())  # everything was carried out
    return state._replace(at=at) if at < len(entry.steps) else _dropped(state)


def _failed(state: State, steps: tuple[Step, ...]) -> State:
    return _left(state._replace(faults=state.faults - 1), steps)


def _left(state: State, steps: tuple[Step, ...]) -> State:
    """The rest of the plan is left, apart from progress."""
    last = len(steps) - 1
    if state.at < last and steps[last][0] == STORE and steps[last][2]:
        return state._replace(at=last)
    return _dropped(state)


def _old(states: Iterable[Any]) -> tuple[Any, ...]:
    """The pods, which are of an earlier run by now."""
    return tuple(tuple(PodState._make(pod)._replace(is_old=True)) for pod in states)


def _dropped(state: State) -> State:
    return state._replace(plan=NOTHING, at=0, planned=(), is_outdated=False)


def worded(step: Step) -> str:
    verb = step[0]
    if verb in {MAKE_POD, MAKE_SERVICE}:
        return f"{verb} {step[1].lower()}-{step[2]}"
    return f"{verb} {step[1]}" if verb == DELETE_POD else str(verb)


def _move(name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), broken, is_fair)
