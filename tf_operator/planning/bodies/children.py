"""The bodies of a job's children: pods and headless Services, as 1.9 made them.

A ``ChildBuilder`` makes the body of a child when it is asked for it: the TF_CONFIGs of a thousand workers are 45 MB,
which nobody needs at once. What all pods of a job have in common is worked out once.

The template is the user's. What we add is what makes it a replica: name, labels, owner, TF_CONFIG, the restart
policy and, for a gang scheduler, the membership in the PodGroup.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from typing import Any, Final

from msgspec import structs

from tf_operator import quantity
from tf_operator.job import constants, naming, templates
from tf_operator.job.profile import Profile, RestartBy
from tf_operator.job.record import ReplicaType
from tf_operator.job.templates import main_containers, main_ports
from tf_operator.job.training_job import NetworkPolicyMode, Override, ReplicaSpec, TrainingJob
from tf_operator.meta import MAPPINGS, Body, GroupVersionResource, labels_of, list_of, mapping_of, metadata_of
from tf_operator.planning.actions import Create, Stage
from tf_operator.planning.bodies import (
    cluster_spec,
    default_server,
    gang_schedulers,
    json_logs,
    progress_reporting,
    resize_sidecar,
)
from tf_operator.planning.bodies.gang_schedulers import GangScheduler
from tf_operator.planning.job_queue import admission
from tf_operator.planning.pods import avoided_nodes
from tf_operator.planning.pods.pod_state import kubelet_policy
from tf_operator.planning.snapshot import Settings

PODS: Final = GroupVersionResource("", "v1", "pods", "Pod")
SERVICES: Final = GroupVersionResource("", "v1", "services", "Service")
_MESSAGE_POLICY: Final = "terminationMessagePolicy"
_LEFT_OPEN: Final = "\0"
"""In place of a TF_CONFIG; none that a user sets."""
_PROBES: Final = frozenset({"livenessProbe", "startupProbe"})


@dataclass(frozen=True)
class ChildBuilder:
    """Makes the bodies of a job's children."""

    job: TrainingJob
    settings: Settings
    avoided: tuple[str, ...] = ()
    """Names of nodes on which no pod may be."""

    def create_service(self, kind: ReplicaType, index: int, name: str) -> Create:
        body = partial(self.service, kind, index, name=name)
        return Create(SERVICES, name, f"Service {name}", body, Stage.PODS, replica=self._title(kind, index))

    def create_job_service(self) -> Create:
        name = self.job.key.name
        return Create(SERVICES, name, f"Service {name}", self._job_service)

    def create_pod(self, kind: ReplicaType, index: int, name: str, *, needs: Create | None) -> Create:
        """Make the pod of one replica, and its Service if that is needed."""
        return Create(
            PODS,
            name,
            f"pod {name}",
            partial(self.pod, kind, index, name=name),
            Stage.PODS,
            needs=needs,
            replica=self._title(kind, index),
            is_announced=True,
            is_watched=True,
        )

    def _title(self, kind: ReplicaType, index: int) -> str:
        return f"{self.job.profile.words.type(kind)}-{index}"

    def pod(self, kind: ReplicaType, index: int, *, name: str) -> dict[str, Any]:
        pod = self._pod(self._spec(kind), index, name, self._config(kind, index))
        if self.job.has_one_service:
            pod["spec"] |= {"hostname": naming.service_name(self.job, kind, index), "subdomain": self.job.key.name}
        server = progress_reporting.server_of(self.job, kind, index, self.settings.progress)
        return progress_reporting.added(pod, self.job, server) if server else pod

    def pod_spec(self, kind: ReplicaType) -> dict[str, Any]:
        """What all pods of one type have: all that they ask for. Their TF_CONFIG, which differs, is left open."""
        config = _LEFT_OPEN if cluster_spec.is_distributed(self.job) else ""
        spec: dict[str, Any] = self._pod(self._spec(kind), 0, "", config)["spec"]
        return spec

    def _pod(self, spec: ReplicaSpec, index: int, name: str, config: str) -> dict[str, Any]:
        metadata = naming.metadata(self.job, name, self._labels(spec, index)) | self._template_metadata(spec)
        pod = {"metadata": metadata, "spec": self._pod_spec(spec, config)}
        if config and resize_sidecar.is_offered(self.job, self.settings):
            pod = resize_sidecar.added(pod, self.job, config)
        if self.settings.restarts_in_place and self.job.run_policy.restarts_in_place:
            pod = {**pod, "spec": resize_sidecar.restarting_itself(pod["spec"], self.job, spec)}
        return json_logs.added(pod, self.job, spec.type, index) if json_logs.is_wanted(self.job) else pod

    def service(self, kind: ReplicaType, index: int, *, name: str) -> dict[str, Any]:
        """The headless Service of one replica: its name in the cluster's DNS, from before the pod is ready."""
        metadata = naming.metadata(self.job, name, naming.service_labels(self.job, kind, index))
        spec = _headless(naming.replica_labels(self.job, kind, index), self._ports[kind])
        return {"metadata": metadata, "spec": spec}

    def _job_service(self) -> dict[str, Any]:
        """The headless Service of all replicas, in whose domain each pod has the name of its host."""
        metadata = naming.metadata(self.job, self.job.key.name, naming.job_service_labels(self.job))
        ports = _service_ports(self.job.replicas, self.job.profile)
        return {"metadata": metadata, "spec": _headless(naming.job_labels(self.job), ports)}

    @cached_property
    def _gang(self) -> GangScheduler | None:
        return gang_schedulers.of(self.job, self.settings)

    @cached_property
    def _cluster(self) -> str:
        return cluster_spec.full_cluster(self.job, self.settings.cluster_domain)

    @cached_property
    def _ports(self) -> Mapping[ReplicaType, list[dict[str, Any]]]:
        return {spec.type: _service_ports([spec], self.job.profile) for spec in self.job.replicas}

    def _spec(self, kind: ReplicaType) -> ReplicaSpec:
        return next(spec for spec in self.job.replicas if spec.type is kind)

    def _labels(self, spec: ReplicaSpec, index: int) -> dict[str, str]:
        labels = {**labels_of(spec.template), **naming.pod_labels(self.job, spec.type, index)}
        return labels | self._gang.labels(self.job, spec.type) if self._gang else labels

    def _template_metadata(self, spec: ReplicaSpec) -> dict[str, Any]:
        """What the template's own metadata brings, beside labels."""
        metadata = metadata_of(spec.template)
        annotations = dict(mapping_of(metadata.get("annotations")))
        for name in (constants.AVOIDED_NODES_ANNOTATION, constants.NETWORK_ANNOTATION):
            annotations.pop(name, None)  # copied from a pod
        if self._gang:
            annotations |= self._gang.annotations(self.job, spec.type)
        annotations |= avoided_nodes.annotations(spec, self.avoided)
        if self.settings.marks_isolated and self.job.is_isolated:
            annotations[constants.NETWORK_ANNOTATION] = NetworkPolicyMode.JOB.value
        if spec.memory:
            annotations[constants.MEMORY_ANNOTATION] = quantity.memory(spec.memory.in_force)
        finalizers = metadata.get("finalizers")
        fields = {"annotations": annotations, "finalizers": finalizers}
        return {field: value for field, value in fields.items() if value}

    def _config(self, kind: ReplicaType, index: int) -> str:
        """Its TF_CONFIG; empty when it gets none."""
        if not cluster_spec.is_distributed(self.job):
            return ""
        cluster = "" if self.job.has_dynamic_workers else self._cluster
        return cluster_spec.tf_config(self.job, kind, index, domain=self.settings.cluster_domain, cluster=cluster)

    def _pod_spec(self, spec: ReplicaSpec, config: str) -> dict[str, Any]:
        pod = dict(templates.pod_of(spec))
        pod["restartPolicy"] = kubelet_policy(spec.restart_policy, self.job.profile.restart_by).value
        if self._gang:
            pod |= self._gang.pod_fields(self.job, pod)
        if spec.override:
            pod = _override(pod, spec.override, self.job.profile.container)
        if node := self.job.record.queue.node:
            pod = admission.near(pod, node)
        pod = avoided_nodes.avoiding(pod, self.avoided)
        if spec.is_default_server:
            pod = default_server.with_program(pod, self.job, self.settings)
        if config and (containers := list_of(pod.get("containers"))):
            pod["containers"] = [self._configure(entry, config) for entry in containers]
        return _explaining_failures(pod, self.job.profile.container)

    def _configure(self, container: object, config: str) -> object:
        """The container with TF_CONFIG, if it is the one that decides; a user's own TF_CONFIG stays."""
        if not isinstance(container, MAPPINGS) or container.get("name") != self.job.profile.container:
            return container
        env = container.get("env") or []
        if not isinstance(env, list) or has_own_tf_config(container):
            return container  # what is no list is for the apiserver to refuse
        return {**container, "env": [*env, {"name": constants.TF_CONFIG, "value": config}]}


