"""What a kubelet writes into a pod's status, as pure functions: pod and moment in, new status out.

Each function takes a pod as the apiserver returned it and gives the whole ``status`` after one thing has
happened to it; ``kubelet`` sends it. The order of life is ``pending``, ``running``, then ``exited`` per
container (or ``finished`` for all at once); ``restarted``, ``ready``, ``evicted``, ``disrupted`` and
``lost`` happen in between.

The phase is derived from the containers by the kubelet's own rule (``getPhase``): a pod whose main
container has exited while a sidecar runs stays Running, a container that will be restarted keeps its pod
Running, native sidecars do not count. Only ``finished`` and ``evicted`` force a phase, as the kubelet does
when it kills a pod.
"""

import hashlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

from support.resources import Json
from support.templates import MAIN_CONTAINER

_HOST_IP = "192.0.2.1"  # RFC 5737: nobody's


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. Without a reason: ``Completed`` for code 0, else ``Error``."""

    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    """The termination message: what the container wrote to /dev/termination-log."""

    def state(self, started: str, now: str) -> Json:
        """The container state ``terminated``."""
        terminated = {
            "exitCode": self.code,
            "reason": self.reason or ("Error" if self.code else "Completed"),
            "startedAt": started,
            "finishedAt": now,
        }
        if self.signal:
            terminated["signal"] = self.signal
        if self.message:
            terminated["message"] = self.message
        return {"terminated": terminated}


COMPLETED = Exit()
OOM_KILLED = Exit(137, reason="OOMKilled")


def killed_by(signal: int) -> Exit:
    """Ended by a signal: exit code 128 + signal, as a shell counts."""
    return Exit(128 + signal, signal=signal)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run yet, or not again."""

    reason: str
    message: str = ""

    def state(self) -> Json:
        """The container state ``waiting``."""
        return {"waiting": {"reason": self.reason} | ({"message": self.message} if self.message else {})}


IMAGE_PULL_BACK_OFF = Waiting("ImagePullBackOff", 'Back-off pulling image "training:test"')


def unschedulable(pod: Json, now: str, message: str = "0/1 nodes are available.") -> Json:
    """Written by the scheduler: no node takes the pod."""
    status = _status_of(pod) | {"phase": "Pending"}
    _set_condition(status, now, "PodScheduled", "False", reason="Unschedulable", message=message)
    return status


def pending(pod: Json, now: str, waiting: Waiting | None = None, *, container: str = "") -> Json:
    """Seen by the kubelet; no container runs. ``waiting`` holds for ``container``, or for all."""
    status = _status_of(pod) | {"phase": "Pending", "hostIP": _HOST_IP, "hostIPs": [{"ip": _HOST_IP}]}
    status.setdefault("startTime", now)
    default = Waiting("PodInitializing") if pod["spec"].get("initContainers") else Waiting("ContainerCreating")
    for spec, group in _containers(pod):
        why = waiting if waiting and container in {"", spec["name"]} else default
        _write(status, group, spec, why.state(), is_ready=False)
    _set_condition(status, now, "PodScheduled", "True")
    _set_condition(status, now, "Initialized", "False" if _plain_inits(pod) else "True")
    _set_readiness(status, now, is_ready=False, reason="ContainersNotReady")
    return status


def running(pod: Json, now: str, *, is_ready: bool = True) -> Json:
    """Every container has started: init containers are done, sidecars run; what ended stays ended."""
    address = _address(pod)
    status = _status_of(pod) | {"hostIP": _HOST_IP, "hostIPs": [{"ip": _HOST_IP}]}
    status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status.setdefault("startTime", now)
    for spec, group in _containers(pod):
        if "terminated" in _state(status, group, spec["name"]):
            continue
        is_done = spec in _plain_inits(pod)
        state = COMPLETED.state(now, now) if is_done else {"running": {"startedAt": now}}
        _write(status, group, spec, state, is_ready=is_done or is_ready)
    for name in ("PodReadyToStartContainers", "PodScheduled", "Initialized"):
        _set_condition(status, now, name, "True")
    return _settled(pod, status, now)


