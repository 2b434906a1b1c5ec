"""Chainable, immutable builders for what tests create: TFJobs, pods and services.

    job = builders.tfjob("mnist").chief().workers(3, restart="ExitCode").clean_pods("All").body()
    pod = builders.child_pod(created_job, "Worker", 0).body()

Every method returns a new builder, and ``body()`` a fresh dict that the caller may change. The defaults are accepted
by a real apiserver; a field that no method was called for is left out, so that the defaults of the schema apply.
``merged`` reaches everything else, also what is wrong on purpose.

Names, labels and owner references are spelt out here and not taken from ``tf_operator``: these are what
users, SDKs and dashboards rely on, and a test has to notice when the product changes them.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from support.jobs.templates import CONTAINER, Template
from support.resources import Json

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
    """Any object: what is particular to its kind, its metadata, and corrections at the end."""

    name: str
    content: Json = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    corrections: tuple[Json, ...] = ()

    def named(self, name: str) -> Self:
        return replace(self, name=name)

    def in_namespace(self, namespace: str) -> Self:
        return self._with_metadata(namespace=namespace)

    def labels(self, labels: Mapping[str, str]) -> Self:
        return self._with_metadata(labels={**self.metadata.get("labels", {}), **labels})

    def annotations(self, annotations: Mapping[str, str]) -> Self:
        return self._with_metadata(annotations={**self.metadata.get("annotations", {}), **annotations})

    def owned_by(self, owner: Json) -> Self:
        """Add a controller's owner reference to an object as the apiserver returned it (its UID is needed)."""
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return self._with_metadata(ownerReferences=[reference])

    def merged(self, patch: Json) -> Self:
        """Apply a JSON merge patch to the finished body: ``{"spec": {"suspend": None}}`` removes a field."""
        return replace(self, corrections=(*self.corrections, deepcopy(patch)))

    def body(self) -> Json:
        fields = {name: value for name, value in self.metadata.items() if value}
        body: Json = {**self._content(), "metadata": {"name": self.name, **fields}}
        for patch in self.corrections:
            body = merge(body, patch)
        return deepcopy(body)

    def _content(self) -> Json:
        return self.content

    def _with_metadata(self, **fields: object) -> Self:
        return replace(self, metadata={**self.metadata, **fields})


