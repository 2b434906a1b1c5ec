"""What a kubelet writes into a pod's status, as pure functions: pod and moment in, new status out.

Each function takes a pod as the apiserver returned it and gives the whole ``status`` after one thing has
happened to it; ``kubelet`` sends it. The order of life is ``pending``, ``running``, then ``finished``;
``restarted``, ``evicted``, ``disrupted`` and ``lost`` happen in between. Pods have no init containers here.
"""

import hashlib
from copy import deepcopy
from dataclasses import dataclass

from support.jobs.templates import MAIN_CONTAINER
from support.resources import Json

_HOST_IP = "192.0.2.1"  # RFC 5737: nobody's
_REMOVED = "The container is removed because RestartAllContainers in place"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended. Without a reason: ``Completed`` for code 0, else ``Error``."""

    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    """The termination message: what the container wrote to /dev/termination-log."""

    def state(self, started: str, now: str) -> Json:
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


def killed_by(signal: int) -> Exit:
    """Ended by a signal: exit code 128 + signal, as a shell counts."""
    return Exit(128 + signal, signal=signal)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run yet."""

    reason: str
    message: str


IMAGE_PULL_BACK_OFF = Waiting("ImagePullBackOff", 'Back-off pulling image "training:test"')


def unschedulable(pod: Json, now: str, message: str) -> Json:
    """Written by the scheduler: no node takes the pod."""
    status = _status_of(pod) | {"phase": "Pending"}
    _set_condition(status, now, "PodScheduled", "False", reason="Unschedulable", message=message)
    return status


def pending(pod: Json, now: str, waiting: Waiting) -> Json:
    """Seen by the kubelet; no container runs."""
    status = _status_of(pod) | {"phase": "Pending", "hostIP": _HOST_IP, "hostIPs": [{"ip": _HOST_IP}]}
    status.setdefault("startTime", now)
    for name in _containers(pod):
        state = {"waiting": {"reason": waiting.reason, "message": waiting.message}}
        _write(pod, status, name, state, is_ready=False)
    for name in ("PodScheduled", "Initialized"):
        _set_condition(status, now, name, "True")
    _set_readiness(status, now, is_ready=False, reason="ContainersNotReady")
    return status


def running(pod: Json, now: str) -> Json:
    """Every container has started."""
    address = _address(pod)
    status = _status_of(pod) | {"phase": "Running", "hostIP": _HOST_IP, "hostIPs": [{"ip": _HOST_IP}]}
    status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status.setdefault("startTime", now)
    for name in _containers(pod):
        _write(pod, status, name, {"running": {"startedAt": now}}, is_ready=True)
    for name in ("PodReadyToStartContainers", "PodScheduled", "Initialized"):
        _set_condition(status, now, name, "True")
    _set_readiness(status, now, is_ready=True)
    return status


def finished(pod: Json, now: str, how: Exit = COMPLETED) -> Json:
    """The pod is over: the main container, or the only one, ended so, the rest ended well. Succeeded or Failed.

    The phase is forced: a pod of policy OnFailure or Always becomes Failed too, which in life needs the
    kubelet to have killed it.
    """
    status = _status_of(pod)
    names = _containers(pod)
    for name in names:
        outcome = how if name == MAIN_CONTAINER or len(names) == 1 else COMPLETED
        _write(pod, status, name, outcome.state(_started_at(status, name, now), now), is_ready=False)
    status["phase"] = "Failed" if how.code else "Succeeded"
    _set_readiness(status, now, is_ready=False, reason=f"Pod{'Failed' if how.code else 'Completed'}")
    return status


def main_ended(pod: Json, now: str, how: Exit) -> Json:
    """The main container ended, and another one goes on."""
    return finished(running(pod, now) if "containerStatuses" not in pod.get("status", {}) else pod, now, how) | {
        "phase": "Running"
    }


def stopped(pod: Json, now: str) -> Json:
    """Ended by the kubelet because its ``activeDeadlineSeconds`` were over."""
    status = finished(pod, now, killed_by(15)) if "containerStatuses" in pod.get("status", {}) else _status_of(pod)
    return status | {"phase": "Failed", "reason": "DeadlineExceeded"}


def restarted(pod: Json, now: str, how: Exit) -> Json:
    """The main container ended and was started again in place."""
    status = _status_of(pod)
    last = how.state(_started_at(status, MAIN_CONTAINER, now), now)
    _write(pod, status, MAIN_CONTAINER, {"running": {"startedAt": now}}, is_ready=True, last=last)
    return status