def as_made(job: TrainingJob, settings: Settings) -> TrainingJob:
    """The job, where the templates are as its pods are made: with what the operator adds, which asks for room, too."""
    builder = ChildBuilder(job, settings)
    specs = (
        structs.replace(spec, template={**spec.template, "spec": builder.pod_spec(spec.type)}) for spec in job.replicas
    )
    return structs.replace(job, replicas=tuple(specs))


def _explaining_failures(pod: dict[str, Any], container: str) -> dict[str, Any]:
    """The pod whose status says why its program failed, or an init container: by the end of the log.

    Only where the template does not choose. It is no part of the job's own template: whatever is compared with that, as
    the Workload of a job that runs, is the same as before.
    """
    lists = {
        "initContainers": [_falling_back(entry) for entry in list_of(pod.get("initContainers"))],
        "containers": [
            _falling_back(entry) if isinstance(entry, MAPPINGS) and entry.get("name") == container else entry
            for entry in list_of(pod.get("containers"))
        ],
    }
    return pod | {field: entries for field, entries in lists.items() if entries}


def _falling_back(container: object) -> object:
    if not isinstance(container, MAPPINGS) or container.get(_MESSAGE_POLICY):
        return container
    return {**container, _MESSAGE_POLICY: "FallbackToLogsOnError"}