@dataclass(frozen=True, slots=True)
class TFJobBuilder(ObjectBuilder):
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

    def oom_policy(self, kind: str, most: str, *, limit: str = "", percent: int | None = None) -> Self:
        """That type with more memory after OOM kills, and with this limit in its template."""
        policy = {"maxMemory": most} | ({} if percent is None else {"growthPercent": percent})
        spec = merge(self.replica_specs[kind], {"oomPolicy": policy})
        if limit:
            main, *sidecars = spec["template"]["spec"]["containers"]
            containers = [main | {"resources": {"limits": {"memory": limit}}}, *sidecars]
            spec = merge(spec, {"template": {"spec": {"containers": containers}}})
        return replace(self, replica_specs={**self.replica_specs, kind: spec})

    def chief(self, *, restart: str = "") -> Self:
        return self.replicas("Chief", 1, restart=restart)

    def master(self, *, restart: str = "") -> Self:
        return self.replicas("Master", 1, restart=restart)

    def workers(self, count: int = 1, *, restart: str = "", template: Template | None = None) -> Self:
        return self.replicas("Worker", count, restart=restart, template=template)

    def parameter_servers(self, count: int = 1, *, restart: str = "", template: Template | None = None) -> Self:
        return self.replicas("PS", count, restart=restart, template=template)

    def evaluators(self, count: int = 1, *, restart: str = "") -> Self:
        return self.replicas("Evaluator", count, restart=restart)

    def success_policy(self, policy: str = "AllWorkers") -> Self:
        return self._with_spec(successPolicy=policy)

    def dynamic_workers(self) -> Self:
        return self._with_spec(enableDynamicWorker=True)

    def elastic(self, least: int, most: int, **more: object) -> Self:
        return self._with_spec(elasticPolicy={"minReplicas": least, "maxReplicas": most, **more})

    def tf_config_format(self, form: str) -> Self:
        return self._with_spec(tfConfigFormat=form)

    def service_mode(self, mode: str) -> Self:
        return self._with_spec(serviceMode=mode)

    def network_policy(self, mode: str) -> Self:
        return self._with_spec(networkPolicy=mode)

    def clean_pods(self, policy: str) -> Self:
        return self._with_run_policy(cleanPodPolicy=policy)

    def backoff_limit(self, limit: int) -> Self:
        return self._with_run_policy(backoffLimit=limit)

    def deadline(self, seconds: int) -> Self:
        return self._with_run_policy(activeDeadlineSeconds=seconds)

    def restarts_as_a_whole(self, method: str = "") -> Self:
        return self._with_run_policy(restarts={"scope": "Job"} | ({"method": method} if method else {}))

    def avoid_nodes(self, after_failures: int | None) -> Self:
        return self._with_run_policy(avoidNodes={"afterFailures": after_failures})

    def progress_deadline(self, seconds: int | None, action: str = "Report", *, reports: bool = True) -> Self:
        deadline = {} if seconds is None else {"deadlineSeconds": seconds}
        return self._with_run_policy(progressPolicy={"reports": reports, "action": action, **deadline})

    def ttl(self, seconds: int) -> Self:
        return self._with_run_policy(ttlSecondsAfterFinished=seconds)

    def startup_deadline(self, seconds: int) -> Self:
        return self._with_run_policy(startupDeadlineSeconds=seconds)

    def suspended(self, suspend: bool = True) -> Self:
        return self._with_run_policy(suspend=suspend)

    def managed_by(self, controller: str = "kueue.x-k8s.io/multikueue") -> Self:
        """By default someone who is not us."""
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
        texts = {"queue": queue, "priorityClass": priority_class, "minResources": dict(min_resources)}
        numbers = {"minAvailable": min_available, "scheduleTimeoutSeconds": timeout}
        policy: Json = {name: value for name, value in texts.items() if value}
        policy |= {name: value for name, value in numbers.items() if value is not None}
        return self._with_run_policy(schedulingPolicy=policy)

    def _with_spec(self, **fields: object) -> Self:
        return replace(self, more_spec={**self.more_spec, **fields})

    def _with_run_policy(self, **fields: object) -> Self:
        return replace(self, run_policy={**self.run_policy, **fields})

    def _content(self) -> Json:
        policy = {"runPolicy": dict(self.run_policy)} if self.run_policy else {}
        spec = {"tfReplicaSpecs": dict(self.replica_specs), **policy, **self.more_spec}
        return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": spec}


def tfjob(name: str = "job") -> TFJobBuilder:
    """A TFJob without any replicas yet."""
    return TFJobBuilder(name)


def pod(name: str = "pod") -> ObjectBuilder:
    return ObjectBuilder(name, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}})


def service(name: str = "service") -> ObjectBuilder:
    """A headless service."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True}
    return ObjectBuilder(name, {"apiVersion": "v1", "kind": "Service", "spec": spec})


def child_name(job: str, kind: str, index: int) -> str:
    return f"{job}-{kind.lower()}-{index}"


def child_labels(job: str, kind: str, index: int) -> dict[str, str]:
    """The four labels of a replica's pod and service; also its service's selector."""
    return {
        f"{_LABEL}operator-name": "tfjob-controller",
        f"{_LABEL}job-name": job,
        f"{_LABEL}replica-type": kind.lower(),
        f"{_LABEL}replica-index": str(index),
    }


def child_pod(job: Json, kind: str, index: int) -> ObjectBuilder:
    """The pod that the operator makes for a replica of a stored job, except for its TF_CONFIG."""
    name, replicas = job["metadata"]["name"], job["spec"]["tfReplicaSpecs"]
    restart = replicas[kind].get("restartPolicy", "Never")
    is_master = kind in {"Chief", "Master"} or (
        (kind, index) == ("Worker", 0) and not {"Chief", "Master"} & set(replicas)
    )
    labels = child_labels(name, kind, index) | ({f"{_LABEL}job-role": "master"} if is_master else {})
    spec = replicas[kind]["template"]["spec"] | {"restartPolicy": "Never" if restart == "ExitCode" else restart}
    return pod(child_name(name, kind, index)).labels(labels).owned_by(job).merged({"spec": spec})


def child_service(job: Json, kind: str, index: int) -> ObjectBuilder:
    """The service that the operator makes for a replica of a stored job that names no port."""
    name = job["metadata"]["name"]
    labels = child_labels(name, kind, index)
    spec = {"selector": labels, "ports": [{"name": "tfjob-port", "port": 2222}]}
    return service(child_name(name, kind, index)).labels(labels).owned_by(job).merged({"spec": spec})
