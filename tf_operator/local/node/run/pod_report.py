"""The status of a pod, as a kubelet reports it: phase, conditions, the states of its containers. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from tf_operator.job.restart_rules import RESTARTING_ALL
from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.pod import LocalContainer, LocalPod, Part, Role
from tf_operator.local.node.run import lifecycle
from tf_operator.local.node.run.lifecycle import Ending, PodStep, Runtimes
from tf_operator.local.node.runtime import End, Problem, Runtime
from tf_operator.meta import Body, parse_time, rfc3339

_DEADLINE = Problem("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_INTERRUPTED = Problem("Terminated", "The node was stopped while the pod ran")
_CREATING = Problem("ContainerCreating", "")
_INITIALIZING = Problem("PodInitializing", "")
_NEVER = datetime.fromtimestamp(0, UTC)
"""The start of a program that could not be started, as containerd reports it: the pod was not rejected."""
_FINAL = frozenset({"Succeeded", "Failed"})
_CAUSES = {Ending.DEADLINE: _DEADLINE, Ending.INTERRUPTED: _INTERRUPTED}
"""Why the pod itself has failed, whatever its programs did."""


class _StateEntry(Part, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class _StateOf(Part, frozen=True):
    waiting: _StateEntry | None = None
    running: _StateEntry | None = None
    terminated: _StateEntry | None = None


class _ContainerStatus(Part, frozen=True):
    name: str = ""
    restart_count: int = 0
    container_id: str = msgspec.field(default="", name="containerID")
    state: _StateOf = _StateOf()
    last_state: _StateOf = _StateOf()


class _Status(Part, frozen=True):
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    container: LocalContainer
    runtime: Runtime
    waiting: Problem | None

    @property
    def last_end(self) -> End | None:
        return self.runtime.end if self.waiting and self.runtime.end else self.runtime.previous


def is_final(pod: LocalPod) -> bool:
    """Whether the stored pod is over, whatever becomes of its containers."""
    return pod.status.get("phase") in _FINAL


def was_interrupted(pod: LocalPod) -> bool:
    """Whether programs of a pod of somebody ran when the last node ended.

    As when a machine shuts down: that is no failure of theirs. What belongs to nobody has no second pod, and goes on.
    """
    status = msgspec.convert(pod.status, _Status)
    has_run = any(entry.state.running for entry in (*status.container_statuses, *status.init_container_statuses))
    return has_run and pod.owner is not None and not (pod.deletion or is_final(pod))


def report(pod: LocalPod, runtimes: Runtimes, step: PodStep, *, since: datetime, now: datetime) -> dict[str, Any]:
    """The whole status. Conditions of others, and their times, are taken from the pod's own."""
    states = [_state(pod, runtimes, container, step) for container in pod.containers]
    phase = _phase(pod, states, step)
    status = {
        "phase": phase,
        "hostIP": LOOPBACK,
        "hostIPs": [{"ip": LOOPBACK}],
        "podIP": LOOPBACK,
        "podIPs": [{"ip": LOOPBACK}],
        "startTime": rfc3339(since),
        "conditions": _conditions(pod, runtimes, states, phase=phase, now=now, step=step),
        "containerStatuses": [_entry(state) for state in states if state.container.role is Role.MAIN],
    }
    if inits := [_entry(state) for state in states if state.container.role is not Role.MAIN]:
        status["initContainerStatuses"] = inits
    if step.ending and (cause := _CAUSES.get(step.ending)):
        status |= {"reason": cause.reason, "message": cause.message}
    return status


def unscheduled(pod: LocalPod, reason: str, *, now: datetime) -> dict[str, Any]:
    """The status of a pod that no node takes; empty if it says so already."""
    conditions = pod.conditions
    old_condition: Body = next((entry for entry in conditions if entry.get("type") == "PodScheduled"), {})
    if old_condition.get("message") == reason:
        return {}
    condition = _condition(
        "PodScheduled", old_condition, is_true=False, problem=Problem("Unschedulable", reason), now=now
    )
    return {"conditions": [*(entry for entry in conditions if entry is not old_condition), condition]}


def rejected(reason: str, message: str, *, now: datetime) -> dict[str, Any]:
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": rfc3339(now)}


