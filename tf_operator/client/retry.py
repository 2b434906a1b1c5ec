"""A failed job again, under a new name: its manifest as it was created, with what is to be different."""

import copy
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tf_operator import quantity
from tf_operator.client.job import Job, NotPossible, type_in
from tf_operator.client.manifests import validate
from tf_operator.job.record import JobPhase
from tf_operator.meta import Body, mapping_of, metadata_of, objects_of, text_of

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NUMBERED: Final = re.compile(r"(.+)-([1-9][0-9]{0,5})")
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Change:
    """What is different for the replicas of one type, as in ``worker.memory=16Gi``."""

    type: str
    field: str
    """``replicas``, ``image``, or a resource."""
    value: str

    def __str__(self) -> str:
        return f"{self.type}.{self.field}={self.value}"


def parse(text: str) -> Change:
    """Raises ``NotPossible`` for a change that is none."""
    place, equals, value = text.partition("=")
    type_, dot, field = place.partition(".")
    if not (type_ and dot and equals and value):
        raise NotPossible(f"{text!r} is not a change: write it as in worker.memory=16Gi")
    is_resource = field in _RESOURCES or "/" in field
    if not (is_resource or field in {"replicas", "image"}):
        fields = ", ".join(sorted(_RESOURCES))
        raise NotPossible(f"{field!r} cannot be set: it is replicas, image, {fields}, or as in nvidia.com/gpu")
    if is_resource and not ((amount := quantity.parse(value)) and amount > 0):
        raise NotPossible(f"{value!r} is not an amount of {field}: write it as in 16Gi or 500m")
    if field == "replicas" and not (value.isascii() and value.isdigit()):
        raise NotPossible(f"{value!r} is not a number of replicas")
    return Change(type_, field, value)


def next_name(name: str, taken: Collection[str]) -> str:
    """``train`` becomes ``train-2``, and that ``train-3``: the first that is free."""
    match = _NUMBERED.fullmatch(name)
    stem, number = (match[1], int(match[2])) if match else (name, 1)
    return next(other for step in range(1, len(taken) + 2) if (other := f"{stem}-{number + step}") not in taken)


def manifest(job: Job, name: str, changes: Sequence[Change] = ()) -> dict[str, Any]:
    """The job under a new name; raises ``NotPossible`` for one that has not failed, and for changes that do not fit.

    Owners, and what a cluster or kubectl has written into the object, stay with the old one.
    """
    if job.phase is not JobPhase.FAILED:
        end, other = "has not ended: tfjob restart replaces its pods", ""
        if job.is_finished:
            end, other = "has succeeded", "; to run this one again, submit its manifest with --name or --replace"
        raise NotPossible(f"{job.kind} {job.name} {end}; only a failed job is tried again{other}")
    metadata = metadata_of(job.body)
    body: dict[str, Any] = {
        "apiVersion": text_of(job.body, "apiVersion"),
        "kind": text_of(job.body, "kind"),
        "metadata": {"name": name, "namespace": job.namespace, **_texts(metadata)},
        "spec": copy.deepcopy(job.body.get("spec")),
    }
    for change in changes:
        _apply(body["spec"], type_in(job, change.type), change, container=job.spec.profile.container)
    errors = validate.check(body).errors
    if errors:
        raise NotPossible(f"{job.kind} {name} would not be valid: {'; '.join(map(str, errors))}")
    return body


def _texts(metadata: Body) -> dict[str, Any]:
    """Labels and annotations."""
    texts = {
        field: {key: value for key, value in metadata[field].items() if key != _LAST_APPLIED}
        for field in ("labels", "annotations")
        if isinstance(metadata.get(field), dict)
    }
    return {field: entries for field, entries in texts.items() if entries}


def _apply(spec: dict[str, Any], type_: str, change: Change, *, container: str) -> None:
    replica = spec["tfReplicaSpecs"][type_]
    if change.field == "replicas":
        replica["replicas"] = int(change.value)
        return
    pod = mapping_of(mapping_of(replica.get("template")).get("spec"))
    main = next((entry for entry in objects_of(pod.get("containers")) if entry.get("name") == container), None)
    if not isinstance(main, dict):
        raise NotPossible(f"{type_} has no container {container}, so {change} is not possible")
    if change.field == "image":
        main["image"] = change.value
    else:
        main["resources"] = _with_resource(mapping_of(main.get("resources")), change.field, change.value)


def _with_resource(resources: Body, name: str, value: str) -> Body:
    """With the amount where one was said, or else as a limit: a request without a limit stays one."""
    requests, limits = mapping_of(resources.get("requests")), mapping_of(resources.get("limits"))
    if name in requests:
        resources = {**resources, "requests": {**requests, name: value}}
    if name in limits or name not in requests:
        resources = {**resources, "limits": {**limits, name: value}}
    return resources
