"""Chainable, immutable builders for what tests create: TFJobs, pods and services.

    job = builders.tfjob("mnist").chief().workers(3, restart="ExitCode").clean_pods("All").body()
    pod = builders.child_pod(created_job, "Worker", 0).body()

Every method returns a new builder, so a half-built one can be shared between tests, and ``body()`` returns
a fresh dict that the caller may change. The defaults are accepted by a real apiserver; a field that no
method was called for is left out, so that the defaults of the schema apply. ``merged`` reaches everything
else, also what is wrong on purpose.

Names, labels and owner references are spelt out here and not taken from ``tf_operator``: these are what
users, SDKs and dashboards rely on, and a test has to notice when the product changes them.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from support.resources import Json
from support.templates import MAIN_CONTAINER, Template

_LABEL = "training.kubeflow.org/"
_NOTHING: Mapping[str, Any] = {}


def merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """RFC 7386: ``patch`` over ``target`` as a new value; ``None`` removes a field."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            below = merged.get(name)
            merged[name] = merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[name] = deepcopy(value)
    return merged


@dataclass(frozen=True, slots=True)
class ObjectBuilder:
    """What all objects have: a name, labels, annotations, owners, finalizers, and corrections at the end."""

    name: str
    namespace: str = ""
    label_map: Mapping[str, str] = field(default_factory=dict)
    annotation_map: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Json, ...] = ()
    finalizer_names: tuple[str, ...] = ()
    corrections: tuple[Json, ...] = ()

    def named(self, name: str) -> Self:
        return replace(self, name=name)

    def in_namespace(self, namespace: str) -> Self:
        """Names the namespace in the body; the path of the request does so anyway."""
        return replace(self, namespace=namespace)

    def labels(self, labels: Mapping[str, str]) -> Self:
        return replace(self, label_map={**self.label_map, **labels})

    def annotations(self, annotations: Mapping[str, str]) -> Self:
        return replace(self, annotation_map={**self.annotation_map, **annotations})

    def owned_by(self, owner: Json, *, controller: bool = True) -> Self:
        """Add an owner reference to an object as the apiserver returned it (its UID is needed)."""
        return replace(self, owners=(*self.owners, owner_reference(owner, controller=controller)))

    def finalizer(self, name: str) -> Self:
        """Add a finalizer: the object stays in Terminating until someone removes it."""
        return replace(self, finalizer_names=(*self.finalizer_names, name))

    def merged(self, patch: Json) -> Self:
        """Apply a JSON merge patch to the finished body: ``{"spec": {"suspend": None}}`` removes a field."""
        return replace(self, corrections=(*self.corrections, deepcopy(patch)))

    def body(self) -> Json:
        body: Json = self._content()
        body["metadata"] = _without_empty(
            name=self.name,
            namespace=self.namespace,
            labels=dict(self.label_map),
            annotations=dict(self.annotation_map),
            ownerReferences=list(self.owners),
            finalizers=list(self.finalizer_names),
        )
        for patch in self.corrections:
            body = merge(body, patch)
        return deepcopy(body)

    def _content(self) -> Json:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TFJobBuilder(ObjectBuilder):
    """A ``kubeflow.org/v1`` TFJob."""

    replica_specs: Mapping[str, Json] = field(default_factory=dict)
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    more_spec: Mapping[str, Any] = field(default_factory=dict)

    def replicas(self, kind: str, count: int | None, *, restart: str = "", template: Template | None = None) -> Self:
        """Replicas of any type, in any spelling. ``None`` or ``""``: the field is left to its default."""
        spec: Json = {"template": (template or Template()).body()}
        if count is not None:
            spec["replicas"] = count
        if restart:
            spec["restartPolicy"] = restart
        return replace(self, replica_specs={**self.replica_specs, kind: spec})

    def chief(self, *, restart: str = "", template: Template | None = None) -> Self:
        return self.replicas("Chief", 1, restart=restart, template=template)

    def master(self, *, restart: str = "", template: Template | None = None) -> Self:
        """One Master: a Chief under its other name."""
        return self.replicas("Master", 1, restart=restart, template=template)

    def workers(self, count: int = 1, *, restart: str = "", template: Template | None = None) -> Self:
        return self.replicas("Worker", count, restart=restart, template=template)

    def parameter_servers(self, count: int = 1, *, restart: str = "", template: Template | None = None) -> Self:
        """Replicas of type PS."""
        return self.replicas("PS", count, restart=restart, template=template)

    def evaluators(self, count: int = 1, *, restart: str = "", template: Template | None = None) -> Self:
        return self.replicas("Evaluator", count, restart=restart, template=template)

    def success_policy(self, policy: str = "AllWorkers") -> Self:
        """What makes a job without a chief succeed."""
        return self._with_spec(successPolicy=policy)

    def dynamic_workers(self) -> Self:
        """Allow the number of workers to change while the job runs."""
        return self._with_spec(enableDynamicWorker=True)

    def tf_config_format(self, form: str) -> Self:
        """``tfConfigFormat``: Full or Sparse."""
        return self._with_spec(tfConfigFormat=form)

    def clean_pods(self, policy: str) -> Self:
        """``cleanPodPolicy``: All, Running or None."""
        return self._with_run_policy(cleanPodPolicy=policy)

    def backoff_limit(self, limit: int) -> Self:
        """``backoffLimit``: one budget of restarts for the whole job."""
        return self._with_run_policy(backoffLimit=limit)

    def deadline(self, seconds: int) -> Self:
        """``activeDeadlineSeconds``, counted from the job's startTime."""
        return self._with_run_policy(activeDeadlineSeconds=seconds)

    def ttl(self, seconds: int) -> Self:
        """``ttlSecondsAfterFinished``."""
        return self._with_run_policy(ttlSecondsAfterFinished=seconds)

    def startup_deadline(self, seconds: int) -> Self:
        """``startupDeadlineSeconds``: ours, not part of 1.9."""
        return self._with_run_policy(startupDeadlineSeconds=seconds)

    def suspended(self, suspend: bool = True) -> Self:
        """``suspend``."""
        return self._with_run_policy(suspend=suspend)

    def managed_by(self, controller: str = "kueue.x-k8s.io/multikueue") -> Self:
        """``managedBy``: by default someone who is not us."""
        return self._with_run_policy(managedBy=controller)

    def scheduling(
        self,
        *,
        min_available: int | None = None,
        queue: str = "",
        priority_class: str = "",
        min_resources: Mapping[str, str] = _NOTHING,
        timeout: int | None = None,
    ) -> Self:
        """``schedulingPolicy``, for gang schedulers."""
        policy = _without_empty(
            queue=queue, priorityClass=priority_class, minResources=dict(min_resources)
        ) | _without_none(minAvailable=min_available, scheduleTimeoutSeconds=timeout)
        return self._with_run_policy(schedulingPolicy=policy)

    def _with_spec(self, **fields: object) -> Self:
        return replace(self, more_spec={**self.more_spec, **fields})

    def _with_run_policy(self, **fields: object) -> Self:
        return replace(self, run_policy={**self.run_policy, **fields})

    def _content(self) -> Json:
        policy = {"runPolicy": dict(self.run_policy)} if self.run_policy else {}
        spec = {"tfReplicaSpecs": dict(self.replica_specs), **policy, **self.more_spec}
        return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": spec}


