"""What an accelerator needs in a pod: libraries from the node, variables, and today's name of its resource.

The administrator says it once for each resource, and the jobs of APIs from before device plugins rely on it. Only new
pods get it: nothing compares running pods with what is said now. What the user has under the same name stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tf_operator.job.templates import main_containers
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body


@dataclass(frozen=True, slots=True)
class HostVolume:
    """A file or folder of the node, and where a container finds it."""

    name: str
    host_path: str
    mount_path: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What a container gets that asks for a resource."""

    resource: str
    volumes: tuple[HostVolume, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Names and values."""
    replacement: str = ""
    """The resource that pods ask for instead; empty for the same."""


def attached(job: TrainingJob, accelerators: Iterable[Accelerator]) -> TrainingJob:
    """The job with what the accelerators of its pods need, if its API leaves that to the operator."""
    if not job.profile.has_operator_config:
        return job
    specs = tuple(_with_each(spec, job.profile.container, accelerators) for spec in job.replicas)
    return replace(job, replicas=specs)


def _with_each(spec: ReplicaSpec, container: str, accelerators: Iterable[Accelerator]) -> ReplicaSpec:
    found = next(iter(main_containers(spec, container)), None)
    if found is None:
        return spec
    asked = {name for amounts in _resources(found).values() if isinstance(amounts, Mapping) for name in amounts}
    pod, main = spec.template["spec"], found
    for accelerator in accelerators:
        if accelerator.resource in asked:
            pod, main = _with(accelerator, pod, main)
    if main is found and pod is spec.template["spec"]:
        return spec
    containers = [main if entry is found else entry for entry in pod["containers"]]
    return replace(spec, template={**spec.template, "spec": {**pod, "containers": containers}})


def _with(accelerator: Accelerator, pod: Body, main: Body) -> tuple[Body, Body]:
    """The pod, and its deciding container. A volume is left out if the user has another one at its place."""
    brought = {volume.get("name") for volume in _objects(pod.get("volumes"))}
    places = {mount.get("mountPath"): mount.get("name") for mount in _objects(main.get("volumeMounts"))}
    volumes = [
        volume
        for volume in accelerator.volumes
        if volume.name not in brought and places.get(volume.mount_path, volume.name) == volume.name
    ]
    pod = _extended(pod, "volumes", [{"name": found.name, "hostPath": {"path": found.host_path}} for found in volumes])
    main = _extended(main, "volumeMounts", [{"name": found.name, "mountPath": found.mount_path} for found in volumes])
    main = _extended(main, "env", [{"name": name, "value": value} for name, value in accelerator.variables])
    if accelerator.replacement:
        main = {**main, "resources": _replaced(_resources(main), accelerator.resource, accelerator.replacement)}
    return pod, main


def _extended(body: Body, field: str, entries: Iterable[Body]) -> Body:
    """The body with the entries whose names are not in the list yet."""
    found = body.get(field)
    names = {entry.get("name") for entry in _objects(found)}
    added = [entry for entry in entries if entry["name"] not in names]
    return {**body, field: [*(found if isinstance(found, list) else []), *added]} if added else body


def _replaced(resources: Body, old: str, new: str) -> dict[str, Any]:
    """The resources with another name for one; an amount that the user has given under that name stays."""
    return {
        kind: {name: amount for name, amount in ({new: amounts[old]} | dict(amounts)).items() if name != old}
        if isinstance(amounts, Mapping) and old in amounts
        else amounts
        for kind, amounts in resources.items()
    }


def _resources(container: Body) -> Body:
    found = container.get("resources")
    return found if isinstance(found, Mapping) else {}


def _objects(found: object) -> list[Body]:
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
