"""Jobs that start again as a whole, because their replicas train in step: one that is lost takes the others along.

The loss that came first counts, as one restart or one disruption. All other pods are given up with it, by their UIDs
and in the same write, so how those end counts nowhere: most of them fail because the first one is gone. The next pods
are made when the last of these is gone, because they would train with what is left of the run before.

In place, what came first may be a program that its kubelet has started again, or one that hangs, in a pod that stays.
The other pods stay, too, and are told to begin the attempt (``attempts``); how one ends that has not begun it is a
consequence of what came first.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import chain

from msgspec import structs

from tf_operator.job.record import JobPhase, JobRecord, ReplicaType
from tf_operator.job.restart_rules import RESTARTING_ALL
from tf_operator.job.training_job import RestartPolicy, RestartScope, TrainingJob
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.pods import attempts, avoided_nodes, pod_state
from tf_operator.planning.pods.attempts import NextStep
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss, RestartInPlace, is_from_before
from tf_operator.planning.snapshot import Pod, Snapshot

Groups = dict[ReplicaType, tuple[Replica, ...]]
Restarts = tuple[RestartInPlace, ...]


def starts_again(job: TrainingJob) -> bool:
    """Whether a replica that is replaced takes the others along."""
    return job.run_policy.restart_scope is RestartScope.JOB


def is_under_way(job: TrainingJob) -> bool:
    """Whether all its pods are being replaced, after one was lost."""
    return starts_again(job) and job.record.phase is JobPhase.RESTARTING


def restarted(snapshot: Snapshot, groups: Groups, restarts: Restarts) -> tuple[Groups, Restarts]:
    """The replicas, of which the first that is lost is replaced and the others are given up; or all as they are.

    And those of the restarts in place that count.
    """
    job = snapshot.job
    if job.run_policy.restarts_in_place:
        return _restarted_in_place(snapshot, groups, restarts)
    if not (starts_again(job) and _has_losses(groups)):
        return groups, restarts
    new_groups, first = _with_first_loss(job, groups, snapshot.now)
    if first is None or first.is_permanent:
        return groups, restarts
    return _each(new_groups, lambda replica: replica if replica.loss is first else replica.restarted()), restarts


def _restarted_in_place(snapshot: Snapshot, groups: Groups, restarts: Restarts) -> tuple[Groups, Restarts]:
    """The replicas, of which those are given up that cannot begin the attempt in place, or do not; and what counts."""
    job, now = snapshot.job, snapshot.now
    began_at = _began_at(job.record, chain.from_iterable(groups.values()), now)
    groups = _each(groups, lambda replica: _settled(replica, snapshot, began_at))
    causes = tuple(entry for entry in restarts if _is_cause(job.record, entry))
    if not (causes or _has_losses(groups)):
        return groups, ()
    new_groups, first = _with_first_loss(job, groups, now)
    restart = min(causes, key=lambda entry: _first_end(entry, now), default=None)
    if restart and first and _order(first, now) < (_first_end(restart, now), False):
        restart = None
    if restart is None and first and first.is_permanent:
        return groups, ()
    nodes = frozenset(avoided_nodes.names(job, job.record.avoided_nodes))
    themselves = frozenset() if first else started_again(restarts)

    def next_of(replica: Replica) -> Replica:
        pod = replica.pod
        may_stay = pod is not None and pod.is_there and pod.host.node not in nodes
        can_be_told = pod is not None and may_stay and resize_sidecar.takes_signals(pod, snapshot.settings)
        if restart is None and replica.loss is first and first:
            return replica.kept() if first.hang and can_be_told else replica
        if replica.loss is None and (can_be_told or (pod and may_stay and pod.uid in themselves)):
            return replica
        return replica.restarted()

    # However often it was restarted meanwhile, that is one attempt.
    return _each(new_groups, next_of), (restart._replace(times=1, outgrown=0),) if restart else ()


def started_again(restarts: Iterable[RestartInPlace]) -> frozenset[str]:
    """The UIDs of the pods that have begun an attempt by themselves: no program has ended since theirs was started.

    Where pods are replaced, none has: they all begin when these are gone.
    """
    last = max(filter(None, (entry.ended_at for entry in restarts)), default=None)
    starts = ((entry.pod.uid, entry.pod.main.started_at if entry.pod.main else None) for entry in restarts)
    return frozenset(uid for uid, start in starts if start is None or last is None or start >= last)


def has_yet_to_begin(record: JobRecord, replica: Replica) -> bool:
    """Whether its pod is of the run before, in place."""
    return replica.pod is not None and not replica.is_completed and not _has_begun(record, replica, replica.pod)


def is_awaited(job: TrainingJob, replica: Replica) -> bool:
    """Whether its program is yet to be started for the attempt, in place."""
    pod = replica.pod
    if pod is None or replica.is_completed or not job.run_policy.restarts_in_place:
        return False
    return has_yet_to_begin(job.record, replica) or pod_state.waits_for_restart(pod)


def _is_cause(record: JobRecord, restart: RestartInPlace) -> bool:
    """Whether its program failed after it had begun the attempt, and was not restarted with all of its pod since."""
    end = restart.pod.last_termination
    is_of_all = end is not None and end.reason == RESTARTING_ALL
    return not is_of_all and _has_begun(record, restart.replica, restart.pod)


def _has_begun(record: JobRecord, replica: Replica, pod: Pod) -> bool:
    return attempts.has_begun(record, pod, replica.record)


def _first_end(restart: RestartInPlace, now: datetime) -> datetime:
    """When its program ended first. Of several ends the kubelet keeps the last one."""
    if restart.times > 1:
        return datetime.min.replace(tzinfo=now.tzinfo)
    return restart.ended_at or now


def _began_at(record: JobRecord, replicas: Iterable[Replica], now: datetime) -> datetime | None:
    """When the last pod that was told has begun the attempt; now, if one has yet to. ``None``: none was told."""
    starts = []
    for replica in replicas:
        pod, restart = replica.pod, replica.record
        if has_yet_to_begin(record, replica) or (restart and restart.replaced and replica.needs_pod):
            return now
        if pod and pod.main and pod.main.started_at and pod.restart_request and attempts.is_told(record, pod):
            starts.append(pod.main.started_at)
    return max(starts, default=None)


def _settled(replica: Replica, snapshot: Snapshot, began_at: datetime | None) -> Replica:
    """The replica without a loss that is a consequence; given up, if its pod does not do what it is told.

    Before all have begun the attempt, a program may have met one of the run before, and fail in a way that looks final.
    """
    record, pod, loss = snapshot.job.record, replica.pod, replica.loss
    if loss:
        if loss.pod and not _has_begun(record, replica, loss.pod):
            return replica.restarted()
        is_early = began_at is not None and (loss.ended_at or snapshot.now) <= began_at
        is_doubtful = is_early and loss.is_permanent and replica.spec.restart_policy is RestartPolicy.EXIT_CODE
        return structs.replace(replica, loss=structs.replace(loss, outcome=PodState.FAILED)) if is_doubtful else replica
    if pod is None or not pod.is_there:
        return replica
    step = attempts.next_step(record, pod, replica.record, now=snapshot.now)
    is_deaf = step is NextStep.REQUEST and not resize_sidecar.takes_signals(pod, snapshot.settings)
    return replica.restarted() if is_deaf or step is NextStep.GIVE_UP else replica


def _has_losses(groups: Groups) -> bool:
    return any(replica.loss for group in groups.values() for replica in group)


def _with_first_loss(job: TrainingJob, groups: Groups, now: datetime) -> tuple[Groups, ReplicaLoss | None]:
    """The replicas, of which some are lost because somebody deletes their pods; and what was lost first."""
    new_groups = _each(groups, lambda replica: _lost_if_stopped(replica, job))
    losses = (replica.loss for group in new_groups.values() for replica in group if replica.loss)
    return new_groups, min(losses, key=lambda loss: _order(loss, now), default=None)


def _each(groups: Groups, change: Callable[[Replica], Replica]) -> Groups:
    return {kind: tuple(change(replica) for replica in group) for kind, group in groups.items()}


def has_failed(replica: Replica) -> bool:
    """Whether its pod has failed, so that it comes to no success any more."""
    pod = replica.last_pod
    return pod is not None and (pod.phase == "Failed" or bool(pod.main and pod.main.exit_code))


def has_old_pods(replicas: Iterable[Replica]) -> bool:
    """Whether pods of the run before are still there, which may end with this plan."""
    return any((replica.loss and not replica.loss.keeps_pod) or _is_leaving(replica) for replica in replicas)


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
    return structs.replace(replica, loss=ReplicaLoss(*place, PodState.DISRUPTED, pod.changed(is_gone=True)))


def _order(loss: ReplicaLoss, now: datetime) -> tuple[datetime, bool]:
    """Kubelets write whole seconds: of what ended in the same one, a failure for good is taken for the consequence.

    Of a pod that was deleted nobody may know when it ended. It cannot have been deleted because of the others.
    """
    pod = loss.pod
    moments = [moment for moment in (loss.ended_at, pod.disrupted_at if pod else None) if moment]
    is_deleted = pod is None or (pod.is_gone and not pod_state.has_failed(pod))
    default = datetime.min.replace(tzinfo=now.tzinfo) if is_deleted else now
    return min(moments, default=default), loss.is_permanent
