"""What goes when a job has ended, is suspended or is queued, and when the job itself goes.

Each object is deleted once, by its UID. The Services of a job that we made all carry its UID as a label, which lets
one request delete them. Those that an older operator made are deleted one by one, and all are where a user has copied
the labels to a Service of his own.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tf_operator.job import naming
from tf_operator.job.record import FailureCause
from tf_operator.job.training_job import CleanPodPolicy, RestartPolicy, TrainingJob
from tf_operator.planning.actions import Action, Delete, DeleteCollection, Patch, Stage
from tf_operator.planning.bodies import gang
from tf_operator.planning.bodies.children import PODS, SERVICES
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import Policy
from tf_operator.planning.snapshot import STOP_AFTER, Pod, Snapshot

_ONE_BY_ONE = 1


def after_end(snapshot: Snapshot) -> Iterator[Action]:
    """What the clean-pod policy takes away, or stops. The PodGroup goes in any case: it claims no place any more."""
    if snapshot.job.run_policy.clean_pods is not CleanPodPolicy.NONE:
        yield from _by_policy(snapshot)
    yield from gang.removal(snapshot)


def _by_policy(snapshot: Snapshot) -> Iterator[Action]:
    policy = snapshot.job.run_policy.clean_pods
    reason = f"the job has ended, {snapshot.job.clean_up_words}"
    for pod in snapshot.pods:
        if not pod.is_there:
            continue
        if policy is CleanPodPolicy.ALL:
            yield Delete(PODS, pod.name, pod.uid, reason)
        elif _goes_on(pod, snapshot.job):
            yield from _end(pod, snapshot.job, reason)
    if policy is not CleanPodPolicy.STOP:
        yield from _services(snapshot)


def is_done(snapshot: Snapshot) -> bool:
    """Whether nothing is left to be cleaned up after the end, and nothing still terminates."""
    if any(after_end(snapshot)):
        return False
    remaining_pods = (pod for pod in snapshot.pods if not pod.is_gone)
    stay = snapshot.job.run_policy.clean_pods is CleanPodPolicy.NONE
    return stay or not any(pod.is_terminating or _goes_on(pod, snapshot.job) for pod in remaining_pods)


def while_idle(snapshot: Snapshot, word: str) -> Iterator[Action]:
    """Everything, whatever the policy; ``word`` says what the job is: suspended or queued."""
    for pod in snapshot.pods:
        if pod.is_there:
            yield Delete(PODS, pod.name, pod.uid, f"the job is {word}")
    yield from _services(snapshot)
    yield from gang.removal(snapshot)


def expires_at(job: TrainingJob) -> datetime | None:
    """When a finished job is to be deleted; ``None`` for never.

    A negative time deletes at once, as in 1.9, a job that has run. One that was refused stays, to be read.
    """
    seconds, end = job.run_policy.ttl_seconds, job.record.completion_time
    is_refused = job.record.failure is FailureCause.INVALID_SPEC
    if seconds is None or end is None or (seconds < 0 and is_refused):
        return None
    try:
        return end + timedelta(seconds=max(seconds, 0))
    except OverflowError:
        return None  # past the end of the calendar


def _end(pod: Pod, job: TrainingJob, reason: str) -> Iterator[Action]:
    """End a pod that goes on: delete it, or stop it where its logs are wanted, if there are any."""
    has_started = pod_state.has_run(pod)
    if has_started and (job.run_policy.clean_pods is CleanPodPolicy.STOP or _ended_before(pod, job)):
        if not pod.is_stopped:
            body = {"spec": {"activeDeadlineSeconds": STOP_AFTER}}
            yield Patch(PODS, pod.name, pod.uid, f"the end of pod {pod.name}", body, Stage.DELETES)
    else:
        # Replicas end together: one that ends while this is decided stays, and its logs with it.
        yield Delete(PODS, pod.name, pod.uid, reason, pod.version)


def _ended_before(pod: Pod, job: TrainingJob) -> bool:
    """Whether the job ended with it, before the kubelet started its container again: its status says why."""
    spec = job.spec_of(pod.type)
    if spec is None or (pod.type, pod.index) != job.main_replica:
        return False
    policy = Policy(spec.restart_policy, job.profile)
    return policy.judges_restarts and pod_state.end_before_restart(pod, policy) is not None


def _services(snapshot: Snapshot) -> Iterator[Action]:
    services = tuple(
        Delete(SERVICES, service.name, service.uid) for service in snapshot.services if not service.is_terminating
    )
    are_alone = not snapshot.has_borrowed_labels and all(
        service.job_uid_label == snapshot.job.uid for service in snapshot.services
    )
    if len(services) > _ONE_BY_ONE and are_alone:
        yield DeleteCollection(SERVICES, naming.services_selector(snapshot.job), services)
    else:
        yield from services


def _goes_on(pod: Pod, job: TrainingJob) -> bool:
    """Whether anything of the pod still runs, or is going to. A pod that has ended stays, for its logs.

    The kubelet calls a pod Running until it has cleared away what was around its containers: a moment in which a job
    that has just succeeded would lose the pod whose log says why.
    """
    if pod.phase in {"Succeeded", "Failed"}:
        return False
    policy = next((spec.restart_policy for spec in job.replicas if spec.type is pod.type), RestartPolicy.ALWAYS)
    if pod.max_exit_code is None or pod.is_restarting:
        return True
    own = pod.main.exit_code if pod.restart_rules and pod.main else None
    return pod_state.starts_again(pod, pod.max_exit_code if own is None else own, policy, job.profile.restart_by)
