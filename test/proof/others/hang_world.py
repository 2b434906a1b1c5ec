"""A chief that reports its progress, a worker, and a deadline of a minute: the plan and the status are real.

The intake, which does what ``ProgressReports`` does, the pods and time are a model. The sentences are those of
docs/how-to/progress.md.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from proof.engine import Move
from proof.engine import State as Packed
from support.jobs.builders import merge, tfjob
from support.resources import Json
from tf_operator.controller.writing.steps import Act, StoreStatus, steps
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.progress import Progress
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy
from tf_operator.meta import parse_time, rfc3339
from tf_operator.planning.actions import Create, Delete, Plan
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import (
    Hearing,
    MainContainer,
    Pod,
    ReportedProgress,
    Service,
    Settings,
    Snapshot,
)

NOW: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
DEADLINE, TICK, LONGEST = 60, 30, 90
"""Seconds; of what lasts longer it does not matter how much."""
NOTHING: Final = -1
KINDS: Final = (ReplicaType.CHIEF, ReplicaType.WORKER)
SETTINGS: Final = Settings(
    restart_delay=timedelta(0),
    report_pending_after=timedelta(hours=1),
    progress=ProgressServer("https://operator", authority="a certificate"),
)
_CLOCK: Final = "progressClock"


class PodState(NamedTuple):
    """The pod of a replica, if there is one."""

    birth: int = 0
    phase: str = ""
    """Empty without a pod."""
    restarts: int = 0

    def uid(self, kind: ReplicaType) -> str:
        return f"{kind.label}-{self.birth}"


class State(NamedTuple):
    """Everything that what happens next depends on."""

    faults: int
    status: str = "{}"
    pods: tuple[Any, ...] = ((), ())
    left: tuple[Any, ...] = ()
    """Writes of the plan in flight that are still to be done."""
    listens: int = LONGEST
    """For how many seconds this operator could have heard something."""
    moved: int = NOTHING
    """How many seconds ago it heard of progress."""
    latest: int = NOTHING
    """The step that it heard last; the same is a heartbeat."""
    others_are_silent: bool = False
    step: int = 0
    silence: int = 0
    """For how long all replicas have been running, and an operator listening, without any progress."""
    has_reported: bool = False
    """Whether an operator knows that the program has reported since its start."""
    hung_at: int = NOTHING
    """At which step it was last restarted because of it."""


class Next(NamedTuple):
    """What the operator does next, and in how many seconds it looks again."""

    writes: tuple[Any, ...]
    wait: float


@dataclass(frozen=True, slots=True)
class HangBound:
    """What is done about a hang, and how much happens that is none."""

    name: str
    action: str
    faults: int = 2
    steps: int = 1


BOUNDS: Final = tuple(HangBound(action, action) for action in ("Report", "Restart", "Fail"))
FEW: Final = tuple(replace(bound, faults=1) for bound in BOUNDS)
SIZES: Final = {"quick": FEW[::2], "gate": FEW, "night": tuple(replace(bound, steps=2) for bound in BOUNDS)}


class HangWorld:
    """The world of one bound."""

    def __init__(self, bound: HangBound) -> None:
        self.bound = bound
        job = tfjob("job").chief(restart="OnFailure").workers(1, restart="OnFailure")
        metadata = {"namespace": "team", "uid": "u", "resourceVersion": "1", "generation": 1}
        self._body = merge(job.progress_deadline(DEADLINE, bound.action).body(), {"metadata": metadata})
        self._next = cache(self._make_next)

    def start(self) -> Packed:
        return tuple(State(self.bound.faults))

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which the operator has nothing to do before time passes."""
        state = State._make(packed)
        status: Json = json.loads(state.status)
        if state.left or self._todo(state) or _has_ended(status) or not (_all_run(state) and state.has_reported):
            return
        if state.silence >= DEADLINE:
            if not status.get("hung"):
                yield "the program hangs, and nobody says so"
            elif self.bound.action != "Report" and not _is_doubtful(state):
                yield "the program hangs, and nothing is done about it"
        elif self._next(_seen(state)).wait > DEADLINE - state.silence:
            yield "nobody will look whether the program hangs"

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        if _has_ended(json.loads(state.status)):
            return
        yield from self._operator(state)
        if not (state.left or self._todo(state)):
            yield from self._program(state)
            yield _move(f"{TICK} seconds pass", _later(state), is_time=True)
        for number, kind in enumerate(KINDS):
            if _pod(state, number).phase == "Pending":
                runs = _with_pod(state, number, _pod(state, number)._replace(phase="Running"))
                yield _move(f"the image of the {kind.label} is pulled", _disturbed(runs, number))
        if state.faults:
            yield from self._faults(state._replace(faults=state.faults - 1))

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        writes = state.left or self._todo(state)
        if not writes:
            return
        (verb, what), left = writes[0], writes[1:]
        after = state._replace(left=left)
        if verb == "store":
            stored = self._stored(after, what, left)
            yield _move("the operator stores the status", stored, self._broken(state, what, left), is_fair=True)
        elif verb == "delete":
            number = next(place for place, kind in enumerate(KINDS) if _pod(state, place).uid(kind) == what)
            gone = _disturbed(_with_pod(after, number, None), number)
            yield _move(f"the operator deletes {what}", gone, is_fair=True)
        else:
            number = [kind.label for kind in KINDS].index(what)
            born = PodState(1 + _births(state, number), "Pending")
            yield _move(f"the operator creates the {what}", _with_pod(after, number, born), is_fair=True)

    def _stored(self, state: State, status: str, left: tuple[Any, ...]) -> State:
        """What the status says is known to each operator from now on."""
        content: Json = json.loads(status)
        knows = state._replace(status=status)
        if _restarts_chief(state, left) and not _has_ended(content):
            return knows._replace(hung_at=state.step)
        return knows

    def _broken(self, state: State, status: str, left: tuple[Any, ...]) -> tuple[str, ...]:
        """The sentences that this status, and what follows from it, break."""
        before, after = json.loads(state.status), json.loads(status)
        is_told = bool(after.get("hung")) and not before.get("hung")
        acts = _restarts_chief(state, left) or _has_ended(after)
        broken = []
        if (is_told or acts) and state.silence < DEADLINE:
            broken.append("a program is said to hang that has made progress, waits, or was not heard for so long")
        if acts and _is_doubtful(state):
            broken.append("something is done about a program although its reports may be lost")
        if acts and self.bound.action == "Report":
            broken.append("something is done although it was only to be reported")
        if self.bound.action == "Restart" and acts and _has_ended(after) is not (state.hung_at == state.step):
            broken.append("a job fails where it has not hung before, or is restarted where it has")
        return tuple(broken)

    def _todo(self, state: State) -> tuple[Any, ...]:
        """The writes of the plan that would be made now."""
        return self._next(_seen(state)).writes

    def _make_next(self, seen: tuple[Any, ...]) -> Next:
        plan, status = self._plan(*seen), seen[0]
        writes: list[tuple[str, Any]] = []
        patch = API.status_patch(plan.report)
        for step in steps(plan):
            if isinstance(step, StoreStatus) and patch:
                writes.append(("store", _settled(merge(json.loads(status), patch))))
            elif isinstance(step, Act):
                for action in (action for _, actions in step.stages for action in actions):
                    if isinstance(action, Create) and action.resource == PODS:
                        writes.append(("create", _kind_of(action.name)))
                    elif isinstance(action, Delete) and action.resource == PODS:
                        writes.append(("delete", action.uid))
        return Next(tuple(writes), plan.requeue_after.total_seconds() if plan.requeue_after else math.inf)

    def _plan(self, status: str, pods: tuple[Any, ...], heard: tuple[int, int, int], is_doubtful: bool) -> Plan:
        job = API.read_object(self._body | {"status": json.loads(status)})
        listens, moved, latest = heard
        since = None if moved == NOTHING else NOW - timedelta(seconds=moved)
        reported = None
        if latest != NOTHING:
            progress = Progress(step=latest, time=NOW)
            reported = ReportedProgress(progress, None if job.record.progress == progress else NOW)
        return make_plan(
            Snapshot(
                job,
                NOW,
                pods=tuple(_value(kind, PodState(*pod)) for kind, pod in zip(KINDS, pods, strict=True) if pod),
                services=tuple(Service(f"job-{kind.label}-0", kind.label) for kind in KINDS),
                settings=SETTINGS,
                looked_for=frozenset(f"job-{kind.label}-0" for kind in KINDS),
                reported=reported,
                hearing=Hearing(NOW - timedelta(seconds=listens), since, is_doubtful),
            )
        )

    # --- The program

    def _program(self, state: State) -> Iterator[Move]:
        since = json.loads(state.status).get(_CLOCK, {}).get("startTime")
        if not _all_run(state) or since == rfc3339(NOW):
            return  # it has only just begun
        yield _move("the program repeats its report", _heard(state))
        if state.step < self.bound.steps:
            yield _move("the program makes progress", _heard(state._replace(step=state.step + 1)))

    # --- What is no hang

    def _faults(self, state: State) -> Iterator[Move]:
        fresh = state._replace(left=(), listens=0, moved=NOTHING, latest=NOTHING, silence=0)
        knows: Json = json.loads(state.status).get(_CLOCK, {})
        is_known = state.has_reported and bool(knows.get("hasReported"))
        yield _move("another operator leads", fresh._replace(has_reported=is_known))
        if state.left:
            return
        yield _move(
            "others fall silent, or are heard again", state._replace(others_are_silent=not state.others_are_silent)
        )
        for number, kind in enumerate(KINDS):
            pod = _pod(state, number)
            if pod.phase == "Running":
                again = _with_pod(state, number, pod._replace(restarts=pod.restarts + 1))
                yield _move(f"the {kind.label} is restarted in place", _disturbed(again, number))
                yield _move(f"the pod of the {kind.label} is lost", _disturbed(_with_pod(state, number, None), number))


