"""TF_CONFIG: how the replicas of a job find each other.

The text is the same for the same spec, byte for byte, whoever renders it and whenever: pods of one job must agree
on it. It is compact JSON with the keys in the order that TensorFlow's users know from 1.9.

A cluster is described once, as what a replica sees of each type; its text and its size follow from that description,
so the size of the TF_CONFIG of 10,000 replicas is known without writing it.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from tf_operator.job import defaults
from tf_operator.job.constants import TF_CONFIG
from tf_operator.job.naming import service_name, stem
from tf_operator.job.record import ReplicaType
from tf_operator.job.templates import main_ports
from tf_operator.job.training_job import ReplicaSpec, TFConfigFormat, TrainingJob

MOST_BYTES: Final = 128 * 1024 - len(f"{TF_CONFIG}=\0")
"""Linux refuses to start a program with a longer string in its environment: MAX_ARG_STRLEN, on pages of 4 KiB."""


def is_distributed(job: TrainingJob) -> bool:
    """A single process needs no cluster: it gets no TF_CONFIG, unless its API always gives one."""
    return job.pod_count != 1 or job.profile.has_cluster_always


def tf_config(job: TrainingJob, kind: ReplicaType, index: int, *, domain: str = "", cluster: str = "") -> str:
    """TF_CONFIG of one replica; ``cluster`` is ``full_cluster``, for callers that have it already."""
    is_full = _is_full(job)
    if not (is_full and cluster):
        cluster = _text(_seen_by(job, kind, index), job, domain)
    return f'{{"cluster":{cluster},"task":{_task(kind, index)}{_END_OF_FULL if is_full else "}"}'


def full_cluster(job: TrainingJob, domain: str) -> str:
    """Every replica of every type, the evaluator too; types in alphabetical order. Large, for a large job."""
    return _text(_everybody(job), job, domain)


def size(job: TrainingJob, spec: ReplicaSpec, *, domain: str = "") -> int:
    """The bytes of the longest TF_CONFIG of a type, which is that of its last replica."""
    index = spec.count - 1
    frame = len(f'{{"cluster":,"task":{_task(spec.type, index)}{_END_OF_FULL if _is_full(job) else "}"}')
    return frame + _size(_seen_by(job, spec.type, index), job, domain)


def address(job: TrainingJob, spec: ReplicaSpec, index: int, *, domain: str = "") -> str:
    """Where the other replicas reach one of this type."""
    return f"{service_name(job, spec.type, index)}{_suffix(job, spec, domain)}"


def port_of(job: TrainingJob, spec: ReplicaSpec) -> int:
    """The port under which the replicas of a type are reached."""
    ports = main_ports(spec, job.profile.container)
    number = next((port.get("containerPort") for port in ports if port.get("name") == job.profile.port_name), None)
    return number if isinstance(number, int) else defaults.port_of(spec, job.profile)


# --- Who sees whom -------------------------------------------------------------------------------------------------


class _Form(Enum):
    LIST = auto()
    """A list of addresses, from index 0 on."""
    MAP = auto()
    """From the index to the address, so that others may be left out."""


class _Members(msgspec.Struct, frozen=True):
    """The replicas of one type that a replica is to know."""

    spec: ReplicaSpec | None
    indexes: range
    form: _Form = _Form.LIST


_NOBODY: Final = range(0)
_Cluster = Mapping[str, _Members]


def _is_full(job: TrainingJob) -> bool:
    return not job.has_dynamic_workers and job.tf_config_format is TFConfigFormat.FULL


def _seen_by(job: TrainingJob, kind: ReplicaType, index: int) -> _Cluster:
    if job.tf_config_format is TFConfigFormat.SPARSE:
        return _sparse(job, kind, index)
    return _dynamic(job, kind, index) if job.has_dynamic_workers else _everybody(job)


def _everybody(job: TrainingJob) -> _Cluster:
    """A type without replicas is an empty list, as in 1.9."""
    return {spec.type.label: _Members(spec, range(spec.count)) for spec in _alphabetical(job)}


def _sparse(job: TrainingJob, kind: ReplicaType, index: int) -> _Cluster:
    """A replica knows itself and the chief, and all PS unless it is one: as in training with parameter servers."""
    types = {ReplicaType.CHIEF, ReplicaType.MASTER} | ({ReplicaType.PS} - {kind})
    return {
        spec.type.label: _Members(spec, range(spec.count))
        if spec.type in types
        else _Members(spec, range(index, index + 1) if spec.type is kind else _NOBODY, _Form.MAP)
        for spec in _alphabetical(job)
    }


def _dynamic(job: TrainingJob, kind: ReplicaType, index: int) -> _Cluster:
    """With dynamic workers a worker knows itself and all PS, a PS itself, and the others all that there are.

    In 1.9 chief and evaluator know nobody, so that no training under a chief can begin.
    """
    spec, servers = job.spec_of(kind), job.spec_of(ReplicaType.PS)
    itself = range(index, index + 1)
    if spec and kind is ReplicaType.WORKER:
        ps = _Members(servers, range(servers.count if servers else 0))
        return {"worker": _Members(spec, itself, _Form.MAP), "ps": ps}
    if spec and kind is ReplicaType.PS:
        return {"worker": _Members(None, _NOBODY, _Form.MAP), "ps": _Members(spec, itself)}
    return _everybody(job)


def _alphabetical(job: TrainingJob) -> list[ReplicaSpec]:
    return sorted(job.replicas, key=lambda spec: spec.type.label)


# --- Its text and its size -----------------------------------------------------------------------------------------

_END_OF_FULL: Final = ',"environment":"cloud"}'


def _compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _task(kind: ReplicaType, index: int) -> str:
    return _compact({"type": kind.label, "index": index})


def _text(cluster: _Cluster, job: TrainingJob, domain: str) -> str:
    return _compact({label: _addresses(members, job, domain) for label, members in cluster.items()})


def _addresses(members: _Members, job: TrainingJob, domain: str) -> list[str] | dict[str, str]:
    spec = members.spec
    head, tail = (stem(job, spec.type), _suffix(job, spec, domain)) if spec else ("", "")
    addresses = {index: f"{head}{index}{tail}" for index in members.indexes if spec}
    if members.form is _Form.LIST:
        return list(addresses.values())
    return {str(index): address for index, address in addresses.items()}


def _size(cluster: _Cluster, job: TrainingJob, domain: str) -> int:
    types = (len(f'"{label}":') + _size_of(members, job, domain) for label, members in cluster.items())
    return len("{}") + sum(types) + max(len(cluster) - 1, 0)


def _size_of(members: _Members, job: TrainingJob, domain: str) -> int:
    """As ``_addresses``: brackets, commas, and for each index the address, its digits, and in a map its key."""
    spec, count = members.spec, len(members.indexes)
    if spec is None or not count:
        return len("[]")
    digits = _digits_below(members.indexes.stop) - _digits_below(members.indexes.start)
    quoted = len(_compact(address(job, spec, 0, domain=domain))) - len("0")
    keys = digits + count * len('"":') if members.form is _Form.MAP else 0
    return len("[]") + count - 1 + count * quoted + digits + keys


def _digits_below(count: int) -> int:
    """How many digits the numbers from 0 to below ``count`` have together."""
    return sum(_with_at_least(length, count) for length in range(1, len(str(count)) + 1))


def _with_at_least(length: int, count: int) -> int:
    """How many of the numbers below ``count`` have so many digits, or more. 0 has one."""
    return max(count - (10 ** (length - 1) if length > 1 else 0), 0)


def _suffix(job: TrainingJob, spec: ReplicaSpec, domain: str) -> str:
    service = f".{job.key.name}" if job.has_one_service else ""
    return f"{service}.{job.key.namespace}.svc{'.' if domain else ''}{domain}:{port_of(job, spec)}"
