"""What a pod asks for, and where it may run, as its template says it: what a queue admits, and an edit may change.

Images and arguments are no part of it, nor is what the operator adds. Digests of it are compared for as long as a job
lives, so an operator that works them out in another way queues every job again.
"""

import json
from hashlib import sha256
from typing import Any, Final

from tf_operator.job import templates
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import objects_of

_FIELDS: Final = (
    "affinity",
    "nodeSelector",
    "overhead",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "tolerations",
)
_COUNTED_APART: Final = frozenset({ReplicaType.WORKER, ReplicaType.PS})
_DIGITS: Final = 16


def of(spec: ReplicaSpec) -> list[list[Any]]:
    """What its containers ask for, and what the pod does."""
    pod = templates.pod_of(spec)
    containers = [
        [field, entry.get("name"), entry.get("resources"), entry.get("restartPolicy")]
        for field in ("initContainers", "containers")
        for entry in objects_of(pod.get(field))
    ]
    return [containers, [pod.get(field) for field in _FIELDS]]


def digest(job: TrainingJob) -> str:
    """Of what the job queue admits, but for the numbers of workers and parameter servers."""
    needs = {
        spec.type.label: [0 if spec.type in _COUNTED_APART else spec.count, *of(spec)]
        for spec in job.replicas
        if spec.count or spec.type in _COUNTED_APART
    }
    return sha256(json.dumps(needs, sort_keys=True).encode()).hexdigest()[:_DIGITS]
