"""What happens to the pods of a ``Simulator`` without the operator: kubelet, scheduler, node and people, one move each.

A move is a function of the simulator. Those with a name of a replica (``worker-0``) do nothing when that replica has
no pod, or one that has ended: random histories may then play any move at any time.
"""

from collections.abc import Callable
from functools import partial

from support.embedded.embedded_api import refused
from support.embedded.simulator import ENDED, Simulator
from support.pods import pod_status
from support.pods.pod_status import Exit, Waiting, killed_by
from support.resources import Json
from tf_operator.planning.snapshot import Pod

Move = Callable[[Simulator], None]


def everything_runs(simulator: Simulator) -> None:
    for pod in simulator.pods.values():
        if not pod.is_terminating:
            _run(pod, simulator)


def runs(replica: str) -> Move:
    return _change(replica, _run)


def succeeds(replica: str) -> Move:
    """The program ends well, and nothing else is in the pod."""
    return _write(replica, pod_status.finished)


def fails(replica: str, code: int = 1, reason: str = "") -> Move:
    """The program ends badly, and the kubelet does not start it again."""
    return _write(replica, partial(pod_status.finished, how=Exit(code, reason=reason)))


def main_ends(replica: str, code: int = 0) -> Move:
    """The program ends, and a sidecar goes on."""

    def end(pod: Pod, simulator: Simulator) -> None:
        _run(pod, simulator)
        simulator.set_pod(pod.name, partial(pod_status.main_ended, how=Exit(code)))

    return _change(replica, end)


def restarts_in_place(replica: str, times: int = 1, code: int = 1) -> Move:
    """The program ends, and the kubelet has started it again."""

    def restart(pod: Pod, simulator: Simulator) -> None:
        if pod.phase == "Running":
            simulator.set_pod(pod.name, *[partial(pod_status.restarted, how=Exit(code))] * times)

    return _change(replica, restart)


def exits_by_rule(replica: str, code: int) -> tuple[Move, ...]:
    """The program ends, and then the kubelet starts it again, if the pod has a rule about this exit code.

    That is one move more where the rule restarts all containers: they begin again as if the pod were new.
    """

    def end(pod: Pod, simulator: Simulator) -> None:
        if (rules := pod.restart_rules) and rules.has_rule(code) and pod.main and pod.main.exit_code is None:
            how, is_of_all = Exit(code), rules.restarts_all(code)
            simulator.set_pod(pod.name, partial(pod_status.ended_by_rule, how=how, is_of_all=is_of_all))

    def go_on(pod: Pod, simulator: Simulator) -> None:
        if pod.is_restarting and pod.phase == "Running":
            simulator.set_pod(pod.name, pod_status.begun_again)
        elif pod.phase == "Running" and pod.main and pod.main.exit_code == code and pod.restart_rules:
            simulator.set_pod(pod.name, partial(pod_status.restarted, how=Exit(code)))

    return _change(replica, end), _change(replica, go_on), runs(replica)


def is_evicted(replica: str) -> Move:
    """The kubelet ends the pod for want of memory, and forgets what its containers were."""
    return _write(replica, pod_status.evicted)


def is_rejected(replica: str, reason: str) -> Move:
    """The kubelet refuses to run the pod."""
    return _write(replica, partial(pod_status.rejected, reason=reason, message=reason), phase="Pending")


def is_stuck(replica: str, reason: str, message: str = "") -> Move:
    return _write(replica, partial(pod_status.pending, waiting=Waiting(reason, message)), phase="Pending")


def is_starting(replica: str) -> Move:
    """It has a node, which prepares it."""
    return is_stuck(replica, "ContainerCreating")


def is_drained(replica: str) -> Move:
    """Somebody empties the node: the pod is deleted, and its program gets SIGTERM."""

    def drain(pod: Pod, simulator: Simulator) -> None:
        simulator.bind(pod.name)
        if pod.phase == "Running" and not simulator.is_polite:
            simulator.set_pod(pod.name, partial(pod_status.main_ended, how=killed_by(15)))
        simulator.set_pod(
            pod.name, partial(pod_status.disrupted, reason="EvictionByEvictionAPI", message="Eviction API: evicting")
        )
        simulator.delete(pod.name)

    return _change(replica, drain)


def is_deleted(replica: str) -> Move:
    """The pod is gone from one moment to the next, whatever its state."""

    def move(simulator: Simulator) -> None:
        if (name := _name(simulator, replica)) in simulator.pods:
            simulator.operator.sync()
            simulator.vanish(name)

    return move


def is_deleted_unseen(replica: str) -> Move:
    """The same, while no operator watched."""

    def move(simulator: Simulator) -> None:
        is_deleted(replica)(simulator)
        simulator.restart()

    return move


def time_passes(seconds: float) -> Move:
    return lambda simulator: simulator.sleep(seconds)


def edited(patch: Json) -> Move:
    """Somebody edits the job."""
    return lambda simulator: simulator.edit(patch)


suspend = edited({"spec": {"runPolicy": {"suspend": True}}})
resume = edited({"spec": {"runPolicy": {"suspend": False}}})


def refused_next(call: str, *codes: int) -> Move:
    """The API server does not accept the next requests that begin with ``call``, one for each code."""
    return lambda simulator: simulator.fail(call, *(refused(code, "", "not so") for code in codes))


def stops_politely(simulator: Simulator) -> None:
    """From now on programs that get SIGTERM end with 0, after they have saved their work."""
    simulator.is_polite = True


def scale_workers(count: int) -> Move:
    return edited({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})


def the_gang_is_admitted(simulator: Simulator) -> None:
    if groups := simulator.operator.groups:
        for body in simulator.of(groups):
            simulator.put(groups, body | {"status": {"phase": "Inqueue"}})


def _run(pod: Pod, simulator: Simulator) -> None:
    if pod.phase == "Pending":
        simulator.bind(pod.name)
        simulator.set_pod(pod.name, pod_status.running)


def _write(replica: str, change: Callable[[Json, str], Json], *, phase: str = "") -> Move:
    """The kubelet writes it, in this phase only, if any is given."""
    return _change(
        replica, lambda pod, simulator: simulator.set_pod(pod.name, change) if phase in {"", pod.phase} else None
    )


def _change(replica: str, change: Callable[[Pod, Simulator], object]) -> Move:
    def move(simulator: Simulator) -> None:
        pod = simulator.pods.get(_name(simulator, replica))
        if pod is not None and pod.phase not in ENDED and not pod.is_terminating:
            change(pod, simulator)

    return move


def _name(simulator: Simulator, replica: str) -> str:
    """The name of the pod of a replica that has not ended, or of its last one; empty without any."""
    pods = [pod for pod in simulator.pods.values() if f"{pod.type.label}-{pod.index}" == replica]
    return max(pods, key=lambda pod: pod.phase not in ENDED).name if pods else ""
