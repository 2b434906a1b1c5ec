"""The Workload of a job, as it is wanted: one pod set for each replica type, and its place in the queue.

It has the name and the pod sets that Kueue's own code for TFJobs gives it, so that each finds what the other has made.
"""

from collections.abc import Mapping
from hashlib import sha1
from typing import Any, Final

from tf_operator.job import templates
from tf_operator.job.constants import LONGEST_NAME
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body, metadata_of
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.child_kinds import kind
from tf_operator.planning.kueue import state
from tf_operator.planning.kueue.state import KueueState, Priority, texts
from tf_operator.planning.pods import pod_needs
from tf_operator.planning.snapshot import Settings

_JOB_UID: Final = f"{state.GROUP}/job-uid"
_HASH: Final = 5
_TOPOLOGY: Final = f"{state.GROUP}/podset-"
_ORDER: Final = {kind: place for place, kind in enumerate(ReplicaType)}
_POD_PRIORITY, _OWN_PRIORITY = ("scheduling.k8s.io", "PriorityClass"), (state.GROUP, "WorkloadPriorityClass")


def name_of(job: TrainingJob) -> str:
    """The name of the Workload of this very job: at most 63 characters, and no other job's."""
    profile = job.profile
    group = profile.api_version.rpartition("/")[0]
    identity = "\n".join((profile.kind, group, job.key.name, job.uid))
    digest = sha1(identity.encode(), usedforsecurity=False).hexdigest()[:_HASH]
    return f"{f'{profile.kind.lower()}-{job.key.name}'[: LONGEST_NAME - _HASH - 1]}-{digest}"


def queue_of(job: TrainingJob) -> str:
    return job.labels.get(state.QUEUE, "")


def priority_class(job: TrainingJob) -> str:
    """The PriorityClass of the job's pods, as far as it names one; for Workloads that name none of Kueue's."""
    if job.run_policy.scheduling.priority_class:
        return job.run_policy.scheduling.priority_class
    names = (templates.pod_of(spec).get("priorityClassName") for spec in _in_order(job))
    return next((name for name in names if name and isinstance(name, str)), "")


def digest(job: TrainingJob) -> str:
    """Of what is admitted: how many pods, what they ask for, and where they may run. Images and arguments may change.

    It is compared for as long as the job lives, so an operator that works it out in another way stops every job.
    """
    return kind.digest({"podSets": [_admitted_for(job, spec) for spec in _in_order(job)]})


def pod_sets(job: TrainingJob, settings: Settings) -> list[dict[str, Any]]:
    """One for each replica type. Only one may be admitted in part: the workers of an elastic job.

    What the operator adds to pods and asks for room is in them. It is not in the digest: that is compared with those of
    jobs that run.
    """
    builder = ChildBuilder(job, settings)
    return [_pod_set(job, spec, builder.pod_spec(spec.type)) for spec in _in_order(job)]


def counts(job: TrainingJob) -> dict[str, int]:
    return {spec.type.label: spec.count for spec in job.replicas}


def body(job: TrainingJob, kueue: KueueState, settings: Settings) -> dict[str, Any]:
    metadata = {
        "name": name_of(job),
        "namespace": job.key.namespace,
        "labels": {_JOB_UID: job.uid},
        "annotations": {state.DIGEST: digest(job)},
        "ownerReferences": [job.owner_reference.body()],
    }
    return {"metadata": metadata, "spec": {"podSets": pod_sets(job, settings), **place(job, kueue)}}


def place(job: TrainingJob, kueue: KueueState) -> dict[str, Any]:
    """Its place in the queue: what may change while it waits."""
    priority = _priority(kueue.priority, kueue.version) if kueue.priority else {}
    spec = {"queueName": queue_of(job), **priority}
    seconds = _seconds(job.labels.get(state.LONGEST_RUN, ""))
    return spec | ({"maximumExecutionTimeSeconds": seconds} if seconds else {})


def _seconds(text: str) -> int:
    """As Kueue reads it, by ``strconv.ParseInt`` with 32 bits; zero for what it ignores."""
    digits = text.lstrip("0")
    return seconds if digits.isascii() and digits.isdigit() and (seconds := int(digits)) < 2**31 else 0


def _priority(priority: Priority, version: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"priority": priority.value}
    if not priority.name:
        return spec
    group, kind = _POD_PRIORITY if priority.is_of_pods else _OWN_PRIORITY
    if version == "v1beta1":
        return spec | {"priorityClassName": priority.name, "priorityClassSource": f"{group}/{kind.lower()}"}
    return spec | {"priorityClassRef": {"group": group, "kind": kind, "name": priority.name}}


def _in_order(job: TrainingJob) -> list[ReplicaSpec]:
    return sorted(job.replicas, key=lambda spec: _ORDER[spec.type])


def _pod_set(job: TrainingJob, spec: ReplicaSpec, rendered: Body) -> dict[str, Any]:
    template = metadata_of(spec.template)
    metadata = {field: texts(template.get(field)) for field in ("labels", "annotations")}
    pod_set: dict[str, Any] = {
        "name": spec.type.label,
        "count": spec.count,
        "template": {
            "metadata": {field: value for field, value in metadata.items() if value},
            "spec": resize_sidecar.counted(spec.template.get("spec") or {}, rendered),
        },
        "topologyRequest": _topology(job, texts(template.get("annotations"))),
    }
    least = _least(job, spec)
    return pod_set | ({"minCount": least} if least else {})


def _least(job: TrainingJob, spec: ReplicaSpec) -> int | None:
    """With how few pods the job would begin; ``None`` for all."""
    limits = job.elastic.range_of(spec.type) if job.elastic and spec.type is ReplicaType.WORKER else None
    return limits.least if limits and 0 < limits.least < spec.count else None


def _admitted_for(job: TrainingJob, spec: ReplicaSpec) -> list[Any]:
    annotations = texts(metadata_of(spec.template).get("annotations"))
    topology = {name: value for name, value in annotations.items() if name.startswith(_TOPOLOGY)}
    return [spec.type.label, spec.count, _least(job, spec), *pod_needs.of(spec), topology]


def _topology(job: TrainingJob, annotations: Mapping[str, str]) -> dict[str, Any]:
    required, preferred = (annotations.get(f"{_TOPOLOGY}{word}-topology") for word in ("required", "preferred"))
    request: dict[str, Any] = {"podIndexLabel": job.profile.labels.index}
    if required:
        request["required"] = required
    elif preferred:
        request["preferred"] = preferred
    elif annotations.get(f"{_TOPOLOGY}unconstrained-topology") == "true":
        request["unconstrained"] = True
    if (group := annotations.get(f"{_TOPOLOGY}group-name")) and (required or preferred):
        request["podSetGroupName"] = group
    size = annotations.get(f"{_TOPOLOGY}slice-size", "")
    if (slices := annotations.get(f"{_TOPOLOGY}slice-required-topology")) and size.isascii() and size.isdigit():
        request |= {"podSetSliceRequiredTopology": slices, "podSetSliceSize": int(size[:9])}
    return request