@dataclass(frozen=True, slots=True)
class PodBuilder(ObjectBuilder):
    """A pod: a child of a job (``child_pod``) or one that belongs to nobody (``pod``)."""

    template: Template = field(default_factory=Template)

    def shaped(self, template: Template) -> Self:
        """The pod's containers and the rest of its spec; labels and annotations of the template count too."""
        return replace(self, template=template)

    def restart(self, policy: str) -> Self:
        """``restartPolicy``: Always, OnFailure or Never."""
        return replace(self, template=self.template.spec(restartPolicy=policy))

    def _content(self) -> Json:
        return {"apiVersion": "v1", "kind": "Pod", "spec": self.template.body()["spec"]}


@dataclass(frozen=True, slots=True)
class ServiceBuilder(ObjectBuilder):
    """A headless service."""

    selector: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[Json, ...] = ()

    def selecting(self, labels: Mapping[str, str]) -> Self:
        return replace(self, selector={**self.selector, **labels})

    def port(self, name: str, number: int) -> Self:
        return replace(self, ports=(*self.ports, {"name": name, "port": number}))

    def _content(self) -> Json:
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True} | _without_empty(
            selector=dict(self.selector), ports=list(self.ports)
        )
        return {"apiVersion": "v1", "kind": "Service", "spec": spec}


def tfjob(name: str = "job") -> TFJobBuilder:
    """A TFJob without any replicas yet."""
    return TFJobBuilder(name)


def pod(name: str = "pod") -> PodBuilder:
    """A pod of nobody's, with one container."""
    return PodBuilder(name)


def service(name: str = "service") -> ServiceBuilder:
    return ServiceBuilder(name)


def child_name(job: str, kind: str, index: int) -> str:
    """The name of a replica's pod and of its service."""
    return f"{job}-{kind.lower()}-{index}"


def child_labels(job: str, kind: str, index: int) -> dict[str, str]:
    """The four labels of a replica's pod and service; also its service's selector."""
    return {
        f"{_LABEL}operator-name": "tfjob-controller",
        f"{_LABEL}job-name": job,
        f"{_LABEL}replica-type": kind.lower(),
        f"{_LABEL}replica-index": str(index),
    }


def owner_reference(owner: Json, *, controller: bool = True) -> Json:
    """The reference to an object that has a UID, thus to one that the apiserver returned."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def child_pod(job: Json, kind: str, index: int) -> PodBuilder:
    """The pod that the operator makes for a replica of a stored job, except for its TF_CONFIG."""
    name, replicas = job["metadata"]["name"], job["spec"]["tfReplicaSpecs"]
    spec = replicas[kind]
    restart = spec.get("restartPolicy", "Never")
    is_master = kind in {"Chief", "Master"} or (
        (kind, index) == ("Worker", 0) and not {"Chief", "Master"} & set(replicas)
    )
    labels = child_labels(name, kind, index) | ({f"{_LABEL}job-role": "master"} if is_master else {})
    metadata = spec["template"].get("metadata", {})
    return (
        pod(child_name(name, kind, index))
        .shaped(Template.of(spec["template"]))
        .restart("Never" if restart == "ExitCode" else restart)
        .labels(metadata.get("labels", {}) | labels)
        .annotations(metadata.get("annotations", {}))
        .owned_by(job)
    )


def child_service(job: Json, kind: str, index: int) -> ServiceBuilder:
    """The service that the operator makes for a replica of a stored job."""
    name = job["metadata"]["name"]
    labels = child_labels(name, kind, index)
    containers = job["spec"]["tfReplicaSpecs"][kind]["template"]["spec"]["containers"]
    main = next(entry for entry in containers if entry["name"] == MAIN_CONTAINER)
    built = service(child_name(name, kind, index)).labels(labels).selecting(labels).owned_by(job)
    for entry in main.get("ports", ()):
        built = built.port(entry["name"], entry["containerPort"])
    return built


def _without_empty(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value}


def _without_none(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
