"""The evidence of a failure: a few words for messages and events, and the first failure that the status keeps.

Both come from what the kubelet reported of the pod, while there is one: a failed pod is deleted, and a container that
is restarted in place keeps only its last termination. Nothing is decided here: ``pod_state`` judges a pod, ``verdict``
the job, and ``restarts`` counts.
"""

from collections.abc import Iterable
from datetime import datetime

from tf_operator.job import restart_rules
from tf_operator.job.profile import RestartBy
from tf_operator.job.record import FirstFailure
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning import memory_growth
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import hangs, pod_state, termination_message
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import MainContainer, Pod
from tf_operator.text import LONGEST_MESSAGE, shortened


def first(losses: Iterable[ReplicaLoss], view: JobView) -> ReplicaLoss | None:
    """The loss that came first; of those at one moment, the one in the first slot."""
    return min(losses, key=lambda loss: _ended_at(loss, view), default=None)


def of_loss(loss: ReplicaLoss, view: JobView) -> FirstFailure:
    """What is kept of a pod that is lost."""
    snapshot = view.snapshot
    if loss.hang:
        return of_hang(view)
    if loss.pod is None:
        return FirstFailure(pod=loss.name, reason="Lost", message="the pod was deleted", time=snapshot.now)
    main = loss.pod.main
    return FirstFailure(
        pod=loss.pod.name,
        container=snapshot.job.profile.container if main and main.exit_code is not None else "",
        exit_code=main.exit_code if main else None,
        reason=loss.pod.reason or (main.reason if main else ""),
        message=termination_message.end(main.message if main else "") or shortened(loss.pod.message, LONGEST_MESSAGE),
        time=_ended_at(loss, view),
    )


def of_hang(view: JobView) -> FirstFailure:
    """What is kept of a program that makes no progress: its pod has not ended."""
    kind, index = view.snapshot.job.main_replica
    return FirstFailure(
        pod=view.of(kind)[index].name, reason=hangs.REASON, message=view.hang.text, time=view.snapshot.now
    )


def of_restart(replica: Replica, pod: Pod, view: JobView) -> FirstFailure:
    """What is kept of a failure after which the kubelet started the container again."""
    termination = pod.last_termination or MainContainer()
    return FirstFailure(
        pod=pod.name,
        container=view.snapshot.job.profile.container if pod.last_termination else "",
        exit_code=None if termination.reason == restart_rules.RESTARTING_ALL else termination.exit_code,
        reason=termination.reason,
        message=termination_message.end(termination.message) or describe_restarts(replica, pod),
        time=termination.finished_at or view.snapshot.now,
    )


def describe(loss: ReplicaLoss) -> str:
    """Who is to blame for a loss: ``worker-1 (pod j-worker-1) exited with code 1``."""
    if loss.hang:
        return f"{loss.title}: {loss.hang}"
    if loss.pod is None or was_lost(loss.pod):
        return f"{loss.title} was lost: its pod was deleted while it ran"
    return f"{loss.title} {pod_state.what_happened(loss.pod)}{loss.at_maximum}"


def describe_restarts(replica: Replica, pod: Pod) -> str:
    """Who is to blame for restarts in place, and why it was restarted the last time."""
    times = "once" if pod.restarts == 1 else f"{pod.restarts} times"
    cause = f"; it last {pod_state.how_it_ended(pod.last_termination)}" if pod.last_termination else ""
    most = memory_growth.at_maximum(replica.spec, pod.last_termination)
    return f"{replica.title} was restarted {times} in place{cause}{most}"


def describe_exit(replica: Replica, pod: Pod) -> str:
    """Who is to blame for the last restart in place. The same words each time, so that events of it are one."""
    how = pod_state.how_it_ended(pod.last_termination) if pod.last_termination else "had a container that ended"
    return f"{replica.title} {how}{memory_growth.at_maximum(replica.spec, pod.last_termination)}"


def was_lost(pod: Pod) -> bool:
    """Whether somebody deleted it while it ran, and nobody said why; what had failed by then, has failed."""
    return pod.is_gone and (pod.is_terminating or pod.phase != "Failed") and not pod_state.is_disrupted(pod)


def policy_hint(loss: ReplicaLoss, view: JobView) -> str:
    """Why it is not tried again."""
    if view.snapshot.job.profile.restart_by is RestartBy.TEMPLATE:
        return "; that is permanent"
    policy = next(replica.spec.restart_policy for replica in view.replicas if replica.spec.type is loss.type)
    if policy is RestartPolicy.EXIT_CODE:
        return f"; under restartPolicy {policy} that is permanent"
    return f"; its restartPolicy is {policy}"


def _ended_at(loss: ReplicaLoss, view: JobView) -> datetime:
    return loss.ended_at or view.snapshot.now
