"""What the pod of a replica has so that its containers can start again in another cluster, or for another attempt.

TF_CONFIG is an annotation of the pod, which the kubelet reads whenever it starts a container. Another annotation
has the sizes that it is about. A native sidecar, from the image of the training, sees the second one change and exits
with ``EXIT_CODE``, and by its restart rule the kubelet then restarts all containers of the pod (from Kubernetes 1.36).

In a job that restarts as a whole in place, the second annotation has the attempt, too, and the training has a rule of
its own: the kubelet starts a program that may be tried again without asking anybody. Only the program, and not all
containers of its pod: of those the kubelet would not keep how they ended, nor which of them was the cause.
"""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.job import constants
from tf_operator.job.training_job import ReplicaSpec, RestartPolicy, TrainingJob
from tf_operator.meta import Body, list_of
from tf_operator.planning import resizing
from tf_operator.planning.snapshot import Pod, Settings

CONFIG_ANNOTATION: Final = "tf-operator.kubeflow.org/tf-config"
SIZES_ANNOTATION: Final = "tf-operator.kubeflow.org/cluster-size"
REQUEST_ANNOTATION: Final = "tf-operator.kubeflow.org/restart-request"
"""When a pod was asked to begin another attempt. The sidecar does not see it."""
ATTEMPT: Final = "attempt"
SIDECAR: Final = "tf-operator-resize"
EXIT_CODE: Final = 75
"""EX_TEMPFAIL: what the sidecar exits with when there is another size, and never else."""
_FOLDER: Final = "/etc/tf-operator/resize"
_SIZES_VARIABLE: Final = "CLUSTER_SIZE"
_SCRIPT: Final = f"""\
trap 'exit 0' TERM
while sleep 1 & wait $!; do
  read -r now < {_FOLDER}/cluster-size || [ "$now" ] || continue
  [ "$now" = "${_SIZES_VARIABLE}" ] || exit {EXIT_CODE}
done
"""
"""An empty or absent file says nothing: it is being replaced. What the kubelet writes ends without a newline."""
_AMOUNTS: Final = {"cpu": "10m", "memory": "32Mi"}


def is_offered(job: TrainingJob, settings: Settings) -> bool:
    return settings.restarts_in_place and (is_for_resizes(job) or job.run_policy.restarts_in_place)


def is_for_resizes(job: TrainingJob) -> bool:
    return job.elastic is not None and job.elastic.restarts_in_place


def takes_signals(pod: Pod, settings: Settings) -> bool:
    """Whether its containers start again when its annotation changes."""
    return settings.restarts_in_place and bool(pod.cluster_size)


def takes_sizes(pod: Pod) -> bool:
    """Whether its TF_CONFIG is the annotation, too."""
    return bool(pod.cluster_size) and entries(pod.cluster_size).keys() != {ATTEMPT}


def takes_attempts(pod: Pod) -> bool:
    """Whether it was made for a job that restarts as a whole in place."""
    return ATTEMPT in entries(pod.cluster_size)


def signal(job: TrainingJob) -> str:
    """What the sidecar watches, as ``Worker=2,attempt=3``."""
    sizes = [f"{kind}={count}" for kind, count in resizing.sizes(job).items()] if is_for_resizes(job) else []
    return ",".join([*sizes, f"{ATTEMPT}={job.record.attempt}"] if job.run_policy.restarts_in_place else sizes)


def entries(text: str) -> dict[str, str]:
    """What a pod knows, by its names."""
    parts = (entry.partition("=") for entry in text.split(","))
    return {name: value for name, _, value in parts}


def annotations(job: TrainingJob, config: str) -> dict[str, str]:
    """What a pod knows of the cluster in which it trains, and of the attempt."""
    return ({CONFIG_ANNOTATION: config} if is_for_resizes(job) else {}) | {SIZES_ANNOTATION: signal(job)}


