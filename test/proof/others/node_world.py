"""One pod on the node of a laptop: what is started and stopped, and what is reported, is real (``node/run``).

Processes, time and the end of the node are a model. The sentences are those of docs/start/laptop.md, by which the node
follows the kubelet, and of Kubernetes' page about the lifecycle of pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from proof.engine import Move
from proof.engine import State as Packed
from support.resources import Json
from tf_operator.local.node.pod import LocalContainer, LocalPod, Role, pod_of
from tf_operator.local.node.run import lifecycle, pod_report
from tf_operator.local.node.run.lifecycle import PodStep
from tf_operator.local.node.runtime import End, Problem, Runtime
from tf_operator.meta import rfc3339

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_BACKOFF, LONGEST_BACKOFF, LONG = 10, 300, 600
_OLDEST: Final = 2 * LONG
_RESTARTS_ALL: Final = 42
_MISSING: Final = Problem("CreateContainerConfigError", "something is missing")


class Fact(NamedTuple):
    """What has happened to one container, as the oracle knows it."""

    starts: int = 0
    code: int = -1
    """How its last run ended; -1 if none has, or if all of the pod begins again."""
    age: int = 0
    """Seconds since then."""
    backoff: int = 0


class State(NamedTuple):
    """Everything that what happens next depends on; times are in seconds from now."""

    runtimes: tuple[Any, ...]
    facts: tuple[Any, ...]
    exits: int
    faults: int
    since: int = 0
    phase: str = "Pending"
    is_deleted: bool = False
    stored: tuple[Any, ...] = ()
    """While the node ends: what it had reported before, and what had happened."""
    is_over: bool = False


@dataclass(frozen=True)
class NodeBound:
    """A pod, how often its programs end by themselves, and how much else happens."""

    name: str
    spec: Json
    exits: int = 3
    faults: int = 1
    codes: tuple[int, ...] = (0, 1)

    @property
    def deadline(self) -> int | None:
        seconds: int | None = self.spec.get("activeDeadlineSeconds")
        return seconds


def _spec(policy: str, *mains: Json, inits: tuple[Json, ...] = (), **more: object) -> Json:
    return {"restartPolicy": policy, "containers": list(mains), "initContainers": list(inits), **more}


def _rules(action: str) -> Json:
    return {"restartPolicyRules": [{"action": action, "exitCodes": {"operator": "In", "values": [_RESTARTS_ALL]}}]}


_MAIN, _OTHER = {"name": "main"}, {"name": "other"}
_INIT, _SIDE = {"name": "init"}, {"name": "side", "restartPolicy": "Always"}
_AGAIN: Final = {**_MAIN, "restartPolicy": "Never", **_rules("RestartAllContainers")}
BOUNDS: Final = (
    NodeBound("two containers, OnFailure", _spec("OnFailure", _MAIN, _OTHER)),
    NodeBound("two containers, Never", _spec("Never", _MAIN, _OTHER)),
    NodeBound("one container, Always", _spec("Always", _MAIN), exits=7),
    NodeBound("an init container and a sidecar, OnFailure", _spec("OnFailure", _MAIN, inits=(_INIT, _SIDE)), exits=2),
    NodeBound("two sidecars, Never", _spec("Never", _MAIN, inits=(_SIDE, {**_SIDE, "name": "second"})), exits=1),
    NodeBound("a deadline", _spec("OnFailure", _MAIN, inits=(_SIDE,), activeDeadlineSeconds=25), exits=2),
    NodeBound("a rule restarts all", _spec("Never", _AGAIN, _OTHER, inits=(_INIT,)), codes=(0, 1, _RESTARTS_ALL)),
)
SIZES: Final = {
    "quick": tuple(replace(bound, exits=2) for bound in BOUNDS[:4]),
    "gate": BOUNDS,
    "night": tuple(replace(bound, faults=2, exits=bound.exits + 1) for bound in BOUNDS),
}


class NodeWorld:
    """The world of one bound."""

    def __init__(self, bound: NodeBound) -> None:
        self.bound = bound
        self.containers = self._pod(False, "Pending").containers
        self._names = [container.name for container in self.containers]

    @cache  # noqa: B019 (as many as a world has phases)
    def _pod(self, is_deleted: bool, phase: str) -> LocalPod:
        metadata = {"name": "p", "namespace": "ns", "uid": "u"} | (
            {"deletionTimestamp": rfc3339(NOW)} if is_deleted else {}
        )
        return pod_of({"metadata": metadata, "spec": self.bound.spec, "status": {"phase": phase}})

    def start(self) -> Packed:
        count = len(self.containers)
        runtimes = tuple(_packed(Runtime()) for _ in range(count))
        return tuple(State(runtimes, tuple(tuple(Fact()) for _ in range(count)), self.bound.exits, self.bound.faults))

    def resting(self, packed: Packed) -> Iterator[str]:
        """Whether everything that is to run does, when nothing is to happen by itself."""
        state = State._make(packed)
        if self._is_endless(state):
            yield "a container starts again although nothing but the node has ended it"
        step = self._step(state)
        if state.is_over or self._has_to_act(step) or step.wake_at or step.ending:
            return
        runtimes = self._runtimes(state)
        if any(runtime.is_starting or runtime.is_stopping or runtime.is_killed for runtime in runtimes.values()):
            return
        for number, container in enumerate(self.containers):
            if self._may_start(state, number) and not runtimes[container.name].is_active:
                yield f"a container ({container.role.name}) that is to run does not"

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        if state.is_over or self._is_endless(state):
            return
        step = self._step(state)
        if self._has_to_act(step):
            after, breaks = self._acted(state, step)
            yield Move("the node acts", tuple(after), tuple(breaks))
            return
        for number, name in enumerate(self._names):
            yield from self._process(state, number, name)
        if step.wake_at:
            yield _move(
                "time passes",
                _later(state, max(round((step.wake_at - NOW).total_seconds()), 0), self.bound.deadline or 0),
            )
        if state.faults:
            yield from self._faults(state._replace(faults=state.faults - 1))

    # --- The node

    def _runtimes(self, state: State) -> dict[str, Runtime]:
        return dict(zip(self._names, map(_unpacked, state.runtimes), strict=True))

    def _step(self, state: State) -> PodStep:
        pod = self._pod(state.is_deleted, state.phase)
        since = NOW - timedelta(seconds=state.since)
        return lifecycle.next_step(pod, self._runtimes(state), since=since, now=NOW, node_ends=bool(state.stored))

    @staticmethod
    def _has_to_act(step: PodStep) -> bool:
        return bool(step.start or step.stop or step.kill or step.resets or step.is_over)

    def _acted(self, state: State, step: PodStep) -> tuple[State, list[str]]:
        """What ``PodRunner`` makes of a step."""
        breaks = [*self._on_stop(state, step), *self._on_start(state, step)]
        runtimes, facts = self._runtimes(state), state.facts
        for name in step.stop:
            runtimes[name] = replace(runtimes[name], is_stopping=True, is_ready=False)
        for name in step.kill:
            runtimes[name] = replace(runtimes[name], is_killed=True, is_ready=False)
        if step.resets:
            runtimes = {name: runtime.reset(NOW, step.resets_at) for name, runtime in runtimes.items()}
            facts = tuple(tuple(Fact._make(fact)._replace(code=-1)) for fact in facts)
        for name in step.start:
            runtimes[name] = runtimes[name].starting()
        after = state._replace(runtimes=tuple(map(_packed, runtimes.values())), facts=facts, is_over=step.is_over)
        if state.stored:
            return (self._taken_over(after) if step.is_over else after), breaks
        if not step.start and not step.resets:
            phase, problems = self._reported(after, step)
            return after._replace(phase=phase), [*breaks, *problems]
        return after, breaks

    def _taken_over(self, state: State) -> State:
        """The next node has the pod: what ran was killed, and back-offs begin again."""
        packed, facts, phase = state.stored
        reported = state._replace(runtimes=packed, facts=facts, phase=phase, stored=())
        pod = self._pod(state.is_deleted, phase)
        # A node that starts has not seen the end.
        step = self._step(reported) if not state.is_deleted else PodStep()
        runtimes = self._runtimes(reported)
        status = pod_report.report(pod, runtimes, step, since=NOW - timedelta(seconds=state.since), now=NOW)
        after = pod_report.recovered(replace(pod, status=status), NOW)
        lost = (
            fact._replace(code=137, age=0) if runtimes[name].started_at else fact
            for name, fact in zip(self._names, map(Fact._make, facts), strict=True)
        )
        noted = tuple(tuple(fact._replace(backoff=0)) for fact in lost)
        return reported._replace(
            runtimes=tuple(_packed(after[name]) for name in self._names), facts=noted, is_over=False
        )

    # --- Processes, people, time

    def _process(self, state: State, number: int, name: str) -> Iterator[Move]:
        runtime = self._runtimes(state)[name]
        role = self.containers[number].role
        if runtime.is_starting:
            yield _move(
                f"{name} runs", self._with(state, number, runtime.began("process://1", NOW, self.containers[number]))
            )
        if runtime.started_at is None:
            return
        for code in (137,) if runtime.is_killed else (0, 143) if runtime.is_stopping else ():
            yield _move(f"{name} is stopped, and ends with {code}", self._ended(state, number, runtime, code))
        if runtime.is_killed or runtime.is_stopping:
            return
        if role is Role.INIT:
            yield _move(f"{name} ends with 0", self._ended(state, number, runtime, 0))
        for code in self.bound.codes if state.exits else ():
            fewer = state._replace(exits=state.exits - 1)
            yield _move(f"{name} ends by itself with {code}", self._ended(fewer, number, runtime, code), is_fair=False)

    def _faults(self, state: State) -> Iterator[Move]:
        if not state.is_deleted:
            yield _move("somebody deletes the pod", state._replace(is_deleted=True), is_fair=False)
        runtimes = self._runtimes(state)
        # No status is reported while a container starts: what is taken over then is an older state.
        if not state.stored and not any(runtime.is_starting for runtime in runtimes.values()):
            ending = state._replace(stored=(state.runtimes, state.facts, state.phase))
            yield _move("the node ends", ending, is_fair=False)
            yield _move("the node is killed, and another one starts", self._taken_over(ending), is_fair=False)
        if any(runtime.started_at for runtime in runtimes.values()):
            yield _move("ten minutes pass", _later(state, LONG, self.bound.deadline or 0), is_fair=False)
        for number, name in enumerate(self._names):
            if runtimes[name].is_starting:
                failed = self._ended(state, number, runtimes[name], 128)
                yield _move(f"{name} cannot be started", failed, is_fair=False)
                lacking = runtimes[name].refused(_MISSING, NOW + timedelta(seconds=2))
                yield _move(f"{name} lacks something", self._with(state, number, lacking, starts=0), is_fair=False)

    def _with(self, state: State, number: int, runtime: Runtime, *, starts: int = 1) -> State:
        fact = Fact._make(state.facts[number])
        fact = fact._replace(starts=fact.starts + starts)
        return state._replace(
            runtimes=_replaced(state.runtimes, number, _packed(runtime)),
            facts=state.facts if state.stored else _replaced(state.facts, number, tuple(fact)),
        )

    def _ended(self, state: State, number: int, runtime: Runtime, code: int) -> State:
        ended = runtime.ended(End(code, NOW, runtime.started_at), FIRST_BACKOFF)
        fact = Fact._make(state.facts[number])
        lasted = round((NOW - runtime.started_at).total_seconds()) if runtime.started_at else 0
        has_ended = fact.starts > 1 if runtime.started_at else fact.starts > 0
        backoff = 0 if not has_ended or lasted >= LONG else min(max(2 * fact.backoff, FIRST_BACKOFF), LONGEST_BACKOFF)
        if runtime.is_killed:
            code, backoff = -1, fact.backoff
        fact = Fact(fact.starts + (runtime.started_at is None), code, 0, backoff)
        return state._replace(
            runtimes=_replaced(state.runtimes, number, _packed(ended)),
            facts=state.facts if state.stored else _replaced(state.facts, number, tuple(fact)),
        )

    # --- The sentences

    def _on_start(self, state: State, step: PodStep) -> Iterator[str]:
        for name in step.start:
            number = self._names.index(name)
            fact = Fact._make(state.facts[number])
            if state.is_deleted or state.stored:
                yield "a container starts although its pod, or the node, ends"
            elif self._is_late(state):
                yield "a container starts after the deadline of its pod"
            elif not self._may_start(state, number):
                yield f"a container ({self.containers[number].role.name}) starts that is not to run, or not yet"
            elif fact.code >= 0 and fact.age < fact.backoff:
                yield "a container starts before its back-off is over"

    def _is_endless(self, state: State) -> bool:
        """Whether a container has started more often than by itself and by faults, each of which ends it once."""
        return any(Fact._make(fact).starts > 1 + self.bound.exits + self.bound.faults for fact in state.facts)

    def _may_start(self, state: State, number: int) -> bool:
        """Whether it is to run, now or after a back-off."""
        facts = [Fact._make(fact) for fact in state.facts]
        for earlier, fact in zip(self.containers[:number], facts, strict=False):
            if earlier.role is Role.INIT and fact.code != 0:
                return False
            if earlier.role is Role.SIDECAR and not fact.starts:
                return False
        return facts[number].code < 0 or self._restarts(self.containers[number], facts[number].code)

    def _restarts(self, container: LocalContainer, code: int) -> bool:
        if container.role is Role.SIDECAR:
            return True
        if code == _RESTARTS_ALL and container.spec.restart_policy_rules:
            return True
        policy = container.spec.restart_policy or self.bound.spec["restartPolicy"]
        if container.role is Role.INIT and policy == "Always":
            policy = "OnFailure"
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def _on_stop(self, state: State, step: PodStep) -> Iterator[str]:
        active = [container for container in self.containers if self._runtimes(state)[container.name].is_active]
        for name in step.stop:
            number = self._names.index(name)
            if self.containers[number].role is not Role.SIDECAR:
                continue
            if any(container.role is not Role.SIDECAR for container in active):
                yield "a sidecar is stopped while main containers run"
            if any(self._names.index(container.name) > number for container in active):
                yield "a sidecar is stopped before one that was started later"

    def _is_late(self, state: State) -> bool:
        return self.bound.deadline is not None and state.since >= self.bound.deadline

    def _reported(self, state: State, step: PodStep) -> tuple[str, list[str]]:
        """The phase that is reported, and what is wrong with the report."""
        since = NOW - timedelta(seconds=state.since)
        runtimes = self._runtimes(state)
        status = pod_report.report(self._pod(state.is_deleted, state.phase), runtimes, step, since=since, now=NOW)
        return status["phase"], list(self._on_report(state, status, runtimes))

    def _on_report(self, state: State, status: Json, runtimes: Mapping[str, Runtime]) -> Iterator[str]:
        phase, is_final = status["phase"], status["phase"] in {"Succeeded", "Failed"}
        facts = dict(zip(self._names, map(Fact._make, state.facts), strict=True))
        mains = [facts[container.name] for container in self.containers if container.role is Role.MAIN]
        if is_final and any(runtime.is_active for runtime in runtimes.values()):
            yield "a pod is final while a process runs"
        if is_final is not state.is_over:
            yield "a pod that is over is not final, or one that goes on is"
        is_good = all(main.code == 0 for main in mains) and not (self._is_late(state) and not state.is_deleted)
        if is_final and not state.is_deleted and (phase == "Succeeded") is not is_good:
            yield f"the phase of a pod is {phase}, by the exit codes of its main containers it is not"
        if self._is_late(state) and not state.is_deleted and is_final and status.get("reason") != "DeadlineExceeded":
            yield "a pod past its deadline does not say so"
        for entry in (*status["containerStatuses"], *status.get("initContainerStatuses", ())):
            starts = facts[entry["name"]].starts
            if entry["restartCount"] not in {max(starts - 1, 0), starts if self.bound.codes[2:] else 0}:
                yield f"{entry['restartCount']} restarts of a container are reported, after {starts} starts"


def _move(name: str, state: State, *, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), is_fair=is_fair)


def _replaced(values: tuple[Any, ...], number: int, value: object) -> tuple[Any, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _later(state: State, seconds: int, most_since: int) -> State:
    facts = tuple(tuple(_older(Fact._make(fact), seconds)) for fact in state.facts)
    runtimes = tuple(_packed(_unpacked(runtime), seconds) for runtime in state.runtimes)
    stored = state.stored and (
        tuple(_packed(_unpacked(runtime), seconds) for runtime in state.stored[0]),
        *state.stored[1:],
    )
    since = min(state.since + seconds, most_since)
    return state._replace(runtimes=runtimes, facts=facts, stored=stored, since=since)


def _older(fact: Fact, seconds: int) -> Fact:
    return fact._replace(age=min(fact.age + seconds, fact.backoff))


def _packed(runtime: Runtime, seconds: int = 0) -> tuple[Any, ...]:
    """Plain values, with times in seconds from now, which is so much later."""

    def age(moment: datetime | None) -> int | None:
        return None if moment is None else max(round((moment - NOW).total_seconds()) - seconds, -_OLDEST)

    def end(value: End | None) -> tuple[Any, ...]:
        finished = age(value.finished_at) if value else None
        # What is longer ago than the back-off is over, whenever it was.
        return (
            ()
            if value is None or finished is None
            else (value.code, max(finished, -round(runtime.backoff)), value.reason)
        )

    return (
        *(runtime.is_starting, runtime.has_started, runtime.is_stopping, runtime.is_killed, runtime.is_reset),
        *(age(runtime.started_at), end(runtime.end), end(runtime.previous), runtime.restarts, round(runtime.backoff)),
        *((runtime.problem.reason, runtime.problem.message) if runtime.problem else ("", "")),
        age(runtime.retry_at),
    )


def _unpacked(values: tuple[Any, ...]) -> Runtime:
    starting, has_started, stopping, killed, is_reset, started, end, previous, restarts, backoff, *problem, retry = (
        values
    )

    def moment(age: int | None) -> datetime | None:
        return None if age is None else NOW + timedelta(seconds=age)

    def ended(value: tuple[Any, ...]) -> End | None:
        return End(value[0], moment(value[1]) or NOW, reason=value[2]) if value else None

    return Runtime(
        is_starting=starting,
        started_at=moment(started),
        end=ended(end),
        previous=ended(previous),
        restarts=restarts,
        backoff=float(backoff),
        problem=Problem(*problem) if problem[0] else None,
        retry_at=moment(retry),
        has_started=has_started,
        is_stopping=stopping,
        is_killed=killed,
        is_reset=is_reset,
    )
