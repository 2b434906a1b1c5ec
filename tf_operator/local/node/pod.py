"""A pod as a node acts on it, read once from its JSON: ``LocalPod``, and each ``LocalContainer`` with its role.

The structs have the fields that a node knows, with the types in which the API server accepts them. Their names are
those of Kubernetes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

import msgspec

from tf_operator.job import restart_rules
from tf_operator.job.restart_rules import RestartRules, restarts_by_policy
from tf_operator.job.training_job import RestartPolicy
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import Body, ObjectKey, OwnerRef, controller_of, parse_time

STARTUP, READINESS, LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"
_DEFAULT_GRACE: Final = 30
_VOLUMES: Final = frozenset({"configMap", "secret", "downwardAPI", "projected", "hostPath", "persistentVolumeClaim"})
"""The kinds of volumes whose source says something."""

Quantity = str | int | float


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an object's JSON."""


class PodMeta(ObjectMeta, frozen=True, rename="camel"):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None


class SourceReference(Part, frozen=True):
    # To a ConfigMap or a Secret
    name: str = ""
    key: str = ""
    optional: bool = False
    # To a field of the pod
    field_path: str = ""
    # To what a container may use
    container_name: str = ""
    resource: str = ""
    divisor: Quantity = ""


class ValueSource(Part, frozen=True):
    # One of these
    field_ref: SourceReference | None = None
    resource_field_ref: SourceReference | None = None
    config_map_key_ref: SourceReference | None = None
    secret_key_ref: SourceReference | None = None


class Variable(Part, frozen=True):
    name: str = ""
    value: str = ""
    value_from: ValueSource | None = None


class Variables(Part, frozen=True):
    # All of a ConfigMap or a Secret
    prefix: str = ""
    config_map_ref: SourceReference | None = None
    secret_ref: SourceReference | None = None


class ContainerPort(Part, frozen=True):
    name: str = ""
    container_port: int = 0


