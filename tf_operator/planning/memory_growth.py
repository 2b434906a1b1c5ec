"""OOM kills that more memory may avoid: the next pods of the type get more, and the replica is tried again.

The new limit is recorded in the write that counts the loss, before the pod is deleted, so that no crash grows it twice.
A pod says in an annotation with which limit it was made. One that has less than is in force now is from before a
growth: it is replaced, and nothing grows again for it. None of this is in the backoff limit, because it is bounded:
by the maximum of the policy, and by the pods of before.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from msgspec import structs

from tf_operator import quantity
from tf_operator.job.memory import MemoryLimit
from tf_operator.job.profile import OOM_KILLED, RestartBy
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.planning.kueue import state
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import MainContainer, Pod, Snapshot


def without_effect(spec: ReplicaSpec, snapshot: Snapshot) -> str:
    """Why the memory of a type does not grow although it has an ``oomPolicy``; empty if it does."""
    if spec.memory is None:
        return "the template has no memory limit of its container, so a pod is killed because its node is full"
    if state.QUEUE in snapshot.job.labels and snapshot.kueue is None:
        return "Kueue keeps quota for what the template says; with --kueue=external the job is queued again for more"
    return ""


def possible(job: TrainingJob) -> Iterator[ReplicaType]:
    """The types whose pods may get more memory, and those whose policy has no effect."""
    return (spec.type for spec in job.replicas if spec.oom_policy)


def judged(snapshot: Snapshot, replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    """The replicas of one type, where an OOM kill is tried again under every policy, if there is more memory."""
    memory = replicas[0].spec.memory if replicas else None
    if memory is None or without_effect(replicas[0].spec, snapshot):
        return replicas
    by = snapshot.job.profile.restart_by
    return tuple(_judged(replica, memory, by) for replica in replicas)


def _judged(replica: Replica, memory: MemoryLimit, by: RestartBy) -> Replica:
    loss = _oom_loss(replica) or _killed_in_place(replica, by)
    if loss is None or loss.pod is None:
        return replica
    if _is_avoidable(loss.pod, memory):
        loss_to_retry = structs.replace(loss, outcome=PodState.FAILED, is_outgrown=True)
        return structs.replace(replica, outcome=PodState.FAILED, loss=loss_to_retry)
    if loss.was_restarted:
        return replica
    judged_loss = structs.replace(loss, at_maximum=at_maximum(replica.spec, loss.pod.main))
    return structs.replace(replica, loss=judged_loss)


def _oom_loss(replica: Replica) -> ReplicaLoss | None:
    """Its loss, if that is an OOM kill."""
    loss = replica.loss
    pod = loss.pod if loss and loss.has_failed else None
    return loss if pod and not pod_state.is_disrupted(pod) and _was_killed(pod.main) else None


def _killed_in_place(replica: Replica, by: RestartBy) -> ReplicaLoss | None:
    """What its kubelet has made good with as little memory as before, as a loss: the pod is replaced."""
    pod, record = replica.pod, replica.record
    if replica.loss or replica.is_completed or pod is None or not pod.is_there or not _was_killed(pod.last_termination):
        return None
    restarts_record = record if record and record.uid == pod.uid else None
    restarts = pod_state.restarts_in_place(pod, replica.spec.restart_policy, by)
    if (restarts_record and restarts_record.replaced) or restarts <= (
        restarts_record.in_place if restarts_record else 0
    ):
        return None
    pod_at_end = pod.changed(main=pod.last_termination, restarts=restarts)
    return ReplicaLoss(replica.spec.type, replica.index, replica.name, PodState.FAILED, pod_at_end, was_restarted=True)


def _was_killed(end: MainContainer | None) -> bool:
    return end is not None and end.reason == OOM_KILLED


def outgrown_restarts(snapshot: Snapshot, replica: Replica, pod: Pod) -> int:
    """Of the restarts in place of a pod that nobody can replace any more: how many the next limit would have avoided.

    Only of the last one it is known how it came about.
    """
    memory = replica.spec.memory
    if memory is None or not _was_killed(pod.last_termination) or without_effect(replica.spec, snapshot):
        return 0
    return int(_is_avoidable(pod, memory))


def at_maximum(spec: ReplicaSpec, end: MainContainer | None) -> str:
    """For messages: that nothing grows any more after such an end."""
    if not _was_killed(end) or spec.memory is None or spec.memory.next:
        return ""
    return f"; it had {spec.memory.policy.maximum}, the maximum of oomPolicy"


def _is_avoidable(pod: Pod, memory: MemoryLimit) -> bool:
    """Whether the next pod gets more memory than this one had."""
    return _is_smaller(pod, memory) or memory.next is not None


def _is_smaller(pod: Pod, memory: MemoryLimit) -> bool:
    """Whether the pod is from before a growth; one without the annotation is from before there was a policy."""
    return (quantity.parse(pod.memory_limit) or memory.template) < memory.in_force


def growths(job: TrainingJob, pods: Iterable[Pod]) -> dict[ReplicaType, Decimal]:
    """The next limits of the types whose pods were killed with what is in force."""
    memories = {spec.type: spec.memory for spec in job.replicas}
    return {
        pod.type: memory.next
        for pod in pods
        if (memory := memories[pod.type]) and memory.next and not _is_smaller(pod, memory)
    }
