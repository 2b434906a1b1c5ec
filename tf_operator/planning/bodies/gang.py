"""The PodGroup of a job, for clusters in which a gang scheduler places all pods of a job or none.

It is made before the pods, and its spec follows edits of the job. ``gang_schedulers`` has what differs between them.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tf_operator import quantity
from tf_operator.job import constants
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning.actions import Action, Create, Delete, Patch
from tf_operator.planning.bodies import children, gang_schedulers
from tf_operator.planning.snapshot import Settings, Snapshot

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def scheduler(name: str) -> str:
    """The setting as it is kept and shown: the scheduler's own name, or ``""`` for none."""
    gang_scheduler = gang_schedulers.find(name)
    return gang_scheduler.name if gang_scheduler else ""


def copies_annotation(name: str) -> bool:
    """Whether the group gets this annotation of the job, as in 1.9: what ``kubectl apply`` notes is not about it.

    Nothing but this, and the conversion between versions, reads annotations of jobs: no others are kept in memory.
    """
    return name != _LAST_APPLIED


def keeps_waiting(snapshot: Snapshot) -> bool:
    gang_scheduler = gang_schedulers.of(snapshot.job, snapshot.settings)
    return gang_scheduler is not None and (_is_old(snapshot) or gang_scheduler.keeps_waiting(snapshot.pod_group))


def awaited(snapshot: Snapshot) -> str:
    """What has to be before a pod may be made."""
    return "its old PodGroup is gone" if _is_old(snapshot) else "the gang scheduler has admitted its PodGroup"


def _is_old(snapshot: Snapshot) -> bool:
    """Whether the group goes, and none of its pods are left: a pod that is made now would be bound by its old spec.

    While pods are left, Kubernetes keeps a native group, and what replaces one of them joins the others.
    """
    group = snapshot.pod_group
    return group is not None and group.is_terminating and not any(pod.is_there for pod in snapshot.pods)


def unavailable(snapshot: Snapshot) -> str:
    """The gang scheduler that the job asks for and does not have: it is not installed, or not for its operator."""
    choice, current = snapshot.job.run_policy.scheduling.scheduler, snapshot.settings.gang_scheduler
    is_missing = choice not in {"", constants.NO_GANG_SCHEDULER} and not gang_schedulers.is_meant(choice, current)
    return choice if is_missing else ""


def unused_fields(job: TrainingJob, settings: Settings) -> list[str]:
    """The fields of the job's ``schedulingPolicy`` that its gang scheduler has no place for."""
    gang, policy = gang_schedulers.of(job, settings), job.run_policy.scheduling
    if gang is None:
        return []
    values = {
        "minResources": policy.min_resources,
        "queue": policy.queue,
        "priorityClass": policy.priority_class,
        "scheduleTimeoutSeconds": policy.timeout_seconds,
    }
    return [name for name, value in values.items() if value not in (None, "") and name not in gang.uses]


def actions(snapshot: Snapshot) -> tuple[Action, ...]:
    """Make the group, or bring its spec up to date."""
    gang = gang_schedulers.of(snapshot.job, snapshot.settings)
    if gang is None:
        return ()
    job, group = snapshot.job, snapshot.pod_group
    spec = gang.spec_of(children.as_made(job, snapshot.settings), group)
    if group is None:
        return (Create(gang.resource, job.key.name, "PodGroup", partial(_body, job, spec)),)
    patch = _difference(group.spec or {}, spec, gang.fields)
    if not patch or group.is_terminating:
        return ()
    return (Patch(gang.resource, group.name, group.uid, "the change of its PodGroup", {"spec": patch}),)


def removal(snapshot: Snapshot) -> tuple[Action, ...]:
    gang, group = gang_schedulers.of(snapshot.job, snapshot.settings), snapshot.pod_group
    if gang is None or group is None or group.is_terminating:
        return ()
    return (Delete(gang.resource, group.name, group.uid),)


def _difference(current: Mapping[str, Any], target: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The merge patch to what is wanted, of the fields that are ours; ``None`` takes away what an edit took away."""
    patch = {name: target.get(name) for name in fields if current.get(name) != target.get(name)}
    resources, current_resources = patch.get("minResources"), current.get("minResources")
    if resources and isinstance(current_resources, Mapping):
        patch["minResources"] = _resource_changes(current_resources, resources)
    return {name: value for name, value in patch.items() if value != {}}


def _resource_changes(current: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The amounts that differ. Schedulers write quantities in their own form: 2G and 2000000000 are the same."""
    changes = {name: amount for name, amount in target.items() if not _is_same(current.get(name), amount)}
    return dict.fromkeys(current.keys() - target.keys()) | changes


def _is_same(one: object, other: object) -> bool:
    return one == other or (quantity.parse(one) is not None and quantity.parse(one) == quantity.parse(other))


def _body(job: TrainingJob, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": job.key.name,
        "namespace": job.key.namespace,
        "ownerReferences": [job.owner_reference.body()],
    }
    if annotations := {name: text for name, text in job.annotations.items() if copies_annotation(name)}:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": dict(spec)}