# --- Values


def _move(
    name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = False, is_time: bool = False
) -> Move:
    return Move(name, tuple(state), broken, is_fair=is_fair, is_time=is_time)


def _pod(state: State, number: int) -> PodState:
    return PodState(*state.pods[number])


def _with_pod(state: State, number: int, pod: PodState | None) -> State:
    pods = [*state.pods]
    pods[number] = tuple(pod or PodState(_births(state, number)))
    return state._replace(pods=tuple(pods))


def _births(state: State, number: int) -> int:
    return _pod(state, number).birth


def _all_run(state: State) -> bool:
    return all(_pod(state, number).phase == "Running" for number in range(len(KINDS)))


def _disturbed(state: State, number: int) -> State:
    """A replica is gone, has come, or was restarted: the silence begins again; of the chief, all of its run."""
    return state._replace(silence=0, has_reported=state.has_reported and number > 0)


def _heard(state: State) -> State:
    """The operator hears a report; the silence ends by progress, by the first one, and by what it cannot know."""
    stored = json.loads(state.status)
    is_first = state.latest == NOTHING
    earlier = stored.get("trainerStatus", {}).get("step", NOTHING) if state.has_reported else NOTHING
    has_moved = _begins(state) or state.step != (earlier if is_first else state.latest)
    after = state._replace(latest=state.step)
    if has_moved:
        after = after._replace(moved=0)
    return after._replace(silence=0 if has_moved else state.silence, has_reported=True)


