"""Jobs that start again as a whole, because their replicas train in step: one that is lost takes the others along.

The loss that came first counts, as one restart or one disruption. All other pods are given up with it, by their UIDs
and in the same write, so how those end counts nowhere: most of them fail because the first one is gone. The next pods
are made when the last of these is gone, because they would train with what is left of the run before.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from tf_operator.job.record import JobPhase, ReplicaType
from tf_operator.job.training_job import RestartPolicy, RestartScope, TrainingJob
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss, is_from_before

Groups = dict[ReplicaType, tuple[Replica, ...]]


def starts_again(job: TrainingJob) -> bool:
    """Whether a replica that is replaced takes the others along."""
    return job.run_policy.restart_scope is RestartScope.JOB


def is_under_way(job: TrainingJob) -> bool:
    """Whether all its pods are being replaced, after one was lost."""
    return starts_again(job) and job.record.phase is JobPhase.RESTARTING


def restarted(job: TrainingJob, groups: Groups, now: datetime) -> Groups:
    """The replicas, of which the first that is lost is replaced and the others are given up; or all as they are."""
    if not (starts_again(job) and any(replica.loss for group in groups.values() for replica in group)):
        return groups
    lost = {kind: tuple(_lost_if_stopped(replica, job) for replica in group) for kind, group in groups.items()}
    losses = (replica.loss for group in lost.values() for replica in group if replica.loss)
    first = min(losses, key=lambda loss: _order(loss, now))
    if first.is_permanent:
        return groups
    return {
        kind: tuple(replica if replica.loss is first else replica.restarted() for replica in group)
        for kind, group in lost.items()
    }


def has_failed(replica: Replica) -> bool:
    """Whether its pod has failed, so that it comes to no success any more."""
    pod = replica.last_pod
    return pod is not None and (pod.phase == "Failed" or bool(pod.main and pod.main.exit_code))


def has_old_pods(replicas: Iterable[Replica]) -> bool:
    """Whether pods of the run before are still there, which may end with this plan."""
    return any(replica.loss or _is_leaving(replica) for replica in replicas)


def _is_leaving(replica: Replica) -> bool:
    """Whether its pod has been given up."""
    record, pod = replica.record, replica.pod
    return bool(record and pod and record.replaced and record.uid == pod.uid)


def _lost_if_stopped(replica: Replica, job: TrainingJob) -> Replica:
    """The same replica; lost, if somebody deletes its pod, and the program has ended, or will because of a disruption.

    Alone it would be lost when its pod is gone. The others may fail before that, because of it.
    """
    pod, record = replica.pod, replica.record
    if pod is None or not pod.is_terminating or replica.outcome is not PodState.TERMINATING or replica.is_completed:
        return replica
    is_ours = is_from_before(pod, job.record) or (record is not None and record.replaced and record.uid == pod.uid)
    has_ended = bool(pod.main and pod.main.exit_code) or pod_state.is_disrupted(pod)
    if is_ours or not (has_ended and pod_state.has_run(pod)) or replica.spec.restart_policy is RestartPolicy.NEVER:
        return replica
    place = replica.spec.type, replica.index, replica.name
    return replace(replica, loss=ReplicaLoss(*place, PodState.DISRUPTED, replace(pod, is_gone=True)))


def _order(loss: ReplicaLoss, now: datetime) -> tuple[datetime, bool]:
    """Kubelets write whole seconds: of what ended in the same one, a failure for good is taken for the consequence.

    Of a pod that was deleted nobody may know when it ended. It cannot have been deleted because of the others.
    """
    pod = loss.pod
    moments = [moment for moment in (loss.ended_at, pod.disrupted_at if pod else None) if moment]
    is_deleted = pod is None or (pod.is_gone and not pod_state.has_failed(pod))
    default = datetime.min.replace(tzinfo=now.tzinfo) if is_deleted else now
    return min(moments, default=default), loss.is_permanent
