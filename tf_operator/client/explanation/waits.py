"""What keeps the pods of a job from being made or from running, and what to do about it."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tf_operator.client.explanation.situation import Situation
from tf_operator.client.pods import JobPod
from tf_operator.client.upload import uploaded_job
from tf_operator.job.record import JobPhase, PendingKind, ReplicaType
from tf_operator.planning.snapshot import DEFAULT_SETTINGS

_MOST: Final = 3
"""Reasons that are shown one by one."""
_CLAIM: Final = "kubectl get pvc,storageclass: a claim has no volume: its storage class has to create one"
_PULL: Final = "check the image's name and tag, imagePullSecrets, and whether the nodes reach the registry"
_LONG: Final = 60
"""Seconds after which programs have found each other."""
_MISSING: Final = re.compile(
    r'\b(?:secret|configmap)s? "[^"]*" not found|non-existent (?:secret|config) key|find key .* in (?:Secret|ConfigMap)'
)
"""How kubelets say that a Secret or ConfigMap, or a key of one, is not there: for volumes and for variables."""
_CREATE: Final = "create the Secret or ConfigMap that the message names, in the job's namespace"
_SEND_AGAIN: Final = "submit it again with --upload and --replace: its files did not arrive, or were deleted"
_NO_CHIEF: Final = "perhaps a chief: with parameter servers, workers of TensorFlow 2 do nothing until one tells them to"
_STEPS: Final[Mapping[str, str]] = {
    "Unschedulable": "free or add nodes, or change requests, tolerations or volumes, as the scheduler's message says",
    "SchedulingGated": "ask the controller that has set the pod's schedulingGates",
    "ErrImagePull": _PULL,
    "ImagePullBackOff": _PULL,
    "InvalidImageName": _PULL,
    "ErrImageNeverPull": _PULL,
    "CreateContainerConfigError: workingDir": "make that folder, correct workingDir, or name what stands for it:"
    " tfjob run FILE --mount PATH=FOLDER",
    "CreateContainerConfigError": "fix what the message names",
    "CreateContainerError": "check command, volumeMounts and securityContext of the template",
    "CrashLoopBackOff": "see the log of the container that crashes",
    "no scheduler has taken the pod": "check schedulerName of the template, and that this scheduler runs",
    "ContainerCreating": "if it lasts: check its volumes, Secrets and network; the pod's events say more",
    "PodInitializing": "if it lasts: check its init containers, with tfjob logs -c NAME",
    "its node has not started it": "if it lasts: kubectl get nodes",
}


class Wait(NamedTuple):
    conditions: tuple[str, ...]
    steps: tuple[str, ...]


def find(situation: Situation) -> Wait | None:
    return _rejected(situation) or _pending(situation) or _without_pods(situation)


def terminating(situation: Situation) -> tuple[str, ...]:
    names = [pod.name for pod in situation.pods if pod.is_terminating]
    return (f"{_join_names(names)} to be gone",) if names else ()


def missing(situation: Situation) -> tuple[str, ...]:
    """The replicas that have no pod, and have not succeeded before."""
    there, record = {pod.replica for pod in situation.pods}, situation.job.spec.record
    names = [
        name
        for spec in situation.job.spec.replicas
        for index in range(spec.count if situation.are_pods_known else 0)
        if (name := f"{spec.type.label}-{index}") not in there and index not in record.of(spec.type).completed
    ]
    return (f"the operator, which has not created a pod for {_join_names(names)}",) if names else ()


def chief(situation: Situation) -> Wait:
    """What workers and parameter servers wait for that have no chief, once the job has run for a while."""
    started = situation.job.started
    has_run = started is not None and (situation.now - started).total_seconds() >= _LONG
    if not (has_run and situation.job.spec.has_servers_without_chief):
        return Wait((), ())
    name = situation.job.spec.profile.words.type(ReplicaType.CHIEF)
    return Wait(
        (_NO_CHIEF,), (f"if there is no progress: create the job again with a {name}, which hands out the steps",)
    )


def _pending(situation: Situation) -> Wait | None:
    by_reason = dict[str, list[JobPod]]()
    for pod in situation.pods:
        if pod.pending_reason and not pod.is_terminating:
            by_reason.setdefault(pod.pending_reason, []).append(pod)
    gone = terminating(situation)
    if not by_reason:
        if not gone:
            return None
        return Wait(gone, ("wait for the grace period; if it is over, the node may be lost: kubectl get nodes",))
    ordered = sorted(by_reason.items(), key=lambda group: -len(group[1]))[:_MOST]
    groups = [
        (_explain_reason(situation, reason, pods), _join_names([pod.replica for pod in pods]))
        for reason, pods in ordered
    ]
    steps = dict.fromkeys(_step(reason, uploaded_job.config_map_name(situation.job.body)) for reason, _ in groups)
    return Wait((*(f"{replicas}: {reason}" for reason, replicas in groups), *gone), tuple(filter(None, steps)))


def _explain_reason(situation: Situation, reason: str, pods: list[JobPod]) -> str:
    warning = situation.last_warning(*(pod.name for pod in pods))
    if warning is None or warning.message.removeprefix("Error: ") in reason:
        return reason
    return f"{reason} ({warning.reason}: {warning.message})"


def _step(reason: str, files: str) -> str:
    if files and f'"{files}" not found' in reason:
        return _SEND_AGAIN
    if _MISSING.search(reason):
        return _CREATE
    if "unbound immediate PersistentVolumeClaims" in reason:
        return _CLAIM
    return next((step for beginning, step in _STEPS.items() if reason.startswith(beginning)), "")


def _rejected(situation: Situation) -> Wait | None:
    """The API server does not let the operator make a pod or a Service."""
    record, warning = situation.job.spec.record.pending, situation.last_warning(situation.job.name)
    is_recorded = record is not None and record.kind is PendingKind.REJECTED
    is_reported = warning is not None and warning.reason.startswith("FailedCreate")
    if not is_recorded and not (is_reported and situation.are_pods_known and not situation.pods):
        return None
    message = record.reason if record and is_recorded else warning.message if warning else ""
    step = "fix what the message says: the operator tries again by itself"
    if "must specify" in message:
        step = "submit it again with --replace and with what the message names in the resources of its containers"
    elif "quota" in message:
        step = "raise the namespace's quota, or request less: the operator tries again by itself"
    child = record.subject if record and is_recorded else "a pod"
    return Wait((f"{child}, which was rejected: {message}",), (step,))


def _without_pods(situation: Situation) -> Wait | None:
    """The operator has accepted the job and made none of its pods."""
    job = situation.job
    if situation.pods or not situation.are_pods_known or not job.spec.pod_count:
        return None
    if "PodGroup" in job.message:
        step = f"kubectl -n {job.namespace} describe podgroups {job.name}: its conditions say what is missing"
        return Wait(("its PodGroup, which the gang scheduler has not admitted",), (step,))
    if job.phase is JobPhase.RESTARTING and _may_be_in_backoff(situation):
        return Wait(("the end of its backoff, after which new pods are created",), (f"tfjob events {job.name}",))
    if (situation.age or 0) < 10:
        return Wait(("the operator, which creates its pods",), ("wait a moment",))
    return Wait(("the operator, which has not created its pods",), (f"tfjob events {job.name}", "tfjob doctor"))


def _may_be_in_backoff(situation: Situation) -> bool:
    moments = [entry.time for entry in situation.job.spec.record.restart_records if entry.time]
    return bool(moments) and situation.now - max(moments) < DEFAULT_SETTINGS.longest_restart_delay


def _join_names(names: list[str]) -> str:
    if len(names) <= _MOST:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST])} and {len(names) - _MOST} more"