def recovered(pod: LocalPod, now: datetime) -> dict[str, Runtime]:
    """What an earlier node has reported of the pod: what ran then was killed since."""
    status = msgspec.convert(pod.status, _Status)
    entries = {entry.name: entry for entry in (*status.container_statuses, *status.init_container_statuses)}
    return {
        container.name: _recovered(entries.get(container.name, _ContainerStatus()), now) for container in pod.containers
    }


def began_at(pod: LocalPod) -> datetime | None:
    return parse_time(pod.status.get("startTime"))


def _recovered(entry: _ContainerStatus, now: datetime) -> Runtime:
    state, identity = entry.state, entry.container_id
    end, previous = _end_of(state.terminated), _end_of(entry.last_state.terminated)
    if state.running:
        message = "The container could not be located when the node was restarted"
        end = End(137, now, parse_time(state.running.started_at), 9, "ContainerStatusUnknown", message, identity)
    # It waits after the restart of all, whatever for, and that restart is counted already.
    is_reset = state.waiting is not None and previous is not None and previous.reason == RESTARTING_ALL
    if end is None and not is_reset:
        end, previous = previous, None  # it waited for its restart
    return Runtime(container_id=identity, end=end, previous=previous, restarts=entry.restart_count, is_reset=is_reset)


def _end_of(entry: _StateEntry | None) -> End | None:
    if entry is None or (finish := parse_time(entry.finished_at)) is None:
        return None
    return End(
        entry.exit_code,
        finish,
        parse_time(entry.started_at),
        signal=entry.signal,
        reason=entry.reason,
        message=entry.message,
        container_id=entry.container_id,
    )


# --- Containers ----------------------------------------------------------------------------------------------------


def _state(pod: LocalPod, runtimes: Runtimes, container: LocalContainer, step: PodStep) -> _State:
    runtime = runtimes[container.name]
    waiting: Problem | None = None
    if runtime.problem:
        waiting = runtime.problem
    elif runtime.started_at is None and runtime.end is None:
        is_blocked = container.role is not Role.INIT and not lifecycle.is_initialized(pod, runtimes)
        waiting = _INITIALIZING if is_blocked else _CREATING
    elif runtime.end and runtime.backoff and _is_to_restart(container, runtime.end, step):
        waiting = _back_off(pod, container, runtime)
    return _State(container, runtime, waiting)


def _is_to_restart(container: LocalContainer, end: End, step: PodStep) -> bool:
    return step.ending is None and not step.is_restarting and container.restarts_after(end.code)


def _back_off(pod: LocalPod, container: LocalContainer, runtime: Runtime) -> Problem:
    who = f"container={container.name} pod={pod.key.name}_{pod.key.namespace}({pod.uid})"
    return Problem("CrashLoopBackOff", f"back-off {runtime.backoff:g}s restarting failed {who}")


def _entry(state: _State) -> dict[str, Any]:
    runtime = state.runtime
    entry = {
        "name": state.container.name,
        "image": state.container.spec.image,
        "imageID": "",
        "ready": _is_ready(state),
        "started": runtime.has_started,
        "restartCount": runtime.restarts,
        "state": _state_body(state),
        "lastState": {"terminated": _end_body(state.last_end)} if state.last_end else {},
    }
    return entry | ({"containerID": runtime.container_id} if runtime.container_id else {})


def _state_body(state: _State) -> dict[str, Any]:
    if state.waiting:
        message = {"message": state.waiting.message} if state.waiting.message else {}
        return {"waiting": {"reason": state.waiting.reason} | message}
    if state.runtime.end:
        return {"terminated": _end_body(state.runtime.end)}
    assert state.runtime.started_at is not None  # noqa: S101 (else it waits)
    return {"running": {"startedAt": rfc3339(state.runtime.started_at)}}


def _end_body(end: End) -> dict[str, Any]:
    body = {
        "exitCode": end.code,
        "signal": end.signal,
        "reason": end.reason,
        "message": end.message,
        "startedAt": rfc3339(end.started_at or _NEVER),
        "finishedAt": rfc3339(end.finished_at),
        "containerID": end.container_id,
    }
    return {name: value for name, value in body.items() if value or name == "exitCode"}