def exited(pod: Json, now: str, exits: Mapping[str, Exit]) -> Json:
    """The named containers have ended for the time being; the others go on. The phase follows."""
    status = _status_of(pod)
    for spec, group in _containers(pod):
        if how := exits.get(spec["name"]):
            state = how.state(_started_at(status, group, spec["name"], now), now)
            _write(status, group, spec, state, is_ready=False)
    return _settled(pod, status, now)


def finished(pod: Json, now: str, how: Exit = COMPLETED, *, container: str = MAIN_CONTAINER) -> Json:
    """The pod is over: ``container`` ended so, the rest had ended or ended well. Succeeded or Failed.

    The phase is forced: a pod of policy OnFailure or Always becomes Failed too, which in life needs the
    kubelet to have killed it.
    """
    status = _status_of(pod)
    for spec, group in _containers(pod):
        has_ended = "terminated" in _state(status, group, spec["name"])
        if not has_ended or spec["name"] == container:
            outcome = how if spec["name"] == container else COMPLETED
            state = outcome.state(_started_at(status, group, spec["name"], now), now)
            _write(status, group, spec, state, is_ready=False)
    status["phase"] = "Failed" if how.code else "Succeeded"
    _set_readiness(status, now, is_ready=False, reason=f"Pod{'Failed' if how.code else 'Completed'}")
    return status


def restarted(pod: Json, now: str, how: Exit, *, container: str = MAIN_CONTAINER, is_backing_off: bool = False) -> Json:
    """A container ended and was started again in place; or waits for it in CrashLoopBackOff."""
    status = _status_of(pod)
    for spec, group in _containers(pod):
        if spec["name"] == container:
            last = how.state(_started_at(status, group, container, now), now)
            loop = Waiting("CrashLoopBackOff", f"back-off restarting failed container {container}")
            state = loop.state() if is_backing_off else {"running": {"startedAt": now}}
            _write(status, group, spec, state, is_ready=not is_backing_off, last=last)
    return _settled(pod, status, now)


def rejected(pod: Json, now: str, reason: str, message: str) -> Json:
    """Refused by the kubelet before any container was made: Failed, and of the rest of the status next to nothing."""
    conditions = [entry for entry in _status_of(pod).get("conditions", ()) if entry["type"] == "PodScheduled"]
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": now,
        "conditions": conditions,
    }


def evicted(pod: Json, now: str, message: str = "The node was low on resource: memory.") -> Json:
    """Killed by the kubelet for want of a resource: Failed, and no container has a status."""
    status = disrupted(pod, now, "TerminationByKubelet", message)
    for group in ("containerStatuses", "initContainerStatuses"):
        status.pop(group, None)
    _set_readiness(status, now, is_ready=False, reason="PodFailed")
    return status | {"phase": "Failed", "reason": "Evicted", "message": message}


def disrupted(pod: Json, now: str, reason: str, message: str) -> Json:
    """The condition DisruptionTarget: someone is about to end the pod, for a reason outside of it."""
    status = _status_of(pod)
    _set_condition(status, now, "DisruptionTarget", "True", reason=reason, message=message)
    return status


def lost(pod: Json, now: str, node: str = "node") -> Json:
    """The node is silent: nobody knows what the pod does."""
    name = pod["metadata"]["name"]
    message = f"Node {node} which was running pod {name} is unresponsive"
    status = _status_of(pod) | {"phase": "Unknown", "reason": "NodeLost", "message": message}
    _set_readiness(status, now, is_ready=False, reason="NodeStatusUnknown")
    return status


def merge_patch(pod: Json, status: Json) -> Json:
    """The JSON merge patch that makes ``status`` the pod's status, of this pod and of no namesake."""
    gone = {name: None for name in pod.get("status", {}) if name not in status}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {**gone, **status}}


def _status_of(pod: Json) -> Json:
    return deepcopy(pod.get("status", {}))


def _containers(pod: Json) -> Iterator[tuple[Json, str]]:
    """Every container of the pod's spec, with the list of the status that it is reported in."""
    for spec in pod["spec"].get("initContainers", ()):
        yield spec, "initContainerStatuses"
    for spec in pod["spec"]["containers"]:
        yield spec, "containerStatuses"


def _plain_inits(pod: Json) -> list[Json]:
    return [spec for spec in pod["spec"].get("initContainers", ()) if spec.get("restartPolicy") != "Always"]


