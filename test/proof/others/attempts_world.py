"""A job that restarts as a whole in place: the plan, the status and the order of writes are real.

Kubelets are a model: what a program and the sidecar do, and that a change of annotations may be seen late. So are the
clock, which only makes requests old, and the operator that is killed between any two writes. A program that hangs does
so until it is started again, and its deadline is over as soon as all run. The sentences are those of docs/behaviour.md,
Restarts of the whole job.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from proof.engine import Move
from proof.engine import State as Packed
from support.jobs.builders import merge, tfjob
from support.resources import Json
from tf_operator.controller.writing.steps import Act, StoreStatus, steps
from tf_operator.dialects.kubeflow import v1
from tf_operator.meta import rfc3339
from tf_operator.planning.actions import Create, Delete, Patch
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Hearing, Service, Settings, Snapshot
from tf_operator.projections.pods import pod_reader

_NOW: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_LONG_AGO: Final = _NOW - timedelta(days=1)
_CLUSTER_SIZE, _REQUEST = "tf-operator.kubeflow.org/cluster-size", "tf-operator.kubeflow.org/restart-request"
_SETTINGS: Final = Settings(
    restarts_in_place=True,
    restart_delay=timedelta(0),
    progress=ProgressServer("https://operator", authority="a certificate"),
)
_LATE, _TOO_LATE = 5, 30
_CONFLICT: Final = ("the pod is not as it was",)
"""A write has met one; no sentence."""
PENDING, RUNS, FAILED, LOST, LEAVING = "Pending", "Running", "Failed", "lost", "leaving"


class PodState(NamedTuple):
    """One pod. ``run`` is how many programs had failed when its own was started."""

    ordinal: int
    birth: int
    told: int
    """The attempt in its annotation."""
    life: str = PENDING
    run: int = 0
    end: int = 0
    """How many had, when it failed for good or was lost."""
    env: int = 0
    """The attempt that its sidecar was started with."""
    own: int = 0
    """How often its program was restarted after it had failed."""
    together: int = 0
    """How often its sidecar was restarted."""
    alone: int = 0
    """How often of these nothing else was, because its kubelet is too old to restart all containers."""
    is_deaf: bool = False
    """Whether its program was not started since."""
    is_own_last: bool = False
    """Whether its program failed before it was started last."""
    request: tuple[int, ...] = ()
    """What it was told last: how often it had been restarted, how old that is, and whether it was repeated."""

    @property
    def uid(self) -> str:
        return f"u{self.ordinal}-{self.birth}"

    @property
    def is_pending(self) -> bool:
        """Whether it is going to be restarted."""
        return self.life == RUNS and self.told != self.env


class State(NamedTuple):
    """Everything that what happens next depends on."""

    faults: int
    pods: tuple[Any, ...] = ()
    births: tuple[int, ...] = ()
    status: int = 0
    run: int = 0
    """How many programs have failed, not counting those that ended because another one had."""
    hung: int = 0
    """How many had, when the program of worker 0 last hung: that is one of them."""
    plan: int = -1
    at: int = 0

    @property
    def hangs(self) -> bool:
        """Whether it has not been started again since."""
        return any(pod.ordinal == 0 and pod.life == RUNS and pod.run < self.hung for pod in _pods(self))


@dataclass(frozen=True, slots=True)
class AttemptsBound:
    """How many workers there are, under which policy, and how much may go wrong."""

    name: str
    workers: int = 2
    faults: int = 2
    restart: str = "ExitCode"
    may_hang: bool = False
    is_quiet: bool = False
    """Whether nothing goes wrong but programs that may be tried again."""


TWO: Final = AttemptsBound("two workers")
THREE: Final = AttemptsBound("three workers", workers=3)
ON_FAILURE: Final = AttemptsBound("two workers, OnFailure", restart="OnFailure")
HANGING: Final = AttemptsBound("two workers that may hang", faults=1, may_hang=True)
SIZES: Final = {
    "quick": (HANGING,),
    "gate": (
        *(TWO, ON_FAILURE, HANGING, replace(THREE, faults=1)),
        AttemptsBound("three failures", faults=3, is_quiet=True),
    ),
    "night": (*(replace(bound, faults=3) for bound in (TWO, ON_FAILURE, HANGING)), THREE),
}


class _Plan(NamedTuple):
    steps: tuple[tuple[Any, ...], ...]
    pods: tuple[Any, ...]


class AttemptsWorld:
    """The world of one bound."""

    def __init__(self, bound: AttemptsBound) -> None:
        self.bound = bound
        job = tfjob("job").workers(bound.workers, restart=bound.restart).restarts_as_a_whole("InPlace")
        self._body = (job.progress_deadline(60, "Restart") if bound.may_hang else job).body()
        self._statuses: list[Json] = []
        self._status_numbers: dict[str, int] = {}
        self._plans: list[_Plan] = []
        self._plan_numbers: dict[Any, int] = {}
        self._read = pod_reader((v1.API,))

    def start(self) -> Packed:
        pods = [PodState(index, 1, 1, RUNS, env=1) for index in range(self.bound.workers)]
        running = {"type": "Running", "status": "True", "reason": "TFJobRunning"}
        indexes = f"0-{self.bound.workers - 1}"
        status = {
            "conditions": [{"type": "Created", "status": "True", "reason": "TFJobCreated"}, running],
            "replicaStatuses": {"Worker": {"active": self.bound.workers, "startedIndexes": indexes}},
            "startTime": rfc3339(_LONG_AGO),
            "observedGeneration": 1,
        }
        births = (1,) * self.bound.workers
        return tuple(State(self.bound.faults, tuple(map(tuple, pods)), births, self._number(status)))

    def resting(self, packed: Packed) -> Iterator[str]:
        state = State._make(packed)
        if any(move.is_fair for move in self.moves(packed)):
            return
        status, pods = self._statuses[state.status], _pods(state)
        begun = status.get("attempt", 1) - 1
        if len(pods) < self.bound.workers:
            yield "a worker has no pod"
        if any(pod.life != RUNS or pod.run != state.run for pod in pods):
            yield "a program was not started again after another one had failed"
        if not min(state.run, 1) <= begun <= state.run:
            yield f"{begun} attempts were begun, and {state.run} programs have failed"
        if status.get("restarts", 0) + status.get("disruptions", 0) != begun:
            yield "an attempt does not count once"
        if status["conditions"][-1]["type"] != "Running":
            yield "all programs run, and the job does not"

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        yield from self._operator(state)
        for number, pod in enumerate(_pods(state)):
            yield from self._kubelet(state, number, pod)
        if self.bound.may_hang and state.faults and self._all_run(state) and not self._has_unrecorded_ends(state):
            hung = state._replace(run=state.run + 1, hung=state.run + 1, faults=state.faults - 1)
            yield _move("the program of worker-0 hangs", hung, is_fair=False)
        yield from _time(state)

    def _all_run(self, state: State) -> bool:
        """Whether all programs of the last run do, and none is about to be restarted."""
        pods = _pods(state)
        runs = (pod.life == RUNS and pod.run == state.run and not self._is_doomed(state, pod) for pod in pods)
        return len(pods) == self.bound.workers and all(runs)

    def _has_unrecorded_ends(self, state: State) -> bool:
        """Whether an attempt will begin because of an earlier end. It would end a hang, too, which nobody then sees."""
        records = self._statuses[state.status].get("restartRecords", ())
        recorded = {entry["uid"]: entry.get("inPlace", 0) for entry in records}
        return any(pod.own > recorded.get(pod.uid, 0) for pod in _pods(state))

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if state.plan < 0:
            number = self._planned(state)
            if self._plans[number].steps:
                yield _move("the operator plans", state._replace(plan=number, at=0))
            return
        plan = self._plans[state.plan]
        step = plan.steps[state.at]
        after, broken = self._done(state, step, plan)
        is_over = state.at + 1 == len(plan.steps) or broken == _CONFLICT
        broken = () if broken == _CONFLICT else broken
        after = after._replace(plan=-1, at=0) if is_over else after._replace(at=state.at + 1)
        yield _move(f"the operator {step[0]} {step[1]}", after, broken)
        if state.faults and state.at and not self.bound.is_quiet:
            yield _move("the operator is killed", state._replace(plan=-1, at=0, faults=state.faults - 1), is_fair=False)

    def _planned(self, state: State) -> int:
        """The number of the plan for what there is. Every attempt has a time of its own."""
        key = state.status, state.pods, state.hangs
        number = self._plan_numbers.get(key)
        if number is None:
            number = self._plan_numbers[key] = len(self._plans)
            self._plans.append(_Plan(tuple(self._steps(state)), state.pods))
        return number

    def _steps(self, state: State) -> Iterator[tuple[Any, ...]]:
        status = self._statuses[state.status]
        now = _NOW + timedelta(hours=status.get("attempt", 1))
        if state.hangs and status.get("progressClock", {}).get("startTime"):
            status = merge(status, {"progressClock": {"startTime": rfc3339(_LONG_AGO), "hasReported": True}})
        metadata = {"name": "job", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1}
        job = v1.API.read_object(merge(self._body, {"metadata": metadata}) | {"status": status})
        pods = tuple(self._value(pod, now) for pod in _pods(state))
        services = tuple(Service(f"job-worker-{index}", f"s{index}") for index in range(self.bound.workers))
        hearing = Hearing(_LONG_AGO if state.hangs else now)
        plan = make_plan(Snapshot(job, now, pods=pods, services=services, settings=_SETTINGS, hearing=hearing))
        patch = v1.API.status_patch(plan.report)
        for step in steps(plan):
            match step:
                case StoreStatus() if patch:
                    yield "stores status", self._number(merge(status, patch))
                case Act():
                    yield from (_written(action) for _, actions in step.stages for action in actions)

    def _done(self, state: State, step: tuple[Any, ...], plan: _Plan) -> tuple[State, tuple[str, ...]]:
        match step:
            case ("stores status", status):
                return state._replace(status=status), ()
            case ("creates", index, told):
                births = tuple(birth + (index == place) for place, birth in enumerate(state.births))
                pod = PodState(index, births[index], told)
                broken = ("a worker has two pods",) if any(index == other[0] for other in state.pods) else ()
                return state._replace(pods=tuple(sorted((*state.pods, tuple(pod)))), births=births), broken
        verb, uid, *change = step
        planned = next(pod for pod in map(PodState._make, plan.pods) if pod.uid == uid)
        number = next((number for number, pod in enumerate(_pods(state)) if pod.uid == uid), None)
        if number is None:
            return state, ()
        pod = _pods(state)[number]
        if verb == "deletes":
            is_late = planned.request[1:2] == (_TOO_LATE,) or planned.is_deaf
            broken = (
                () if planned.life in {FAILED, LOST} or is_late else ("a pod that can restart in place is deleted",)
            )
            return _with(state, number, pod._replace(life=LEAVING)), broken
        told, request, is_guarded = change
        if is_guarded and pod._replace(request=planned.request) != planned:
            return state, _CONFLICT
        return _with(state, number, _told(pod, told, request)), tuple(_on_request(planned, told, request))

    def _value(self, pod: PodState, now: datetime) -> Any:  # noqa: ANN401
        return self._read(msgspec.json.encode(_body(pod, now))).pod

    def _number(self, status: Json) -> int:
        text = json.dumps(_without_moments(status), sort_keys=True)
        number = self._status_numbers.setdefault(text, len(self._statuses))
        if number == len(self._statuses):
            self._statuses.append(status)
        return number

    # --- Kubelets

    def _kubelet(self, state: State, number: int, pod: PodState) -> Iterator[Move]:
        name = f"worker-{pod.ordinal}"
        if pod.life == PENDING:
            yield _move(f"{name} runs", _with(state, number, pod._replace(life=RUNS, env=pod.told, run=state.run)))
        elif pod.life == LEAVING:
            gone = tuple(other for place, other in enumerate(state.pods) if place != number)
            yield _move(f"{name} is gone", state._replace(pods=gone))
        elif pod.is_pending:
            heard = pod._replace(env=pod.told, together=pod.together + 1, is_own_last=False, run=state.run)
            alone = pod._replace(env=pod.told, together=pod.together + 1, alone=pod.alone + 1, is_deaf=True)
            yield _move(f"{name} hears of the attempt", _with(state, number, heard))
            if state.faults:
                deaf = _with(state._replace(faults=state.faults - 1), number, alone)
                yield _move(f"only the sidecar of {name} is restarted", deaf, is_fair=False)
        if pod.life == RUNS and state.faults:
            yield from self._faults(state._replace(faults=state.faults - 1), number, pod, name)

    def _is_doomed(self, state: State, pod: PodState) -> bool:
        return pod.is_pending or pod.is_deaf or self._is_to_be_told(state, pod) or self._is_given_up(state, pod)

    def _is_to_be_told(self, state: State, pod: PodState) -> bool:
        """Whether an attempt is stored, or is about to be, that it has not begun, as far as the operator knows."""
        left = self._plans[state.plan].steps[state.at :] if state.plan >= 0 else ()
        number = next((step[1] for step in left if step[0] == "stores status"), state.status)
        status = self._statuses[number]
        by_itself = {"uid": pod.uid, "time": status.get("attemptTime")}
        records = status.get("restartRecords", ())
        return pod.told < status.get("attempt", 1) and not any(by_itself.items() <= entry.items() for entry in records)

    def _is_given_up(self, state: State, pod: PodState) -> bool:
        """What becomes of it does not matter any more, or does not when the plan is carried out."""
        records = self._statuses[state.status].get("restartRecords", ())
        left = self._plans[state.plan].steps[state.at :] if state.plan >= 0 else ()
        return ("deletes", pod.uid) in left or any(
            entry["uid"] == pod.uid and entry.get("replaced") for entry in records
        )

    def _faults(self, state: State, number: int, pod: PodState, name: str) -> Iterator[Move]:
        """What ends that was not about to be restarted, and was of the last run, has failed by itself."""
        is_doomed = self._is_doomed(state, pod)
        is_cause = pod.run == state.run and not is_doomed
        is_mixed = any(other.run < state.run for other in _pods(state) if other.life == RUNS)
        state = state._replace(run=state.run + is_cause)
        restarted = pod._replace(own=pod.own + 1, is_own_last=True, is_deaf=False, run=state.run)
        yield _move(f"{name} exits with 137", _with(state, number, restarted), is_fair=False)
        if self.bound.is_quiet:
            return
        yield _move(
            f"the node of {name} is lost", _with(state, number, pod._replace(life=LOST, end=state.run)), is_fair=False
        )
        may_be_final = is_doomed or not state.hangs
        if (is_mixed or not is_cause) and may_be_final and self.bound.restart == "ExitCode":
            failed = pod._replace(life=FAILED, end=state.run)
            yield _move(f"{name} exits with 1", _with(state, number, failed), is_fair=False)


def _time(state: State) -> Iterator[Move]:
    """Requests get old; while any is not heard, that matters."""
    pods = _pods(state)
    for age, is_repeated in ((_LATE, 0), (_TOO_LATE, 1)):
        if any(pod.is_pending and pod.request[1:] == (_LATE * is_repeated, is_repeated) for pod in pods):
            older = tuple(tuple(_aged(pod, age)) for pod in pods)
            yield _move(f"{age} s pass", state._replace(pods=older), is_fair=False)


def _aged(pod: PodState, age: int) -> PodState:
    if not pod.request:
        return pod
    restarts, old_age, is_repeated = pod.request
    return pod._replace(request=(restarts, max(old_age, age), is_repeated))


def _on_request(pod: PodState, told: int, request: tuple[int, ...]) -> Iterator[str]:
    """The sentences about a pod that is told, as it was when that was planned."""
    if pod.request[2:] == (1,) and request[2:] == (1,):
        yield "a pod is told more than twice"
    if pod.life == RUNS and told == pod.told and not pod.is_pending:
        yield "a pod is told again that has heard"


def _told(pod: PodState, told: int, request: tuple[int, ...]) -> PodState:
    return pod._replace(told=told, request=request)


def _written(action: object) -> tuple[Any, ...]:
    """A write, as small values."""
    match action:
        case Create() if action.resource == PODS:
            body = action.body()
            return "creates", int(action.name.rpartition("-")[2]), _attempt(body["metadata"]["annotations"])
        case Delete() if action.resource == PODS:
            return "deletes", action.uid
        case Patch():
            annotations = action.content()["metadata"]["annotations"]
            text = annotations.get(_REQUEST) or ""
            _, *words = text.split()
            request = (int(words[0]), _LATE if "again" in words else 0, int("again" in words)) if words else ()
            return "tells", action.uid, _attempt(annotations), request, bool(action.version)
    raise AssertionError(f"this world has no {action}")


def _attempt(annotations: Json) -> int:
    return int(annotations[_CLUSTER_SIZE].removeprefix("attempt="))


def _body(pod: PodState, now: datetime) -> Json:
    """The object, as a kubelet reports it."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [137]}}
    container = {"name": "tensorflow", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": "u", "controller": True}
    annotations = {_CLUSTER_SIZE: f"attempt={pod.told}"}
    if pod.request:
        restarts, age, is_repeated = pod.request
        annotations[_REQUEST] = f"{rfc3339(now - timedelta(seconds=age))} {restarts}{' again' * is_repeated}"
    metadata: Json = {
        "name": f"job-worker-{pod.ordinal}",
        "namespace": "n",
        "uid": pod.uid,
        "resourceVersion": "1",
        "creationTimestamp": rfc3339(_LONG_AGO),
        "labels": v1.API.profile.labels.selector,
        "ownerReferences": [owner],
        "annotations": annotations,
    }
    if pod.life == LEAVING:
        metadata["deletionTimestamp"] = rfc3339(now + timedelta(minutes=1))
    spec = {"restartPolicy": "Never", "nodeName": "a", "schedulerName": "s", "containers": [container]}
    return {"metadata": metadata, "spec": spec, "status": _status(pod, now)}


def _status(pod: PodState, now: datetime) -> Json:
    if pod.life == PENDING:
        return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    state: Json = {"running": {"startedAt": _moment(pod.run)}}
    if pod.life == FAILED:
        ended = {"exitCode": 1, "startedAt": _moment(pod.run), "finishedAt": _moment(pod.end)}
        state = {"terminated": ended}
    together = pod.together - pod.alone
    main = {"name": "tensorflow", "restartCount": pod.own + together, "state": state}
    if pod.is_own_last:
        ended = {"exitCode": 137, "finishedAt": _moment(pod.run)}
        main["lastState"] = {"terminated": ended}
    elif together:
        main["lastState"] = {"terminated": {"exitCode": 137, "reason": "RestartingAllContainers"}}
    began = _moment(pod.run + 1 if pod.is_deaf else pod.run)
    sidecar_state: Json = {"running": {"startedAt": began}}
    if pod.life == FAILED:
        sidecar_state = {"terminated": {"exitCode": 0, "startedAt": began, "finishedAt": _moment(pod.end)}}
    sidecar = {"name": "tf-operator-resize", "restartCount": pod.together, "state": sidecar_state}
    reason: Json = {}
    if pod.life == LOST:
        target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": _moment(pod.end)}
        reason = {"reason": "NodeLost", "conditions": [target]}
    phase = "Failed" if pod.life in {FAILED, LOST} else "Running"
    return reason | {"phase": phase, "containerStatuses": [main], "initContainerStatuses": [sidecar]}


def _moment(run: int) -> str:
    """When so many programs had failed. What ended is started again at once."""
    return rfc3339(_LONG_AGO + timedelta(seconds=run))


def _without_moments(status: Json) -> Json:
    """Conditions say when they changed, and first failures when they were seen; nothing is decided by it."""
    conditions = [{name: entry[name] for name in ("type", "status", "reason")} for entry in status["conditions"]]
    return {**status, "conditions": conditions, "firstFailure": bool(status.get("firstFailure"))}


def _pods(state: State) -> list[PodState]:
    return [PodState._make(pod) for pod in state.pods]


def _with(state: State, number: int, pod: PodState) -> State:
    return state._replace(
        pods=tuple(tuple(pod) if place == number else other for place, other in enumerate(state.pods))
    )


def _move(name: str, state: State, broken: tuple[str, ...] = (), *, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), broken, is_fair)
