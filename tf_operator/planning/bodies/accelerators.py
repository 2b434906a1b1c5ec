"""What an accelerator needs in a pod: libraries from the node, variables, and today's name of its resource.

The administrator says it once for each resource, and the jobs of APIs from before device plugins rely on it. Only new
pods get it: nothing compares running pods with what is said now. What the user has under the same name stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from tf_operator.job.templates import main_containers
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body, mapping_of, objects_of


@dataclass(frozen=True, slots=True)
class HostVolume:
    """A file or folder of the node, and where a container finds it."""

    name: str
    host_path: str
    mount_path: str
    is_read_only: bool = True

    @property
    def volume(self) -> Body:
        return {"name": self.name, "hostPath": {"path": self.host_path}}

    @property
    def mount(self) -> Body:
        mount = {"name": self.name, "mountPath": self.mount_path}
        return {**mount, "readOnly": True} if self.is_read_only else mount


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What a container gets that asks for a resource."""

    resource: str
    volumes: tuple[HostVolume, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    """Names and values."""
    replacement: str = ""
    """The resource that pods ask for instead; empty for the same."""


def attach(job: TrainingJob, accelerators: Iterable[Accelerator]) -> TrainingJob:
    """The job with what the accelerators of its pods need, if its API leaves that to the operator."""
    if not job.profile.has_operator_config:
        return job
    specs = tuple(_add_accelerators(spec, job.profile.container, accelerators) for spec in job.replicas)
    return structs.replace(job, replicas=specs)


def _add_accelerators(spec: ReplicaSpec, container: str, accelerators: Iterable[Accelerator]) -> ReplicaSpec:
    original = next(iter(main_containers(spec, container)), None)
    if original is None:
        return spec
    resources = {name for amounts in _resources(original).values() if isinstance(amounts, Mapping) for name in amounts}
    requested = [accelerator for accelerator in accelerators if accelerator.resource in resources]
    if not requested:
        return spec
    pod, main = spec.template["spec"], original
    for accelerator in requested:
        pod, main = _add_accelerator(accelerator, pod, main)
    containers = [main if entry is original else entry for entry in pod["containers"]]
    return structs.replace(spec, template={**spec.template, "spec": {**pod, "containers": containers}})


def _add_accelerator(accelerator: Accelerator, pod: Body, main: Body) -> tuple[Body, Body]:
    """The pod, and its deciding container. A volume is left out if the user has one of its name or at its place.

    It is also left out if a container of the user mounts that name: this mount would reach the node, and could write.
    The API server then rejects the pod, as it does without an operator.
    """
    names, places = _volume_names(pod), _texts(main.get("volumeMounts"), "mountPath")
    new_volumes = [
        volume for volume in accelerator.volumes if volume.name not in names and volume.mount_path not in places
    ]
    pod = _extend(pod, "volumes", [entry.volume for entry in new_volumes])
    main = _extend(main, "volumeMounts", [entry.mount for entry in new_volumes])
    main = _extend(main, "env", [{"name": name, "value": value} for name, value in accelerator.variables])
    if accelerator.replacement:
        main = {**main, "resources": _replace(_resources(main), accelerator.resource, accelerator.replacement)}
    return pod, main


def _volume_names(pod: Body) -> set[str]:
    containers = [entry for field in ("initContainers", "containers") for entry in objects_of(pod.get(field))]
    lists = [pod.get("volumes"), *(entry.get("volumeMounts") for entry in containers)]
    return {name for volumes in lists for name in _texts(volumes, "name")}


def _extend(body: Body, field: str, entries: Iterable[Body]) -> Body:
    """The body with the entries whose names are not in the list yet; as it is, if the user has no list there."""
    elements = [] if body.get(field) is None else body[field]
    names = _texts(elements, "name")
    additions = [entry for entry in entries if entry["name"] not in names]
    return {**body, field: [*elements, *additions]} if additions and isinstance(elements, list) else body


def _replace(resources: Body, old: str, new: str) -> dict[str, Any]:
    """The resources with another name for one; an amount that the user has given under that name stays."""
    return {
        kind: {name: amount for name, amount in ({new: amounts[old]} | dict(amounts)).items() if name != old}
        if isinstance(amounts, Mapping) and old in amounts
        else amounts
        for kind, amounts in resources.items()
    }


def _resources(container: Body) -> Body:
    return mapping_of(container.get("resources"))


def _texts(value: object, field: str) -> set[str]:
    """The texts in this field of the objects in a list. Anything else is left to the API server, which rejects it."""
    return {text for entry in objects_of(value) if isinstance(text := entry.get(field), str)}