def _entry(status: Json, group: str, name: str) -> Json:
    found: Iterator[Json] = (entry for entry in status.get(group, ()) if entry["name"] == name)
    return next(found, {})


def _state(status: Json, group: str, name: str) -> Json:
    state: Json = _entry(status, group, name).get("state", {})
    return state


def _started_at(status: Json, group: str, name: str, now: str) -> str:
    """Since when a container runs; ``now`` when it never did (the API wants a moment)."""
    return str(_state(status, group, name).get("running", {}).get("startedAt", now))


def _write(status: Json, group: str, spec: Json, state: Json, *, is_ready: bool, last: Json | None = None) -> None:
    """Put a container's new state into the status; ``last`` is the end that it was restarted after."""
    before = _entry(status, group, spec["name"])
    entry = {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "",
        "ready": is_ready,
        "started": "running" in state,
        "restartCount": before.get("restartCount", 0) + (last is not None),
        "state": state,
        "lastState": last or before.get("lastState", {}),
    }
    entries: list[Json] = status.setdefault(group, [])
    if before:
        entries[entries.index(before)] = entry
    else:
        entries.append(entry)


def _settled(pod: Json, status: Json, now: str) -> Json:
    """The status with the phase and readiness that follow from its containers."""
    phase = _phase(pod, status)
    if phase in {"Succeeded", "Failed"}:
        _end_sidecars(pod, status, now)
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    everyone = [_entry(status, group, spec["name"]) for spec, group in _containers(pod)]
    is_ready = phase == "Running" and all(entry.get("ready") for entry in everyone)
    _set_readiness(status, now, is_ready=is_ready, reason=reason)
    return status | {"phase": phase}


def _end_sidecars(pod: Json, status: Json, now: str) -> None:
    """When the others have ended the kubelet ends the native sidecars, and only then the pod is over."""
    for spec, group in _containers(pod):
        state = _state(status, group, spec["name"])
        if "running" in state:
            _write(status, group, spec, COMPLETED.state(state["running"]["startedAt"], now), is_ready=False)


def _phase(pod: Json, status: Json) -> str:
    """The kubelet's rule (``getPhase`` in pkg/kubelet/kubelet_pods.go); native sidecars do not count."""
    policy = pod["spec"].get("restartPolicy", "Always")
    inits = {_outcome(status, "initContainerStatuses", spec["name"]) for spec in _plain_inits(pod)}
    mains = {_outcome(status, "containerStatuses", spec["name"]) for spec in pod["spec"]["containers"]}
    if policy == "Never" and "failed" in inits:
        return "Failed"
    if inits & {"waiting", "running"} or "waiting" in mains:
        return "Pending"
    if "running" in mains or policy == "Always":
        return "Running"
    if mains == {"succeeded"}:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _outcome(status: Json, group: str, name: str) -> str:
    """A container is running, succeeded, failed, waiting for its first start, or stopped between two."""
    entry = _entry(status, group, name)
    state = entry.get("state", {})
    if "running" in state:
        return "running"
    if "terminated" in state:
        return "failed" if state["terminated"]["exitCode"] else "succeeded"
    return "stopped" if entry.get("lastState") else "waiting"


def _set_readiness(status: Json, now: str, *, is_ready: bool, reason: str) -> None:
    for name in ("Ready", "ContainersReady"):
        _set_condition(status, now, name, str(is_ready), reason="" if is_ready else reason)


def _set_condition(status: Json, now: str, name: str, value: str, *, reason: str = "", message: str = "") -> None:
    """Set one condition in its place; its transition time moves only when its value does."""
    conditions: list[Json] = status.setdefault("conditions", [])
    before = next((entry for entry in conditions if entry["type"] == name), {})
    since = before["lastTransitionTime"] if before.get("status") == value else now
    entry = {"type": name, "status": value, "lastTransitionTime": since}
    entry |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    if before:
        conditions[conditions.index(before)] = entry
    else:
        conditions.append(entry)


def _address(pod: Json) -> str:
    """An address of the pod's own, always the same for the same UID."""
    digest = hashlib.sha256(pod["metadata"]["uid"].encode()).digest()
    return f"10.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"
