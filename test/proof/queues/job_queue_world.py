"""Jobs in the job queue of a small cluster: everything that may happen next.

What the operator decides is real (``job_queue_operator``). What becomes of pods, nodes and time is here, and when the
operator is killed, which reply is lost, what its caches do not show yet, and what people change.

Pods of a job are placed, and are gone, all at once: of what lies between, ``proof.world`` has all states of one job.
"""

from collections.abc import Iterator
from typing import Any

from proof.engine import Move
from proof.engine import State as Packed
from proof.queues import job_queue_oracle as oracle
from proof.queues.job_queue_bounds import CREATE, DELETE, EDITS, QueueBound, Spec
from proof.queues.job_queue_objects import CORDONED, GONE, NOW, READY, JobState, PodState
from proof.queues.job_queue_operator import FAR, GUARDED, Decisions, Memory, Picture, QueueOperator, Reconcile
from proof.queues.job_queue_state import ALL_PLACED, State, placements, room_of
from support.jobs.builders import merge

ALL_PODS = -1
"""Of what the caches lack."""


class JobQueueWorld:
    """The world of one bound."""

    def __init__(self, bound: QueueBound) -> None:
        self.bound = bound
        self.operator = QueueOperator(bound)

    def start(self) -> Packed:
        jobs = tuple(self._fresh(job, 0) if queued.is_there else () for job, queued in enumerate(self.bound.jobs))
        nodes = (READY,) * len(self.bound.slots)
        return tuple(State(jobs, nodes, (ALL_PLACED,) * len(jobs), faults=self.bound.faults, edits=self.bound.edits))

    def waiting(self, packed: Packed) -> list[str]:
        """Who must not wait for ever."""
        state = State._make(packed)
        return oracle.still_waiting(self._cluster_of(state), self.bound.hopes)

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which nobody has anything to do at this moment."""
        state = State._make(packed)
        if not self._is_at_rest(state):
            return
        yield from oracle.on_rest(self._cluster_of(state))

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        is_busy = False
        for move in self._operator(state):
            is_busy = is_busy or move.is_fair
            yield move
        if state.faults:
            yield from self._ends_of_life(state)
        yield from self._pods_and_ends(state)
        yield from self._nodes(state)
        if state.edits:
            yield from self._people(state)
        if not is_busy and not state.late:
            yield from self._time(state)

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if state.late:
            yield self._arrived(state)
        if state.lag:
            yield _move("the cache catches up", state._replace(lag=(), has_changed=True))
        if state.flight:
            yield from self._write(state)
        elif state.has_changed or state.wake == 0:
            yield from self._plan(state)
        yield from self._reconciles(state)

    def _reconciles(self, state: State) -> Iterator[Move]:
        """That of the first job that has anything to do: those of others change nothing about it."""
        for job, value in enumerate(state.jobs):
            if value and (moves := list(self._reconcile(state, job))):
                yield from moves
                return

    def _plan(self, state: State) -> Iterator[Move]:
        entry = self._decisions(state)
        if entry is None:
            return
        jobs = self._picture(state).jobs
        flight = tuple((job, jobs[job], after, patch) for job, after, patch in entry.statuses)
        planned = state._replace(
            flight=flight, has_changed=entry.has_changed, wake=entry.wake, unplaced_for=entry.unplaced_for
        )
        decided = [(job, self.operator.statuses[after]) for job, after, _ in entry.statuses]
        is_fresh = not state.lag or bool(state.lag[2])
        breaks = list(oracle.on_plan(self._cluster_of(planned), decided, is_fresh=is_fresh))
        if entry.panics:
            breaks.append("planning panics")
        # With an old picture it may plan again and again; it does not go on for ever, for the cache catches up.
        yield _move("the queue plans", planned, tuple(breaks), is_fair=is_fresh)

    def _write(self, state: State) -> Iterator[Move]:
        job, decided_on, after, patch = state.flight[0]
        name, left = f"the queue writes its decision about {self._name(job)}", state._replace(flight=state.flight[1:])
        if not self._holds(state, job, decided_on, patch):
            yield _move(f"{name}, and meets a conflict", left._replace(has_changed=True))
            return
        written, breaks = self._decided(left, job, decided_on, after, patch)
        yield _move(name, written, breaks)
        if not state.faults:
            return
        may, faulty = self.bound.may, written._replace(faults=state.faults - 1)
        if "loses a reply" in may:
            yield _move(f"{name}, and the reply is lost", faulty._replace(has_changed=True), breaks, is_fair=False)
        if "lags" in may and not state.lag:
            lagging = faulty._replace(lag=(job, decided_on, True))
            yield _move(f"{name}, which the cache does not show", lagging, breaks, is_fair=False)
        if "is refused" in may:
            refused = left._replace(has_changed=True, faults=state.faults - 1)
            yield _move(f"the server fails when {name}", refused, is_fair=False)
        if "is late" in may:
            late = self._fresh_life(state)._replace(late=state.flight[0])
            yield _move(f"the operator is killed while {name}", late, is_fair=False)

    def _holds(self, state: State, job: int, decided_on: tuple[Any, ...], patch: int) -> bool:
        """Whether the server takes a decision: the job is as it was, or is only there if nobody asks for more."""
        return bool(state.jobs[job] if patch != GUARDED else state.jobs[job] == decided_on)

    def _decided(
        self, state: State, job: int, decided_on: tuple[Any, ...], after: int, patch: int
    ) -> tuple[State, tuple[str, ...]]:
        value = JobState._make(state.jobs[job])
        statuses = self.operator.statuses
        if patch != GUARDED:
            after = self.operator.status_number(merge(statuses[value.status], self.operator.patches[patch]))
        breaks = tuple(oracle.on_decision(statuses[decided_on[2]], statuses[value.status], statuses[after]))
        return self._with_job(state, job, value._replace(status=after)), breaks

    def _arrived(self, state: State) -> Move:
        job, decided_on, after, patch = state.late
        left, name = state._replace(late=()), "a decision of its earlier life arrives"
        if not self._holds(state, job, decided_on, patch):
            return _move(f"{name}, and meets a conflict", left)
        written, breaks = self._decided(left, job, decided_on, after, patch)
        return _move(name, written, breaks)

    def _ends_of_life(self, state: State) -> Iterator[Move]:
        remembers = state.flight or state.lag or any(age != ALL_PLACED for age in state.unplaced_for)
        if "is killed" in self.bound.may and remembers:
            yield _move("the operator is killed", self._fresh_life(state), is_fair=False)

    def _fresh_life(self, state: State) -> State:
        return state._replace(
            flight=(),
            lag=(),
            has_changed=True,
            wake=FAR,
            unplaced_for=(ALL_PLACED,) * len(state.jobs),
            faults=state.faults - 1,
        )

    def _reconcile(self, state: State, job: int) -> Iterator[Move]:
        picture = self._picture(state)
        if not picture.jobs[job]:
            return
        view = JobState._make(picture.jobs[job])
        entry = self.operator.reconcile(job, picture)
        name = f"the operator reconciles {self._name(job)}"
        if state.jobs[job] != picture.jobs[job]:
            return  # its status is refused, or it is gone: it reconciles again when the cache shows what there is
        breaks = list(self._breaks_of(state, job, view, entry))
        after = self._with_job(state, job, view._replace(status=entry.status))
        after = self._with_pods(after, self._acted(state, job, view, entry))
        if after != state:
            yield _move(name, after, tuple(breaks))

    def _breaks_of(self, state: State, job: int, view: JobState, entry: Reconcile) -> Iterator[str]:
        spec, statuses = Spec._make(view.spec), self.operator.statuses
        wish, old, new = self._wish(job, view), statuses[view.status], statuses[entry.status]
        if entry.status != view.status:
            yield from oracle.on_status(
                wish,
                old,
                new,
                may_lose_pods=state.has_lost,
            )
        for ordinal in entry.creates:
            yield from oracle.on_create(wish, old, ordinal)
        for ordinal, birth in entry.deletes:
            pod = next(
                (pod for pod in map(PodState._make, state.pods) if pod[:4] == (job, view.life, ordinal, birth)), None
            )
            if pod and pod.slots == spec.slots:
                yield from oracle.on_delete(wish, new, ordinal)

    def _acted(self, state: State, job: int, view: JobState, entry: Reconcile) -> tuple[Any, ...]:
        pods, slots = [PodState._make(pod) for pod in state.pods], Spec._make(view.spec).slots
        gone = {(job, view.life, ordinal, birth) for ordinal, birth in entry.deletes}
        left = [pod._replace(is_leaving=True) if pod[:4] in gone else pod for pod in pods]
        left = [pod for pod in left if not (pod.is_leaving and pod.node < 0)]
        names = {(pod.job, pod.ordinal) for pod in left}
        for ordinal in entry.creates:
            if (job, ordinal) not in names:  # else its name is taken by a pod that is still there
                taken = {pod.birth for pod in left if (pod.job, pod.ordinal) == (job, ordinal)}
                birth = self.operator.free_birth(job, entry.status, ordinal, taken)
                left.append(PodState(job, view.life, ordinal, birth, slots))
        return tuple(sorted(map(tuple, left)))

    # --- Pods, and how jobs end

    def _pods_and_ends(self, state: State) -> Iterator[Move]:
        for job in range(len(state.jobs)):
            pods = [pod for pod in map(PodState._make, state.pods) if pod.job == job]
            if any(pod.is_leaving for pod in pods):
                left = tuple(pod for pod in state.pods if not (pod[0] == job and PodState._make(pod).is_leaving))
                yield _move(f"pods of {self._name(job)} are gone", self._with_pods(state, left))
            for name, placed in placements(state, self.bound, job):
                yield _move(name, self._with_pods(state, placed))
                if state.faults and "lags" in self.bound.may and not state.lag:
                    lagging = self._with_pods(state, placed)._replace(
                        lag=(ALL_PODS, state.pods, False), has_changed=state.has_changed, faults=state.faults - 1
                    )
                    yield _move(f"{name}, which the cache does not show", lagging, is_fair=False)
            if state.jobs[job]:
                yield from self._end(state, job, JobState._make(state.jobs[job]), pods)
            elif self.bound.jobs[job].recurs and not pods:
                yield _move(
                    f"another {self._name(job)} comes",
                    self._with_job(state, job, self._fresh(job, 1)),
                    is_fair=False,
                    is_recurring=True,
                )

    def _end(self, state: State, job: int, value: JobState, pods: list[PodState]) -> Iterator[Move]:
        """All workers run, and the job comes to its end: its pods hold nothing any more."""
        status = self.operator.statuses[value.status]
        wish = self._wish(job, value)
        workers = oracle.in_force(wish, status)
        running = {pod.ordinal for pod in pods if pod.node >= 0 and not pod.is_leaving and pod.life == value.life}
        if not self.bound.jobs[job].ends or not oracle.is_admitted(status) or oracle.is_queued(status):
            return
        if wish.is_suspended or not workers or running != set(range(workers)):
            return
        left = tuple(pod for pod in state.pods if pod[0] != job)
        yield _move(f"{self._name(job)} ends", self._with_pods(self._with_job(state, job, None), left))

    # --- Nodes and people

    def _nodes(self, state: State) -> Iterator[Move]:
        for node, condition in enumerate(state.nodes):
            if condition == READY and state.faults and "loses a node" in self.bound.may:
                left = tuple(pod for pod in state.pods if PodState._make(pod).node != node)
                lost = self._with_pods(state, left)._replace(has_lost=state.has_lost or left != state.pods)
                yield _move(f"node {node} is lost", self._with_node(lost, node, GONE), is_fair=False)
                yield _move(f"node {node} is cordoned", self._with_node(state, node, CORDONED), is_fair=False)
            elif condition != READY:
                back = self._with_node(state, node, READY)._replace(faults=state.faults)
                yield _move(f"node {node} is back", back, is_fair=False)

    def _with_node(self, state: State, node: int, condition: int) -> State:
        nodes = (*state.nodes[:node], condition, *state.nodes[node + 1 :])
        return state._replace(nodes=nodes, has_changed=True, faults=state.faults - 1)

    def _people(self, state: State) -> Iterator[Move]:
        edited = state._replace(edits=state.edits - 1)
        for job, edit in self.bound.people:
            name, value = f"somebody {edit} {self._name(job)}", state.jobs[job]
            if edit == CREATE:
                if not value:
                    life = 1 - min((pod[1] for pod in state.pods if pod[0] == job), default=1)
                    yield _move(name, self._with_job(edited, job, self._fresh(job, life)), is_fair=False)
                continue
            if not value:
                continue
            if edit == DELETE:
                pods = tuple(
                    tuple(pod._replace(is_leaving=True)) if pod.job == job else tuple(pod)
                    for pod in map(PodState._make, state.pods)
                    if pod.job != job or pod.node >= 0
                )
                gone = self._with_pods(self._with_job(edited, job, None), tuple(sorted(pods)))
                yield _move(name, gone, is_fair=False)
                continue
            spec = Spec._make(value[1])
            after = EDITS[edit](spec)
            if after != spec:
                changed = JobState._make(value)._replace(spec=tuple(after._replace(generation=spec.generation + 1)))
                yield _move(name, self._with_job(edited, job, changed), is_fair=False)
                if state.faults and "lags" in self.bound.may and not state.lag:
                    lagging = self._with_job(edited, job, changed)._replace(
                        lag=(job, value, False), has_changed=state.has_changed, faults=state.faults - 1
                    )
                    yield _move(f"{name}, which the cache does not show", lagging, is_fair=False)

    # --- Time

    def _time(self, state: State) -> Iterator[Move]:
        """Until something is as long ago as a rule waits for, or the queue wants to plan again.

        Operators, schedulers and kubelets are quicker than that; but pods may take their time to go.
        """
        if any(True for job in range(len(state.jobs)) for _ in placements(state, self.bound, job)):
            return
        lefts = [state.wake] if state.wake > 0 else []
        for value in filter(None, state.jobs):
            lefts += self.operator.next_waits(JobState._make(value).status)
        ages = [age for age in state.unplaced_for if 0 <= age < oracle.KEEPS_ROOM_FOR]
        lefts += [oracle.KEEPS_ROOM_FOR - age for age in ages]
        if not lefts:
            return
        seconds = min(lefts)
        jobs = tuple(
            tuple(JobState._make(value)._replace(status=self.operator.waited(value[2], seconds))) if value else ()
            for value in state.jobs
        )
        unplaced_for = tuple(
            min(age + seconds, oracle.KEEPS_ROOM_FOR) if age >= 0 else age for age in state.unplaced_for
        )
        wake = max(state.wake - seconds, 0) if state.wake > 0 else state.wake
        after = state._replace(jobs=jobs, unplaced_for=unplaced_for, wake=wake)
        if after != state:
            yield Move(f"{seconds} seconds pass", tuple(after), is_time=True)

    # --- What a state is to others

    def _picture(self, state: State) -> Picture:
        jobs, pods = state.jobs, state.pods
        if state.lag and state.lag[0] >= 0:
            jobs = (*jobs[: state.lag[0]], state.lag[1], *jobs[state.lag[0] + 1 :])
        elif state.lag:
            pods = state.lag[1]
        return Picture(jobs, pods, state.nodes)

    def _decisions(self, state: State) -> Decisions | None:
        unseen = state.lag[0] if state.lag and state.lag[2] else -1
        return self.operator.plan(self._picture(state), Memory(state.unplaced_for, unseen))

    def _is_at_rest(self, state: State) -> bool:
        if state.flight or state.late or state.lag or state.has_changed or state.wake == 0:
            return False
        if any(PodState._make(pod).is_leaving for pod in state.pods):
            return False
        if any(True for job in range(len(state.jobs)) for _ in placements(state, self.bound, job)):
            return False
        return not any(True for _ in self._reconciles(state))

    def _cluster_of(self, state: State) -> oracle.Cluster:
        values = [JobState._make(value) if value else None for value in state.jobs]
        return oracle.Cluster(
            tuple(self._wish(job, value) if value else None for job, value in enumerate(values)),
            tuple(self.operator.statuses[value.status] if value else {} for value in values),
            tuple(
                oracle.Place(
                    pod.job if self._is_owned(state, pod) else -1, pod.ordinal, pod.node, pod.slots, pod.is_leaving
                )
                for pod in map(PodState._make, state.pods)
            ),
            tuple(room_of(state, self.bound)),
            tuple(
                slots if condition != GONE else 0
                for slots, condition in zip(self.bound.slots, state.nodes, strict=True)
            ),
            state.unplaced_for,
            self.bound.reserves,
            NOW,
        )

    def _is_owned(self, state: State, pod: PodState) -> bool:
        return bool(state.jobs[pod.job]) and state.jobs[pod.job][0] == pod.life

    def _wish(self, job: int, value: JobState) -> oracle.Wish:
        age = job + (100 if value.life else 0)
        wish = self.bound.jobs[job].wish(Spec._make(value.spec), age)
        return wish._replace(is_outgrown=self.operator.is_outgrown(job, value))

    def _fresh(self, job: int, life: int) -> tuple[Any, ...]:
        return tuple(JobState(life, tuple(self.bound.jobs[job].start()), 0))

    def _with_job(self, state: State, job: int, value: Any) -> State:  # noqa: ANN401
        """The state with another job; who watches jobs for the queue hears of it."""
        old, new = state.jobs[job], tuple(value) if value else ()
        if old == new:
            return state
        jobs = (*state.jobs[:job], new, *state.jobs[job + 1 :])
        return state._replace(jobs=jobs, has_changed=state.has_changed or self.operator.is_news(job, old, new))

    def _with_pods(self, state: State, pods: tuple[Any, ...]) -> State:
        """The state with other pods; the queue hears of those that are on a node. The caches show what was before."""
        if pods != state.pods and state.lag and state.lag[0] == ALL_PODS:
            state = state._replace(lag=(), has_changed=True)
        one, two = (sorted(pod[:6] for pod in entries if pod[5] >= 0) for entries in (state.pods, pods))
        return state._replace(pods=pods, has_changed=state.has_changed or one != two)

    def _name(self, job: int) -> str:
        return self.bound.jobs[job].name


def _move(
    name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = True, is_recurring: bool = False
) -> Move:
    return Move(name, tuple(state), broken, is_fair, is_recurring)
