"""What happens to the pods of a ``Simulator`` without the operator: kubelet, scheduler, node and people, one move each.

A move is a function of the simulator. Those with a name of a replica (``worker-0``) do nothing when that replica has
no pod, or one that has ended: random histories may then play any move at any time.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from support.resources import Json
from support.simulator import ENDED, Simulator
from tf_operator.planning.snapshot import MainContainer, Pod

Move = Callable[[Simulator], None]


def everything_runs(simulator: Simulator) -> None:
    for name, pod in list(simulator.pods.items()):
        if pod.phase == "Pending" and not pod.is_terminating:
            simulator.pods[name] = _running(pod, simulator.now)


def runs(replica: str) -> Move:
    return _change(replica, lambda pod, simulator: _running(pod, simulator.now) if pod.phase == "Pending" else pod)


def succeeds(replica: str) -> Move:
    """The program ends well, and nothing else is in the pod."""
    return _change(
        replica, lambda pod, simulator: replace(_exited(pod, simulator.now, 0, "Completed"), phase="Succeeded")
    )


def fails(replica: str, code: int = 1, reason: str = "Error") -> Move:
    """The program ends badly, and the kubelet does not start it again."""
    return _change(replica, lambda pod, simulator: replace(_exited(pod, simulator.now, code, reason), phase="Failed"))


def main_ends(replica: str, code: int = 0) -> Move:
    """The program ends, and a sidecar goes on."""
    return _change(
        replica, lambda pod, simulator: _exited(_running(pod, simulator.now), simulator.now, code, "Completed")
    )


def restarts_in_place(replica: str, times: int = 1) -> Move:
    """The program ends badly, and the kubelet has started it again."""

    def restarted(pod: Pod, simulator: Simulator) -> Pod:
        last_termination = MainContainer(1, "Error", "", simulator.now, simulator.now)
        return replace(_running(pod, simulator.now), restarts=pod.restarts + times, last_termination=last_termination)

    return _change(replica, restarted, only_running=True)


def is_evicted(replica: str) -> Move:
    """The kubelet ends the pod for want of memory, and forgets what its containers were."""
    return _change(
        replica,
        lambda pod, _: replace(pod, phase="Failed", reason="Evicted", message="The node was low on memory.", main=None),
    )


def is_rejected(replica: str, reason: str) -> Move:
    """The kubelet refuses to run the pod."""
    return _change(
        replica,
        lambda pod, _: replace(pod, phase="Failed", reason=reason, main=None) if pod.phase == "Pending" else pod,
    )


def is_stuck(replica: str, why: str) -> Move:
    return _change(replica, lambda pod, _: replace(pod, pending_reason=why) if pod.phase == "Pending" else pod)


def is_drained(replica: str) -> Move:
    """Somebody empties the node: the pod is deleted, and its program gets SIGTERM."""

    def drained(pod: Pod, simulator: Simulator) -> Pod:
        main = pod.main if simulator.is_polite else MainContainer(143, "Error", "", simulator.now, simulator.now)
        main = main if pod.phase == "Running" else None
        return replace(pod, is_terminating=True, is_disrupted=True, disrupted_at=simulator.now, main=main)

    return _change(replica, drained)


def is_deleted(replica: str) -> Move:
    """The pod is gone from one moment to the next, whatever its state."""

    def move(simulator: Simulator) -> None:
        if (name := _name(simulator, replica)) in simulator.pods:
            simulator.remove(name)

    return move


def is_deleted_unseen(replica: str) -> Move:
    """The same, while no operator watched."""

    def move(simulator: Simulator) -> None:
        simulator.pods.pop(_name(simulator, replica), None)

    return move


def time_passes(seconds: float) -> Move:
    return lambda simulator: simulator.sleep(seconds)


def edited(patch: Json) -> Move:
    """Somebody edits the job."""
    return lambda simulator: simulator.edit(patch)


suspend = edited({"spec": {"runPolicy": {"suspend": True}}})
resume = edited({"spec": {"runPolicy": {"suspend": False}}})


def stops_politely(simulator: Simulator) -> None:
    """From now on programs that get SIGTERM end with 0, after they have saved their work."""
    simulator.is_polite = True


def scale_workers(count: int) -> Move:
    return edited({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})


def the_gang_is_admitted(simulator: Simulator) -> None:
    if simulator.group:
        simulator.group = replace(simulator.group, phase="Inqueue")


def _change(replica: str, change: Callable[[Pod, Simulator], Pod], *, only_running: bool = False) -> Move:
    def move(simulator: Simulator) -> None:
        pod = simulator.pods.get(_name(simulator, replica))
        if pod is None or pod.phase in ENDED or pod.is_terminating or (only_running and pod.phase != "Running"):
            return
        simulator.pods[pod.name] = change(pod, simulator)

    return move


def _running(pod: Pod, now: datetime) -> Pod:
    return replace(pod, phase="Running", pending_reason="", main=MainContainer(started_at=now))


def _exited(pod: Pod, now: datetime, code: int, reason: str) -> Pod:
    started = pod.main.started_at if pod.main and pod.main.started_at else now
    return replace(pod, main=MainContainer(code, reason, "", started, now))


def _name(simulator: Simulator, replica: str) -> str:
    """The name of the pod of a replica that has not ended, or of its last one; empty without any."""
    found = [pod for pod in simulator.pods.values() if f"{pod.type.label}-{pod.index}" == replica]
    return max(found, key=lambda pod: pod.phase not in ENDED).name if found else ""
