"""What the pods of an admitted job get: their number, and where they may run.

The spec of the job stays as its user has written it. What Kueue has assigned wins over what the template says, because
it is what quota is counted for.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body, mapping_of, metadata_of, objects_of, text_of
from tf_operator.planning.kueue import state
from tf_operator.planning.kueue.state import Flavor, KueueState, Workload, texts

_POD_SET: Final = f"{state.GROUP}/podset"
_LOCAL_QUEUE: Final = f"{state.GROUP}/local-queue-name"
_CLUSTER_QUEUE: Final = f"{state.GROUP}/cluster-queue-name"
_WORKLOAD: Final = f"{state.GROUP}/workload"
TOPOLOGY_GATE: Final = f"{state.GROUP}/topology"
_UNCONSTRAINED: Final = f"{state.GROUP}/podset-unconstrained-topology"
_ASKS_FOR_TOPOLOGY: Final = ("required", "preferred", "unconstrained")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def admit(job: TrainingJob, kueue: KueueState, workload: Workload) -> TrainingJob:
    assignments = workload.assignments
    return structs.replace(
        job,
        replicas=tuple(
            _admit(spec, entry, kueue, workload) if (entry := assignments.get(spec.type.label)) else spec
            for spec in job.replicas
        ),
    )


def missing(kueue: KueueState, workload: Workload) -> str:
    """A flavor that pods were given, and that is not known here; without it they might run anywhere."""
    names = (name for assignment in workload.assignments.values() for name in texts(assignment.get("flavors")).values())
    return next((name for name in names if name not in kueue.flavors), "")


def _admit(spec: ReplicaSpec, assignment: Body, kueue: KueueState, workload: Workload) -> ReplicaSpec:
    admitted_count = assignment.get("count")
    count = min(admitted_count, spec.count) if isinstance(admitted_count, int) and admitted_count > 0 else spec.count
    template = spec.template
    for change in (_assignment_change(assignment, kueue, workload), *_updates(spec, workload)):
        template = _change(template, change)
    return structs.replace(spec, template=template, count=count)


def _assignment_change(assignment: Body, kueue: KueueState, workload: Workload) -> dict[str, Any]:
    """What follows from the flavors and the topology that a pod set was given."""
    names = dict.fromkeys(texts(assignment.get("flavors")).values())
    flavors = [kueue.flavors.get(name, Flavor()) for name in names]
    labels = {_POD_SET: text_of(assignment, "name"), _LOCAL_QUEUE: text_of(workload.spec, "queueName")}
    admission = workload.status.get("admission")
    cluster_queue = text_of(admission, "clusterQueue") if isinstance(admission, Mapping) else ""
    if _LABEL.fullmatch(cluster_queue):
        labels[_CLUSTER_QUEUE] = cluster_queue
    change: dict[str, Any] = {
        "labels": labels,
        "annotations": {_WORKLOAD: workload.name},
        "nodeSelector": {name: value for flavor in flavors for name, value in flavor.node_labels.items()},
        "tolerations": [toleration for flavor in flavors for toleration in flavor.tolerations],
    }
    if assignment.get("topologyAssignment") is None:
        return change
    # Kueue takes the gate away, pod by pod, when it has given the pod its place.
    change["schedulingGates"] = [{"name": TOPOLOGY_GATE}]
    if not _asks_for_topology(text_of(assignment, "name"), workload):
        change["annotations"][_UNCONSTRAINED] = "true"
    return change


def _asks_for_topology(name: str, workload: Workload) -> bool:
    pod_set = next((entry for entry in objects_of(workload.spec.get("podSets")) if entry.get("name") == name), {})
    request = pod_set.get("topologyRequest")
    return isinstance(request, Mapping) and any(request.get(word) is not None for word in _ASKS_FOR_TOPOLOGY)


def _updates(spec: ReplicaSpec, workload: Workload) -> Iterator[Body]:
    """What the admission checks of its queue add."""
    for check in objects_of(workload.status.get("admissionChecks")):
        for update in objects_of(check.get("podSetUpdates")):
            if update.get("name") == spec.type.label:
                yield update


def _change(template: Body, change: Body) -> dict[str, Any]:
    """The template with what is added to it; what is not of the type that it should be is left to the API server."""
    metadata, pod = metadata_of(template), mapping_of(template.get("spec"))
    return {
        **template,
        "metadata": {**metadata, **_merge(metadata, change, "labels"), **_merge(metadata, change, "annotations")},
        "spec": {
            **pod,
            **_merge(pod, change, "nodeSelector"),
            **_extend(pod, change, "tolerations"),
            **_extend(pod, change, "schedulingGates"),
        },
    }


def _merge(part: Body, change: Body, field: str) -> dict[str, Any]:
    current, additions = part.get(field) or {}, texts(change.get(field))
    return {field: {**current, **additions}} if additions and isinstance(current, Mapping) else {}


def _extend(part: Body, change: Body, field: str) -> dict[str, Any]:
    current, additions = part.get(field) or [], objects_of(change.get(field))
    if not isinstance(current, list) or not additions:
        return {}
    return {field: [*current, *(entry for entry in additions if entry not in current)]}