def ended_by_rule(pod: Json, now: str, how: Exit, *, is_of_all: bool) -> Json:
    """The main container ended, and a rule starts it again, or all containers of the pod."""
    status = _status_of(pod)
    _write(pod, status, MAIN_CONTAINER, how.state(_started_at(status, MAIN_CONTAINER, now), now), is_ready=False)
    if is_of_all:
        _set_condition(status, now, "AllContainersRestarting", "True", reason="RestartAllContainersStarted")
    return status


def begun_again(pod: Json, now: str) -> Json:
    """All containers were removed after that, whatever they did, and the pod begins again; ``running`` is next."""
    status = _status_of(pod) | {"phase": "Pending"}
    waiting = {"reason": "RestartingAllContainers", "message": _REMOVED}
    last = {"terminated": {"exitCode": 137, **waiting}}
    for name in _containers(pod):
        _write(pod, status, name, {"waiting": waiting}, is_ready=False, last=last)
    _set_condition(status, now, "AllContainersRestarting", "False")
    return status


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


def evicted(pod: Json, now: str) -> Json:
    """Killed by the kubelet for want of a resource: Failed, and no container has a status."""
    message = "The node was low on resource: memory."
    status = disrupted(pod, now, "TerminationByKubelet", message)
    status.pop("containerStatuses", None)
    _set_readiness(status, now, is_ready=False, reason="PodFailed")
    return status | {"phase": "Failed", "reason": "Evicted", "message": message}


def disrupted(pod: Json, now: str, reason: str, message: str) -> Json:
    """The condition DisruptionTarget: someone is about to end the pod, for a reason outside of it."""
    status = _status_of(pod)
    _set_condition(status, now, "DisruptionTarget", "True", reason=reason, message=message)
    return status


def lost(pod: Json, now: str) -> Json:
    """The node is silent: nobody knows what the pod does."""
    message = f"Node node which was running pod {pod['metadata']['name']} is unresponsive"
    status = _status_of(pod) | {"phase": "Unknown", "reason": "NodeLost", "message": message}
    _set_readiness(status, now, is_ready=False, reason="NodeStatusUnknown")
    return status


def merge_patch(pod: Json, status: Json) -> Json:
    """The JSON merge patch that makes ``status`` the pod's status, of this pod and of no namesake."""
    removals = {name: None for name in pod.get("status", {}) if name not in status}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {**removals, **status}}


def _status_of(pod: Json) -> Json:
    return deepcopy(pod.get("status", {}))


def _containers(pod: Json) -> list[str]:
    return [spec["name"] for spec in pod["spec"]["containers"]]


def _entry(status: Json, name: str) -> Json:
    entries: list[Json] = status.get("containerStatuses", [])
    return next((entry for entry in entries if entry["name"] == name), {})


def _started_at(status: Json, name: str, now: str) -> str:
    """Since when a container runs; ``now`` when it never did (the API wants a moment)."""
    return str(_entry(status, name).get("state", {}).get("running", {}).get("startedAt", now))


def _write(pod: Json, status: Json, name: str, state: Json, *, is_ready: bool, last: Json | None = None) -> None:
    """Put a container's new state into the status; ``last`` is the end that it was restarted after."""
    old_entry = _entry(status, name)
    entry = {
        "name": name,
        "image": next(spec["image"] for spec in pod["spec"]["containers"] if spec["name"] == name),
        "imageID": "",
        "ready": is_ready,
        "started": "running" in state,
        "restartCount": old_entry.get("restartCount", 0) + (last is not None),
        "state": state,
        "lastState": last or old_entry.get("lastState", {}),
    }
    _put(status.setdefault("containerStatuses", []), old_entry, entry)


def _set_readiness(status: Json, now: str, *, is_ready: bool, reason: str = "") -> None:
    for name in ("Ready", "ContainersReady"):
        _set_condition(status, now, name, str(is_ready), reason=reason)


def _set_condition(status: Json, now: str, name: str, value: str, *, reason: str = "", message: str = "") -> None:
    """Set one condition in its place; its transition time moves only when its value does."""
    conditions: list[Json] = status.setdefault("conditions", [])
    old_condition = next((entry for entry in conditions if entry["type"] == name), {})
    since = old_condition["lastTransitionTime"] if old_condition.get("status") == value else now
    entry = {"type": name, "status": value, "lastTransitionTime": since}
    entry |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    _put(conditions, old_condition, entry)


def _put(entries: list[Json], old: Json, entry: Json) -> None:
    if old:
        entries[entries.index(old)] = entry
    else:
        entries.append(entry)


def _address(pod: Json) -> str:
    """An address of the pod's own, always the same for the same UID."""
    digest = hashlib.sha256(pod["metadata"]["uid"].encode()).digest()
    return f"10.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"
