"""Names, labels and owners of children: how a job's objects are found, by us and by everybody else."""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

from tf_operator.job.profile import JOB_UID_LABEL, NameStyle
from tf_operator.job.record import ReplicaType, RestartRecord
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import selector_text

LONGEST_JOB_PART: Final = 40
"""So many characters of a job's name are part of generated ones, which have more parts."""
_LONGEST_NAME: Final = 253
"""Characters, of any object."""
_INDEX: Final = "(?P<index>0|[1-9][0-9]{0,5})"
_PATTERNS: Final = {
    NameStyle.STABLE: re.compile(f"(?P<type>[a-z]+)-{_INDEX}"),
    NameStyle.GENERATED: re.compile(f"(?P<type>[a-z]+)-[a-z0-9]{{1,8}}-{_INDEX}(?:-[a-z0-9]{{5}})?"),
}
_TYPES = {kind.label: kind for kind in ReplicaType}
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As in the generated names of Kubernetes: no vowels, so no words."""


def stem(job: TrainingJob, kind: ReplicaType) -> str:
    """What the names of all Services of a type begin with, or of hosts in the Service of the job; the index follows."""
    head = f"{_job_part(job.key.name, job.profile.names)}-{kind.label}-"
    return f"{head}{job.runtime_id}-" if job.profile.names is NameStyle.GENERATED else head


def service_name(job: TrainingJob, kind: ReplicaType, index: int) -> str:
    """Of the Service of one replica, or of its host in the Service of the job."""
    return f"{stem(job, kind)}{index}"


def config_map_name(job: TrainingJob) -> str:
    part = _job_part(job.key.name, job.profile.names)
    return f"{part}-cm-ps-{job.runtime_id}" if job.runtime_id else f"{part}-cm-ps"


def pod_name(job: TrainingJob, service: str, record: RestartRecord | None) -> str:
    """The name of the pod of the replica that has this Service, after the last pod that was given up.

    It is the same until that record changes, so a pod that was made already is found, and not made a second time.
    """
    if job.profile.names is NameStyle.STABLE:
        return service
    last_pod = f"{record.uid}/{record.time}" if record and record.replaced else ""
    number = int.from_bytes(sha256(f"{job.uid}/{service}/{last_pod}".encode()).digest()[:8])
    digits = (number // len(_ALPHABET) ** place % len(_ALPHABET) for place in range(5))
    return f"{service}-{''.join(_ALPHABET[digit] for digit in digits)}"


def replica_of(job_name: str, name: str, style: NameStyle) -> tuple[ReplicaType, int] | None:
    """Which replica of the job a pod or Service of this name is; ``None`` when it cannot be one."""
    # Owner references and statuses may have names of a megabyte, which must not be kept.
    is_possible = max(len(job_name), len(name)) <= _LONGEST_NAME
    return _replica_of(job_name, name, style) if is_possible else None


@lru_cache(maxsize=4096)  # each pod and Service is looked at whenever it changes, and by each plan
def _replica_of(job_name: str, name: str, style: NameStyle) -> tuple[ReplicaType, int] | None:
    head = f"{_job_part(job_name, style)}-"
    match = _PATTERNS[style].fullmatch(name, len(head)) if name.startswith(head) else None
    kind = _TYPES.get(match["type"]) if match else None
    return (kind, int(match["index"])) if match and kind else None


def job_labels(job: TrainingJob) -> dict[str, str]:
    labels = job.profile.labels
    return labels.selector | {labels.job: job.key.name}


def replica_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """What the children of one replica carry; also the selector of its Service."""
    labels = job.profile.labels
    return job_labels(job) | {labels.type: kind.label, labels.index: str(index)}


def pod_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """The labels of a pod: the chief, or worker 0 where there is none, is the job's master."""
    names, labels = job.profile.labels, _extra_labels(job, kind, index) | replica_labels(job, kind, index)
    return labels | {names.role: names.master_role} if _is_master(job, kind, index) else labels


def service_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    """The labels of the Service of one replica."""
    return _extra_labels(job, kind, index) | replica_labels(job, kind, index) | {JOB_UID_LABEL: job.uid}


def job_service_labels(job: TrainingJob) -> dict[str, str]:
    """The labels of the Service of a job: also its UID, so that no other job's Service has the same."""
    return job_labels(job) | {JOB_UID_LABEL: job.uid}


def selector_of(job: TrainingJob, kind: ReplicaType) -> str:
    return selector_text(job_labels(job) | {job.profile.labels.type: kind.label})


def services_selector(job: TrainingJob) -> str:
    """All Services of this very job."""
    return selector_text(job_service_labels(job))


def metadata(job: TrainingJob, name: str, labels: Mapping[str, str]) -> dict[str, object]:
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": dict(labels),
        "ownerReferences": [job.owner_reference.body()],
    }


def _job_part(name: str, style: NameStyle) -> str:
    return name[:LONGEST_JOB_PART] if style is NameStyle.GENERATED else name


def _extra_labels(job: TrainingJob, kind: ReplicaType, index: int) -> dict[str, str]:
    facts = {"job": job.key.name, "type": kind.upper(), "index": str(index), "runtime_id": job.runtime_id}
    return {name: value.format_map(facts) for name, value in job.profile.labels.extra}


def _is_master(job: TrainingJob, kind: ReplicaType, index: int) -> bool:
    return (kind, index) == job.main_replica
