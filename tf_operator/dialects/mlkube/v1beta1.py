"""``mlkube.io/v1beta1`` TfJob: a list of replica specs, and the restart policy of each pod template in force.

The first programs of this API wrote its keys with underscores, the later ones in camel case. Each field is read in
either spelling, and stays as it is written; both spellings of one field are a problem of the job.

``API`` is all that the rest of the operator sees of it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from tf_operator.dialects import metadata as job_metadata
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.mlkube import status, words
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.job import defaults, templates
from tf_operator.job.profile import AfterEnd, ExitCodes, FailureScope, Labels, NameStyle, Profile, RestartBy
from tf_operator.job.record import ENDS, JobPhase, ReplicaType
from tf_operator.job.training_job import (
    CleanPodPolicy,
    DecidingReplica,
    FieldError,
    ReplicaSpec,
    RestartPolicy,
    RunPolicy,
    TrainingJob,
)
from tf_operator.meta import Body, GroupVersionResource, parse_time

RESOURCE: Final = GroupVersionResource("mlkube.io", "v1beta1", "tfjobs", "TfJob")
PERMANENT_EXIT_CODES: Final = frozenset({*range(1, 129), 139})
PROFILE: Final = Profile(
    api_version=RESOURCE.api_version,
    kind=RESOURCE.kind,
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    exit_codes=ExitCodes(frozenset(range(1, 256)) - PERMANENT_EXIT_CODES, is_oom_final=True),
    replicas_field="spec.replicaSpecs",
    labels=Labels(
        job="training.kubeflow.org/job-name",
        type="training.kubeflow.org/replica-type",
        index="training.kubeflow.org/replica-index",
        role="training.kubeflow.org/job-role",
        operator_name="mlkube-tfjob-controller",
        extra=(
            ("mlkube.io", ""),
            ("job_type", "{type}"),
            ("runtime_id", "{runtime_id}"),
            ("tf_job_name", "{job}"),
            ("task_index", "{index}"),
        ),
    ),
    names=NameStyle.GENERATED,
    failure_scope=FailureScope.DECIDING,
    restart_by=RestartBy.TEMPLATE,
    after_end=AfterEnd.CLEAN_UP,
    has_cluster_always=True,
    service_port_name="tf-port",
)
DEFAULT_IMAGE: Final = "tensorflow/tensorflow:1.3.0"
"""Of parameter servers that bring no container of their own."""
_RUNTIME_ID: Final = re.compile(r"[a-z0-9]{1,8}")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class _Type(StrEnum):
    MASTER = "MASTER"
    PS = "PS"
    WORKER = "WORKER"


class _TemplateRestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


_CLEAN_UP: Final = (CleanPodPolicy.NONE, CleanPodPolicy.RUNNING, CleanPodPolicy.ALL)


def read(metadata: Body, spec: object, stored: object) -> TrainingJob:
    """The job that a TfJob describes; with ``problems`` where it is none. Never raises."""
    problems: list[FieldError] = []
    fields = Fields({"spec": spec}, "", problems).below("spec")
    job = job_metadata.job_of(metadata, stored, PROFILE)
    clean_pods = fields.one_of(_key(fields, "cleanupPodPolicy", "cleanup_pod_policy"), _CLEAN_UP, CleanPodPolicy.STOP)
    job = replace(
        job,
        replicas=_read_replicas(fields),
        run_policy=RunPolicy(clean_pods=clean_pods),
        runtime_id=_read_runtime_id(fields) or generated_runtime_id(job.uid),
        deciding=_read_deciding(fields),
        record=status.read(job.stored_status),
        problems=tuple(problems),
    )
    return defaults.with_defaults(job)


def generated_runtime_id(uid: str) -> str:
    """The part of names of a job that gives none: the same at every reading, and another one for the next job."""
    number, text = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big"), ""
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text


def _key(fields: Fields, camel: str, snake: str) -> str:
    """The spelling in which a field is written."""
    if fields.body.get(snake) is None:
        return camel
    if fields.body.get(camel) is not None:
        fields.wrong(snake, f"is {camel} in another spelling: only one of them can be given")
    return snake


def _read_runtime_id(spec: Fields) -> str:
    key = _key(spec, "RuntimeId", "runtimeid")
    found = spec.text(key)
    if found and not _RUNTIME_ID.fullmatch(found):
        spec.wrong(key, "must be 1 to 8 lower-case letters and digits")
        return ""
    return found


def _read_deciding(spec: Fields) -> DecidingReplica:
    """Master 0, unless the job says otherwise."""
    chief = spec.below(_key(spec, "terminationPolicy", "termination_policy")).below("chief")
    kind = chief.one_of(_key(chief, "replicaName", "replica_name"), _Type, _Type.MASTER)
    index = chief.integer(_key(chief, "replicaIndex", "replica_index"))
    return DecidingReplica(status.TYPES[kind], index or 0, chief.path if chief.body else PROFILE.replicas_field)


def _read_replicas(spec: Fields) -> tuple[ReplicaSpec, ...]:
    """The replica specs in canonical order. Two items of one type are a problem."""
    found: dict[ReplicaType, ReplicaSpec] = {}
    image = spec.text("tfImage", DEFAULT_IMAGE)
    for item in spec.items(_key(spec, "replicaSpecs", "replica_specs")):
        key = _key(item, "tfReplicaType", "tf_replica_type")
        replica = _read_replica(status.TYPES[item.one_of(key, _Type, _Type.MASTER)], item, image)
        if replica.type in found:
            item.wrong(key, f"is {replica.type.upper()} again: each type has one item")
        else:
            found[replica.type] = replica
    return tuple(found[kind] for kind in ReplicaType if kind in found)


def _read_replica(kind: ReplicaType, item: Fields, image: str) -> ReplicaSpec:
    count, port = item.integer("replicas"), item.integer(_key(item, "tfPort", "tf_port"))
    if kind is ReplicaType.MASTER and count not in {None, 1}:
        item.wrong("replicas", f"must be 1 for the type MASTER, is {count}")
    template = item.below("template")
    policy = template.below("spec").one_of("restartPolicy", _TemplateRestartPolicy, _TemplateRestartPolicy.ALWAYS)
    replica = ReplicaSpec(
        type=kind,
        count=defaults.REPLICAS if count is None else count,
        restart_policy=RestartPolicy(policy),
        template=template.body,
        path=item.path,
        port=port,
    )
    return _with_default_server(replica, image) if _needs_server(replica) else replica


def _needs_server(replica: ReplicaSpec) -> bool:
    return replica.type is ReplicaType.PS and not templates.main_containers(replica, PROFILE.container)


def _with_default_server(replica: ReplicaSpec, image: str) -> ReplicaSpec:
    """A parameter server without a container of its own gets one that runs a TensorFlow server."""
    server = {"name": PROFILE.container, "image": image}
    pod: Mapping[str, Any] = replica.template.get("spec") or {"restartPolicy": RestartPolicy.ON_FAILURE.value}
    containers = [*templates.containers_of(replica), server]
    return replace(
        replica,
        template={**replica.template, "spec": {**pod, "containers": containers}},
        restart_policy=replica.restart_policy if replica.template else RestartPolicy.ON_FAILURE,
        is_default_server=True,
    )


# --- What metrics and the check for other controllers want to know of every job that changes ------------------------


class _Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    start_time: str | None = None


class _Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    state: str = ""
    operator: _Record | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


def summarize(metadata: Mapping[str, Any], _spec: bytes, stored: bytes) -> JobSummary:
    """Where a TfJob stands. Reads only the head of the status."""
    try:
        found = _STATUS.decode(stored)
    except (msgspec.DecodeError, RecursionError):
        return JobSummary()
    record = found.operator or _Record(str(status.read({"phase": found.phase, "state": found.state}).phase))
    waits_since = {
        JobPhase.NEW: metadata.get("creationTimestamp"),
        JobPhase.CREATED: record.start_time,
    }.get(JobPhase(record.phase) if record.phase in set(JobPhase) else JobPhase.RUNNING)
    return JobSummary(record.phase, parse_time(waits_since), is_finished=record.phase in ENDS)


API: Final = ServedAPI(
    resource=RESOURCE,
    profiles=(PROFILE,),
    read=read,
    write_status=status.write,
    summarize=summarize,
    crd=Crd(__package__),
    event_reasons=words.EVENT_REASONS,
    failure_reasons=words.FAILURE_REASONS,
)