def _is_ready(state: _State) -> bool:
    """An init container is ready when it has succeeded."""
    if state.container.role is Role.INIT:
        return state.runtime.end is not None and state.runtime.end.code == 0
    return state.runtime.is_ready


# --- The pod -------------------------------------------------------------------------------------------------------


def _phase(pod: LocalPod, states: list[_State], step: PodStep) -> str:
    """The kubelet's rules. A pod is not final before its last process has ended."""
    if is_final(pod):
        return str(pod.status["phase"])
    mains = [state for state in states if state.container.role is Role.MAIN]
    runtimes = {state.container.name: state.runtime for state in states}
    if step.is_over:
        codes = [state.runtime.end.code if state.runtime.end else None for state in mains]
        is_good = step.ending not in _CAUSES and all(code == 0 for code in codes)
        return "Succeeded" if is_good else "Failed"
    if not lifecycle.is_initialized(pod, runtimes):
        return "Pending"
    never_ran = [state for state in mains if state.waiting and not state.last_end]
    return "Pending" if never_ran else "Running"


def _conditions(
    pod: LocalPod, runtimes: Runtimes, states: list[_State], *, phase: str, now: datetime, step: PodStep
) -> list[dict[str, Any]]:
    """The node's own conditions, and those of others as they are."""
    unready = [state.container.name for state in states if _counts(state.container) and not _is_ready(state)]
    waits = _problem_of(
        list(_unfinished_names(pod, runtimes)), "ContainersNotInitialized", "containers with incomplete status"
    )
    containers = _problem_of(unready, "ContainersNotReady", "containers with unready status")
    ending = Problem("PodCompleted" if phase == "Succeeded" else "PodFailed", "")
    if phase in _FINAL:
        containers, waits = ending, (ending if phase == "Succeeded" else waits)
    gates = [gate.get("conditionType", "") for gate in pod.spec.readiness_gates]
    conditions = {entry.get("type") for entry in pod.conditions if entry.get("status") == "True"}
    closed = _problem_of(
        [gate for gate in gates if gate not in conditions], "ReadinessGatesNotReady", "readiness gates not met"
    )
    own = {
        "PodReadyToStartContainers": (phase not in _FINAL, None),
        "Initialized": (waits is None or phase == "Succeeded", waits),
        "Ready": (containers is None and closed is None, containers or closed),
        "ContainersReady": (containers is None, containers),
        "PodScheduled": (True, None),
    }
    if any(container.rules and container.rules.all for container in pod.containers):
        restart = (
            ending if phase in _FINAL else Problem("RestartAllContainersStarted", "") if step.is_restarting else None
        )
        own["AllContainersRestarting"] = (step.is_restarting, restart)
    if step.ending is Ending.INTERRUPTED:
        own["DisruptionTarget"] = (True, Problem("TerminationByKubelet", _INTERRUPTED.message))
    old_conditions = {entry.get("type", ""): entry for entry in pod.conditions}
    written = [
        _condition(name, old_conditions.get(name, {}), is_true=is_true, problem=problem, now=now)
        for name, (is_true, problem) in own.items()
    ]
    return [*written, *(dict(entry) for name, entry in old_conditions.items() if name not in own)]


def _condition(name: str, old: Body, *, is_true: bool, problem: Problem | None, now: datetime) -> dict[str, Any]:
    status = str(is_true)
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    entry = {"type": name, "status": status, "lastTransitionTime": since or rfc3339(now)}
    texts = {"reason": problem.reason, "message": problem.message} if problem else {}
    return entry | {field: text for field, text in texts.items() if text}


def _counts(container: LocalContainer) -> bool:
    return container.role is not Role.INIT


def _unfinished_names(pod: LocalPod, runtimes: Runtimes) -> Iterable[str]:
    for container in pod.of_role(Role.INIT, Role.SIDECAR):
        runtime = runtimes[container.name]
        is_done = runtime.end and runtime.end.code == 0 if container.role is Role.INIT else runtime.has_started
        if not is_done:
            yield container.name


def _problem_of(names: list[str], reason: str, text: str) -> Problem | None:
    return Problem(reason, f"{text}: [{' '.join(names)}]") if names else None