def _begins(state: State) -> bool:
    """Whether the next report is the first of this run, as far as this operator knows."""
    clock = json.loads(state.status).get(_CLOCK, {})
    since = parse_time(clock.get("startTime")) or NOW
    return not (clock.get("hasReported") or NOTHING < state.moved < (NOW - since).total_seconds())


def _later(state: State) -> State:
    status: Json = json.loads(state.status)
    since = parse_time(status.get(_CLOCK, {}).get("startTime"))
    if since:
        status[_CLOCK]["startTime"] = rfc3339(max(since - timedelta(seconds=TICK), NOW - timedelta(seconds=LONGEST)))
    silence = state.silence + TICK if _all_run(state) and state.has_reported else 0
    return state._replace(
        status=_text(status),
        listens=min(state.listens + TICK, LONGEST),
        moved=NOTHING if state.moved == NOTHING else min(state.moved + TICK, LONGEST),
        silence=min(silence, LONGEST),
    )


def _is_doubtful(state: State) -> bool:
    return state.others_are_silent or state.latest == NOTHING


def _seen(state: State) -> tuple[Any, ...]:
    pods = tuple(pod if pod and pod[1] else () for pod in state.pods)
    return state.status, pods, (state.listens, state.moved, state.latest), _is_doubtful(state)


def _has_ended(status: Json) -> bool:
    return any(entry["type"] == "Failed" and entry["status"] == "True" for entry in status.get("conditions", ()))


def _restarts_chief(state: State, left: tuple[Any, ...]) -> bool:
    """Whether the pod of the chief is given up although it runs."""
    chief, status = _pod(state, 0), json.loads(state.status)
    records = status.get("restartRecords", ())
    was_given_up = any(entry.get("uid") == chief.uid(KINDS[0]) and entry.get("replaced") for entry in records)
    return chief.phase == "Running" and not was_given_up and ("delete", chief.uid(KINDS[0])) in left


def _value(kind: ReplicaType, pod: PodState) -> Pod:
    runs = pod.phase == "Running"
    return Pod(
        f"job-{kind.label}-0",
        pod.uid(kind),
        kind,
        0,
        pod.phase,
        restart_policy=RestartPolicy.ON_FAILURE,
        main=MainContainer(started_at=NOW) if runs else None,
        last_termination=MainContainer(1, finished_at=NOW) if pod.restarts else None,
        restarts=pod.restarts,
        created_at=NOW,
    )


def _kind_of(name: str) -> str:
    return next(kind.label for kind in KINDS if kind.label in name)


def _settled(status: Json) -> str:
    """The status, of whose moments only that of the clock matters."""
    clock = status.get(_CLOCK, {}).get("startTime")
    settled: Json = _still(status)
    if clock:
        settled[_CLOCK]["startTime"] = clock
    return _text(settled)


def _still(part: Any) -> Any:  # noqa: ANN401
    if isinstance(part, dict):
        return {
            name: rfc3339(NOW) if name.lower().endswith("time") and isinstance(value, str) else _still(value)
            for name, value in part.items()
        }
    return [_still(entry) for entry in part] if isinstance(part, list) else part


def _text(status: Json) -> str:
    return json.dumps(status, sort_keys=True)