def _override(pod: dict[str, Any], change: Override, container: str) -> dict[str, Any]:
    """The pod with another program in the container of this name."""
    program = {"command": change.command, "args": change.args}
    fields = {name: list(value) for name, value in program.items() if value is not None}
    probes = _PROBES if change.drops_probes else frozenset[str]()
    elements = pod.get("containers")
    containers = [
        {name: value for name, value in entry.items() if name not in probes} | fields
        if isinstance(entry, MAPPINGS) and entry.get("name") == container
        else entry
        for entry in (elements if isinstance(elements, list) else ())
    ]
    rest = {name: value for name, value in pod.items() if name != "initContainers" or not change.skips_init_containers}
    return rest | {"containers": containers}


def has_own_tf_config(container: Body) -> bool:
    env = container.get("env")
    entries = env if isinstance(env, list) else []
    return any(isinstance(entry, MAPPINGS) and entry.get("name") == constants.TF_CONFIG for entry in entries)


def types_with_own_tf_config(job: TrainingJob) -> list[ReplicaType]:
    name = job.profile.container
    return [spec.type for spec in job.replicas if any(map(has_own_tf_config, main_containers(spec, name)[:1]))]


def types_with_restart_policy(job: TrainingJob) -> list[ReplicaType]:
    """The types whose templates say a restartPolicy, which the one of the replica type overrules."""
    if job.profile.restart_by is RestartBy.TEMPLATE:
        return []
    return [spec.type for spec in job.replicas if templates.pod_of(spec).get("restartPolicy")]


def types_with_other_scheduler(job: TrainingJob, scheduler: str) -> list[ReplicaType]:
    return [
        spec.type for spec in job.replicas if templates.pod_of(spec).get("schedulerName") not in (None, "", scheduler)
    ]


def _headless(selector: Mapping[str, str], ports: list[dict[str, Any]]) -> dict[str, Any]:
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)}
    return spec | ({"ports": ports} if ports else {})


def _service_ports(specs: Iterable[ReplicaSpec], profile: Profile) -> list[dict[str, Any]]:
    """One port for each of the containers', sorted, so that they are the same every time. No two are the same."""
    by_port: dict[tuple[int, str], str] = {}
    for port in chain.from_iterable(main_ports(spec, profile.container) for spec in specs):
        number, protocol, own = port.get("containerPort"), port.get("protocol") or "TCP", port.get("name")
        if own == profile.port_name:
            own = profile.service_port_name or own
        if isinstance(number, int) and isinstance(protocol, str):
            by_port.setdefault((number, protocol), own if isinstance(own, str) else "")
    names = {name for name in by_port.values() if name}
    ports: list[dict[str, Any]] = []
    for (number, protocol), own in sorted(by_port.items(), key=lambda entry: entry[0]):
        is_free = bool(own) and all(port["name"] != own for port in ports)
        name = own if is_free else _free_name(number, protocol, names)
        names.add(name)
        ports.append({"name": name, "port": number, "protocol": protocol})
    return ports


def _free_name(number: int, protocol: str, names: Collection[object]) -> str:
    """The name of a port without one, which no other port has."""
    name = f"port-{number}" if protocol == "TCP" else f"port-{number}-{protocol}".lower()
    return next(free for free in chain([name], (f"{name}-{more}" for more in count(2))) if free not in names)
