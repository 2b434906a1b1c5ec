"""Specs that list their replicas, as ``mlkube.io`` and ``kubeflow.org/v1alpha1`` have them, and what they mean.

Both have the same fields, some of them in two spellings, and the restart policy of each pod template in force. The
profile differs, and what else a job may say.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from msgspec import structs

from tf_operator.dialects.fields import Fields, kind_of
from tf_operator.dialects.phases import TYPES
from tf_operator.job import defaults, templates
from tf_operator.job.profile import AfterEnd, ExitCodes, FailureScope, Labels, NameStyle, Profile, RestartBy, Words
from tf_operator.job.record import REPLICA_TYPES, ReplicaType
from tf_operator.job.tensorboard import TensorBoard, first_of
from tf_operator.job.training_job import CleanPodPolicy, DecidingReplica, ReplicaSpec, RestartPolicy
from tf_operator.meta import Body, objects_of

CONTAINER: Final = "tensorflow"
PORT: Final = 2222
PORT_NAME: Final = "tfjob-port"
REPLICAS: Final = "replicaSpecs"
_PERMANENT_EXIT_CODES: Final = frozenset({*range(1, 129), 139})
DEFAULT_IMAGE: Final = "tensorflow/tensorflow:1.3.0"
"""Of parameter servers that bring no container of their own."""
_SERVER_FILES: Final = {"mountPath": "/ps-server", "name": "ps-config-volume"}
"""Where the program of such a container is."""
_INSIDE: Final = "ClusterIP"
_TENSORBOARD_VOLUMES: Final = frozenset(
    {"name", "configMap", "csi", "emptyDir", "ephemeral", "nfs", "persistentVolumeClaim"}
)
CLEAN_UP: Final = (CleanPodPolicy.NONE, CleanPodPolicy.RUNNING, CleanPodPolicy.ALL)
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


def profile(*, api_version: str, kind: str, operator_name: str, group: str, words: Words) -> Profile:
    """The rules of such an API: the deciding replica alone can fail the job, all others always run again."""
    return Profile(
        api_version=api_version,
        kind=kind,
        container=CONTAINER,
        port_name=PORT_NAME,
        port=PORT,
        exit_codes=ExitCodes(frozenset(range(1, 256)) - _PERMANENT_EXIT_CODES, is_oom_final=True),
        words=replace(
            words,
            replicas=f"spec.{REPLICAS}",
            types={ReplicaType.CHIEF: "MASTER", **{kind: name for name, kind in TYPES.items()}},
            clean_up="cleanupPodPolicy",
            clean_up_values={CleanPodPolicy.STOP: "without cleanupPodPolicy"},
            tf_config_format="",
        ),
        labels=Labels(
            operator_name,
            extra=(
                (group, ""),
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
        has_operator_config=True,
        server_image=DEFAULT_IMAGE,
    )


def generated_runtime_id(uid: str) -> str:
    """The part of names of a job that gives none: the same at every reading, and another one for the next job."""
    number, text = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big"), ""
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text


def key_of(fields: Fields, camel: str, snake: str) -> str:
    if fields.body.get(snake) is None:
        return camel
    if fields.body.get(camel) is not None:
        fields.wrong(snake, f"is {camel} in another spelling: only one of them can be given")
    return snake


def read_runtime_id(spec: Fields) -> str:
    key = key_of(spec, "RuntimeId", "runtimeid")
    runtime_id = spec.text(key)
    if runtime_id and not _RUNTIME_ID.fullmatch(runtime_id):
        spec.wrong(key, "must be 1 to 8 lower-case letters and digits")
        return ""
    return runtime_id


def read_clean_pods(spec: Fields, default: CleanPodPolicy) -> CleanPodPolicy:
    return spec.one_of(key_of(spec, "cleanupPodPolicy", "cleanup_pod_policy"), CLEAN_UP, default)


def read_deciding(spec: Fields) -> DecidingReplica:
    """Master 0, unless the job says otherwise."""
    chief = spec.below(key_of(spec, "terminationPolicy", "termination_policy")).below("chief")
    kind = chief.one_of(key_of(chief, "replicaName", "replica_name"), _Type, _Type.MASTER)
    index = chief.integer(key_of(chief, "replicaIndex", "replica_index"))
    return DecidingReplica(TYPES[kind], index or 0, chief.path if chief.body else f"spec.{REPLICAS}")


def read_tensorboard(spec: Fields, runtime_id: str) -> TensorBoard | None:
    """The TensorBoard of a job that has one. Nothing that is wrong with it is a problem of the job."""
    key = "tensorboard"
    if spec.body.get(key) is None:
        return None
    own = Fields(spec.body, spec.path)
    fields = own.below(key)
    folder = fields.text(key_of(fields, "logDir", "log_dir"))
    if not folder:
        fields.wrong("logDir", "must be the folder with the logs")
    place = key_of(fields, "serviceType", "service_type")
    if (kind := fields.text(place, _INSIDE)) != _INSIDE:
        fields.wrong(place, f"must be {_INSIDE!r}, because a TensorBoard has no password, is {kind_of(kind)}")
    mounts = fields.body.get(key_of(fields, "volumeMounts", "volume_mounts"))
    return TensorBoard(
        name=f"tensorboard-{runtime_id}",
        image=own.text("tfImage", DEFAULT_IMAGE),
        command=("tensorboard", "--logdir", folder, "--host", "0.0.0.0"),  # noqa: S104 (behind a Service)
        volumes=tuple(_tensorboard_volumes(fields)),
        mounts=tuple(mounts) if isinstance(mounts, list) else (),
        problems=first_of(own.problems),
    )


def _tensorboard_volumes(fields: Fields) -> Iterator[Body]:
    """Its volumes: nothing of the node or of the identity of a pod, because whoever can connect sees what it shows."""
    for volume in fields.items("volumes"):
        for source in volume.body:
            if source not in _TENSORBOARD_VOLUMES and volume.body[source] is not None:
                kinds = ", ".join(sorted(_TENSORBOARD_VOLUMES - {"name"}))
                volume.wrong(source, f"is no volume of a TensorBoard; those are {kinds}")
        yield volume.body


def read_replicas(spec: Fields, key: str = REPLICAS) -> tuple[ReplicaSpec, ...]:
    """The replica specs of a list in canonical order. Two items of one type are a problem."""
    replicas: dict[ReplicaType, ReplicaSpec] = {}
    image = spec.text("tfImage", DEFAULT_IMAGE)
    for item in spec.items(key):
        type_key = key_of(item, "tfReplicaType", "tf_replica_type")
        replica = _read_replica(TYPES[item.one_of(type_key, _Type, _Type.MASTER)], item, image)
        if replica.type in replicas:
            item.wrong(type_key, f"is {replica.type.upper()} again: each type has one item")
        else:
            replicas[replica.type] = replica
    return tuple(replicas[kind] for kind in REPLICA_TYPES if kind in replicas)


def _read_replica(kind: ReplicaType, item: Fields, image: str) -> ReplicaSpec:
    count, port = item.integer("replicas"), item.integer(key_of(item, "tfPort", "tf_port"))
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
    if kind is not ReplicaType.PS:
        return replica
    if is_default_server(replica.template):
        return structs.replace(replica, template=_without_files(replica.template), is_default_server=True)
    return replica if templates.main_containers(replica, CONTAINER) else _with_default_server(replica, image)


def _with_default_server(replica: ReplicaSpec, image: str) -> ReplicaSpec:
    policy = replica.restart_policy if replica.template else RestartPolicy.ON_FAILURE
    template = _without_files(with_default_server(replica.template, image))
    return structs.replace(replica, template=template, restart_policy=policy, is_default_server=True)


def with_default_server(template: Body, image: str) -> dict[str, Any]:
    """The template of parameter servers that bring no container, with one that runs a TensorFlow server."""
    server = {"name": CONTAINER, "image": image, "volumeMounts": [_SERVER_FILES]}
    spec = template.get("spec")
    pod: Body = spec if spec and isinstance(spec, Mapping) else {"restartPolicy": RestartPolicy.ON_FAILURE.value}
    containers = pod.get("containers")
    elements = containers if isinstance(containers, list) else []
    return {**template, "spec": {**pod, "containers": [*elements, server]}}


def is_default_server(template: Body) -> bool:
    """Whether the container of a template is one that was added here: it mounts a program that nobody has brought."""
    pod = template.get("spec")
    spec = pod if isinstance(pod, Mapping) else {}
    main = next(
        (container for container in objects_of(spec.get("containers")) if container.get("name") == CONTAINER), {}
    )
    names = [volume.get("name") for volume in objects_of(spec.get("volumes"))]
    return _SERVER_FILES in objects_of(main.get("volumeMounts")) and _SERVER_FILES["name"] not in names


def _without_files(template: Body) -> dict[str, Any]:
    """The template without the mount of what planning brings, which is shown to users and has no volume in it."""
    containers = [
        {**entry, "volumeMounts": [mount for mount in entry["volumeMounts"] if mount != _SERVER_FILES]}
        if isinstance(entry, Mapping) and entry.get("name") == CONTAINER
        else entry
        for entry in template["spec"]["containers"]
    ]
    return {**template, "spec": {**template["spec"], "containers": containers}}
