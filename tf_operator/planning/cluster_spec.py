"""TF_CONFIG: how the replicas of a job find each other.

The text is the same for the same spec, byte for byte, whoever renders it and whenever: pods of one job must agree
on it. It is compact JSON with the keys in the order that TensorFlow's users know from 1.9.
"""

import json

from tf_operator.api.job import ReplicaSpec, TrainingJob
from tf_operator.api.status import ReplicaType
from tf_operator.api.validation import child_name, main_ports


def is_distributed(job: TrainingJob) -> bool:
    """A single process needs no cluster: it gets no TF_CONFIG."""
    return job.pod_count != 1


def tf_config(job: TrainingJob, kind: ReplicaType, index: int, *, domain: str = "", cluster: str = "") -> str:
    """TF_CONFIG of one replica; ``cluster`` is ``full_cluster``, for whoever has it already."""
    task = _compact({"type": kind.label, "index": index})
    if not job.has_dynamic_workers:
        return f'{{"cluster":{cluster or full_cluster(job, domain)},"task":{task},"environment":"cloud"}}'
    return f'{{"cluster":{_sparse_cluster(job, kind, index, domain)},"task":{task}}}'


def full_cluster(job: TrainingJob, domain: str) -> str:
    """Every replica of every type, the evaluator too; types in alphabetical order. Large, for a large job."""
    specs = sorted(job.replicas, key=lambda spec: spec.type.label)
    return _compact({spec.type.label: _addresses(job, spec, domain) for spec in specs if spec.count})


def port_of(job: TrainingJob, spec: ReplicaSpec) -> int:
    """The port under which the replicas of a type are reached."""
    ports = main_ports(spec, job.profile.container)
    number = next((port.get("containerPort") for port in ports if port.get("name") == job.profile.port_name), None)
    return number if isinstance(number, int) else job.profile.port


def _sparse_cluster(job: TrainingJob, kind: ReplicaType, index: int, domain: str) -> str:
    """With dynamic workers a worker knows itself and all PS, a PS itself, and the others all that there are.

    In 1.9 chief and evaluator know nobody, so that no training under a chief can begin.
    """
    spec = job.spec_of(kind)
    servers = job.spec_of(ReplicaType.PS)
    if spec and kind is ReplicaType.WORKER:
        ps = _addresses(job, servers, domain) if servers else []
        return _compact({"worker": {str(index): _address(job, spec, index, domain)}, "ps": ps})
    if spec and kind is ReplicaType.PS:
        return _compact({"worker": {}, "ps": [_address(job, spec, index, domain)]})
    return full_cluster(job, domain)


def _addresses(job: TrainingJob, spec: ReplicaSpec, domain: str) -> list[str]:
    suffix = _suffix(job, spec, domain)
    return [f"{child_name(job.key.name, spec.type, index)}{suffix}" for index in range(spec.count)]


def _address(job: TrainingJob, spec: ReplicaSpec, index: int, domain: str) -> str:
    return f"{child_name(job.key.name, spec.type, index)}{_suffix(job, spec, domain)}"


def _suffix(job: TrainingJob, spec: ReplicaSpec, domain: str) -> str:
    return f".{job.key.namespace}.svc{'.' if domain else ''}{domain}:{port_of(job, spec)}"


_compact = json.JSONEncoder(separators=(",", ":")).encode