def restarting_itself(pod: Mapping[str, Any], job: TrainingJob, spec: ReplicaSpec) -> dict[str, Any]:
    """The spec of a pod whose program is started again after an exit code that may be tried again.

    Where failing nodes are avoided it is not: a new pod may be on another one.
    """
    codes = job.profile.exit_codes.retryable
    exits: dict[str, Any] = {"operator": "NotIn", "values": [0]}
    if spec.restart_policy is RestartPolicy.EXIT_CODE:
        exits = {"operator": "In", "values": list(codes)}
    if job.run_policy.avoid_after is not None or spec.restart_policy is RestartPolicy.NEVER:
        return dict(pod)
    rules = {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": exits}]}
    name, containers = job.profile.container, list_of(pod.get("containers"))
    return {
        **pod,
        "containers": [
            {**entry, **rules} if isinstance(entry, Mapping) and entry.get("name") == name else entry
            for entry in containers
        ],
    }


def added(pod: Mapping[str, Any], job: TrainingJob, config: str) -> dict[str, Any]:
    """The pod with what it needs for it, if its deciding container has this TF_CONFIG, or need not have another."""
    metadata, spec, name = pod["metadata"], pod["spec"], job.profile.container
    main = next((entry for entry in spec["containers"] if isinstance(entry, Mapping) and entry.get("name") == name), {})
    has_config = {"name": constants.TF_CONFIG, "value": config} in list_of(main.get("env"))
    if is_for_resizes(job) and not has_config:
        return dict(pod)
    containers = [
        _with_source(entry, config) if entry is main and is_for_resizes(job) else entry for entry in spec["containers"]
    ]
    items = [{"path": "cluster-size", "fieldRef": _annotation(SIZES_ANNOTATION)}]
    return {
        **pod,
        "metadata": {**metadata, "annotations": metadata.get("annotations", {}) | annotations(job, config)},
        "spec": {
            **spec,
            "initContainers": [_sidecar(main), *list_of(spec.get("initContainers"))],
            "containers": containers,
            "volumes": [*list_of(spec.get("volumes")), {"name": SIDECAR, "downwardAPI": {"items": items}}],
        },
    }


def counted(pod: Body, rendered: Body) -> Body:
    """A pod's spec with the sidecar, as far as it asks for room, if the pod that is made of it has one."""
    first = next(iter(list_of(rendered.get("initContainers"))), None)
    container = first if isinstance(first, Mapping) and first.get("name") == SIDECAR else {}
    if not container:
        return pod
    sidecar = {name: container[name] for name in ("name", "image", "restartPolicy", "resources") if name in container}
    return {**pod, "initContainers": [sidecar, *list_of(pod.get("initContainers"))]}


def _with_source(container: Mapping[str, Any], config: str) -> dict[str, Any]:
    """The container with TF_CONFIG from the annotation."""
    source = {"name": constants.TF_CONFIG, "valueFrom": {"fieldRef": _annotation(CONFIG_ANNOTATION)}}
    literal = {"name": constants.TF_CONFIG, "value": config}
    return {**container, "env": [source if entry == literal else entry for entry in container["env"]]}


def _sidecar(main: Mapping[str, Any]) -> dict[str, Any]:
    """What restarts the others. It may do what the training may, and runs nothing but a shell and ``sleep``."""
    fields = {name: main[name] for name in ("image", "imagePullPolicy", "securityContext") if name in main}
    return {
        "name": SIDECAR,
        **fields,
        "command": ["/bin/sh", "-c", _SCRIPT],
        "restartPolicy": "Always",
        "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [EXIT_CODE]}}
        ],
        "env": [{"name": _SIZES_VARIABLE, "valueFrom": {"fieldRef": _annotation(SIZES_ANNOTATION)}}],
        "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
        "volumeMounts": [{"name": SIDECAR, "mountPath": _FOLDER, "readOnly": True}],
    }


def _annotation(name: str) -> dict[str, str]:
    return {"fieldPath": f"metadata.annotations['{name}']"}