class VolumeMount(Part, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Resources(Part, frozen=True):
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class Call(Part, frozen=True):
    # exec
    command: tuple[str, ...] = ()
    # httpGet, tcpSocket and grpc
    host: str = ""
    port: int | str = 0
    path: str = ""
    scheme: str = ""
    http_headers: tuple[dict[str, str], ...] = ()
    # sleep
    seconds: int = 0


class Action(Part, frozen=True):
    # One of these
    command: Call | None = msgspec.field(default=None, name="exec")
    http_get: Call | None = None
    tcp_socket: Call | None = None
    grpc: Call | None = None
    sleep: Call | None = None


class ProbeSpec(Action, frozen=True):
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3


class Hooks(Part, frozen=True):
    post_start: Action | None = None
    pre_stop: Action | None = None
    stop_signal: str = ""


class ContainerSpec(Part, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[Variables, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: ProbeSpec | None = None
    readiness_probe: ProbeSpec | None = None
    liveness_probe: ProbeSpec | None = None
    lifecycle: Hooks = Hooks()
    termination_message_path: str = ""
    termination_message_policy: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[dict[str, Any], ...] = ()


class VolumeFile(Part, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None
    field_ref: SourceReference | None = None
    resource_field_ref: SourceReference | None = None


class VolumeSource(Part, frozen=True):
    """What a volume is made from, whatever its kind."""

    name: str = ""
    secret_name: str = ""
    claim_name: str = ""
    path: str = ""
    type: str = ""
    items: tuple[VolumeFile, ...] = ()
    optional: bool = False
    default_mode: int | None = None
    sources: tuple[dict[str, "VolumeSource"], ...] = ()
    """Of a projected volume, by kind."""


class PodToleration(Part, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    service_account_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    restart_policy: str = ""
    init_containers: tuple[ContainerSpec, ...] = ()
    containers: tuple[ContainerSpec, ...] = ()
    resources: Resources = Resources()
    volumes: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[PodToleration, ...] = ()
    scheduling_gates: tuple[dict[str, Any], ...] = ()
    readiness_gates: tuple[dict[str, str], ...] = ()
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    priority: int | None = None


class Role(Enum):
    """What a container is there for."""

    INIT = auto()
    """Ends before the next one starts."""
    SIDECAR = auto()
    """Starts before the next one, and runs until the main containers have ended."""
    MAIN = auto()


@dataclass(frozen=True, slots=True)
class LocalContainer:
    """One container of a pod."""

    name: str
    role: Role
    restart: RestartPolicy
    spec: ContainerSpec
    rules: RestartRules | None = None

    @property
    def probes(self) -> Mapping[str, ProbeSpec]:
        spec = self.spec
        kinds = {STARTUP: spec.startup_probe, READINESS: spec.readiness_probe, LIVENESS: spec.liveness_probe}
        return {kind: probe for kind, probe in kinds.items() if probe}

    def restarts_after(self, code: int) -> bool:
        """Whether it is started again after an exit code: by a rule of its own, or by its policy."""
        is_by_rule = self.rules is not None and self.rules.has_rule(code)
        return is_by_rule or restarts_by_policy(self.restart, code)

    def restarts_all(self, code: int) -> bool:
        """Whether all containers of the pod are started again after an exit code of this one."""
        return self.rules is not None and self.rules.restarts_all(code)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod."""

    name: str
    kind: str
    source: VolumeSource


@dataclass(frozen=True, slots=True)
class LocalPod:
    """A pod."""

    metadata: PodMeta
    spec: PodSpec
    status: dict[str, Any]
    """As it is stored: much of it is of others, and goes back as it came."""
    containers: tuple[LocalContainer, ...]
    """In the order in which they start."""
    volumes: tuple[Volume, ...]
    owner: OwnerRef | None
    """Its controller."""

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return self.status.get("conditions") or []

    @property
    def deletion(self) -> datetime | None:
        """When a deleted pod has to be gone."""
        return parse_time(self.metadata.deletion_timestamp)

    @property
    def grace_seconds(self) -> float:
        own, of_spec = self.metadata.deletion_grace_period_seconds, self.spec.termination_grace_period_seconds
        seconds = next((seconds for seconds in (own, of_spec) if seconds is not None), _DEFAULT_GRACE)
        return float(max(seconds, 1))

    def of_role(self, *roles: Role) -> tuple[LocalContainer, ...]:
        return tuple(container for container in self.containers if container.role in roles)


def read(raw: msgspec.Raw) -> LocalPod:
    """A pod from the JSON of a list or a watch."""
    return pod_of(msgspec.json.decode(raw))


def pod_of(body: Body) -> LocalPod:
    spec = msgspec.convert(body.get("spec", {}), PodSpec)
    return LocalPod(
        metadata=msgspec.convert(body.get("metadata", {}), PodMeta),
        spec=spec,
        status=body.get("status") or {},
        containers=tuple(_containers(spec)),
        volumes=tuple(map(_volume, spec.volumes)),
        owner=controller_of(body),
    )


def _containers(spec: PodSpec) -> Iterator[LocalContainer]:
    of_pod = RestartPolicy(spec.restart_policy or RestartPolicy.ALWAYS)
    of_init = RestartPolicy.NEVER if of_pod is RestartPolicy.NEVER else RestartPolicy.ON_FAILURE
    for entry in spec.init_containers:
        is_sidecar = entry.restart_policy == RestartPolicy.ALWAYS
        yield _container(entry, Role.SIDECAR if is_sidecar else Role.INIT, of_init)
    for entry in spec.containers:
        yield _container(entry, Role.MAIN, of_pod)


def _container(spec: ContainerSpec, role: Role, by_default: RestartPolicy) -> LocalContainer:
    rules = {"restartPolicy": spec.restart_policy, "restartPolicyRules": spec.restart_policy_rules}
    restart = RestartPolicy(spec.restart_policy or by_default)
    return LocalContainer(spec.name, role, restart, spec, restart_rules.read(rules))


def _volume(entry: Mapping[str, Any]) -> Volume:
    kind = next((field for field in entry if field != "name"), "emptyDir")
    source = msgspec.convert(entry[kind], VolumeSource) if kind in _VOLUMES else VolumeSource()
    return Volume(entry["name"], kind, source)
