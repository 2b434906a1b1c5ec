"""Names, labels and owners of children: how a job's objects are found, by us and by everybody else."""

import re
from collections.abc import Mapping

from tf_operator.job.profile import JOB_UID_LABEL
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import selector_text

_REPLICA = re.compile(r"(?P<type>[a-z]+)-(?P<index>0|[1-9][0-9]{0,5})")
_TYPES = {kind.label: kind for kind in ReplicaType}


def child_name(job_name: str, kind: ReplicaType, index: int) -> str:
    """The name of the pod, and of the Service, of one replica."""
    return f"{job_name}-{kind.label}-{index}"


def replica_of(job_name: str, name: str) -> tuple[ReplicaType, int] | None:
    """Which replica of the job a child of this name is; ``None`` when it cannot be one."""
    match = _REPLICA.fullmatch(name.removeprefix(f"{job_name}-")) if name.startswith(f"{job_name}-") else None
    kind = _TYPES.get(match["type"]) if match else None
    return (kind, int(match["index"])) if match and kind else None


def job_labels(job: TrainingJob) -> dict[str, str]:
    """What all children of the job carry."""
    labels = job.profile.labels
    return labels.selector | {labels.job: job.key.name}


def replica_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """What the children of one replica carry; also the selector of its Service."""
    labels = job.profile.labels
    return job_labels(job) | {labels.type: kind.label, labels.index: str(index)}


def pod_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """The labels of a pod: the chief, or worker 0 where there is none, is the job's master."""
    names, labels = job.profile.labels, replica_labels(job, kind, index)
    return labels | {names.role: names.master_role} if _is_master(job, kind, index) else labels


def service_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """The labels of a Service: also the job's UID, so that no other job's Service has the same."""
    return replica_labels(job, kind, index) | {JOB_UID_LABEL: job.uid}


def selector_of(job: TrainingJob, kind: ReplicaType) -> str:
    """The pods of one type, for the scale subresource."""
    return selector_text(job_labels(job) | {job.profile.labels.type: kind.label})


def services_selector(job: TrainingJob) -> str:
    """All Services of this very job."""
    return selector_text(job_labels(job) | {JOB_UID_LABEL: job.uid})


def metadata(job: TrainingJob, name: str, labels: Mapping[str, str]) -> dict[str, object]:
    """The metadata of a child."""
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": dict(labels),
        "ownerReferences": [job.owner_reference.body()],
    }


def _is_master(job: TrainingJob, kind: ReplicaType, index: int) -> bool:
    if job.leader:
        return kind in {ReplicaType.CHIEF, ReplicaType.MASTER}
    return kind is ReplicaType.WORKER and index == 0
