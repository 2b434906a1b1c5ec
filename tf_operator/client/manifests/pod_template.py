"""What the API server accepts in a job and refuses in its pods, as far as it can be known without a cluster.

The common mistakes: labels, names, images, resources, ports, volumes. The API server has many more rules for pods, and
applies them to each pod that the operator creates; the job's status reports what it refuses. Neighbour: ``validate``
calls it for templates that keep the schema of the CRD.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator import quantity
from tf_operator.client.manifests import object_meta
from tf_operator.job.training_job import FieldError
from tf_operator.meta import Body

_PORT_NAME: Final = re.compile(r"(?!.{16})(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LARGEST_PORT: Final = 65535
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_RESOURCE: Final = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+")
_LABEL_RULE: Final = "must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit"


def check(template: Body, path: str) -> Iterator[FieldError]:
    """The errors in a template that keeps the schema."""
    yield from object_meta.check(template.get("metadata", {}), f"{path}.metadata")
    pod: Mapping[str, Any] = template["spec"]
    yield from _volumes(pod, f"{path}.spec")
    names, host_ports = set[str](), set[tuple[Any, ...]]()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(pod.get(kind, ())):
            place = f"{path}.spec.{kind}[{index}]"
            yield from _name(container, place, names)
            yield from _mounts(container, pod, place)
            yield from _resources(container, place)
            yield from _ports(container, place)
            if kind == "initContainers" and not container.get("image"):
                yield FieldError(f"{place}.image", "is required")
            if kind == "containers":
                yield from _host_ports(container, pod, place=place, taken=host_ports)


def _volumes(pod: Body, path: str) -> Iterator[FieldError]:
    for index, volume in enumerate(pod.get("volumes", ())):
        if not object_meta.DNS_LABEL.fullmatch(volume["name"]):
            yield FieldError(f"{path}.volumes[{index}].name", _LABEL_RULE)
        if len(volume) > 2:  # without any it is an emptyDir
            yield FieldError(f"{path}.volumes[{index}]", f"must have one type of volume, has {len(volume) - 1}")


def _name(container: Body, path: str, names: set[str]) -> Iterator[FieldError]:
    name = container["name"]
    if not object_meta.DNS_LABEL.fullmatch(name):
        yield FieldError(f"{path}.name", _LABEL_RULE)
    if name in names:
        yield FieldError(path, f"the name {name!r} is there twice")
    image = container.get("image", "")
    if image != image.strip():
        yield FieldError(f"{path}.image", "must not begin or end with white space")
    names.add(name)


def _mounts(container: Body, pod: Body, path: str) -> Iterator[FieldError]:
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount["name"] not in volumes:
            yield FieldError(f"{path}.volumeMounts[{index}].name", f"there is no volume {mount['name']!r}")


def _resources(container: Body, path: str) -> Iterator[FieldError]:
    resources = container.get("resources", {})
    limits = resources.get("limits", {})
    for kind in ("limits", "requests"):
        for name, text in resources.get(kind, {}).items():
            place, amount = f"{path}.resources.{kind}.{name}", quantity.parse(text)
            if not (_RESOURCE.fullmatch(name) or "/" in name):
                yield FieldError(place, "is no resource of containers")
            elif amount is not None and amount < 0:
                yield FieldError(place, f"must be at least 0, is {text}")
            elif amount is not None and amount > (quantity.parse(limits.get(name, text)) or 0):
                yield FieldError(place, f"must be at most the limit {limits[name]}, is {text}")


def _ports(container: Body, path: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(container.get("ports", ())):
        place, name = f"{path}.ports[{index}]", port.get("name", "")
        if not 0 < port["containerPort"] <= _LARGEST_PORT:
            yield FieldError(f"{place}.containerPort", f"must be from 1 to {_LARGEST_PORT}, is {port['containerPort']}")
        if not 0 <= port.get("hostPort", 0) <= _LARGEST_PORT:
            yield FieldError(f"{place}.hostPort", f"must be from 1 to {_LARGEST_PORT}, is {port['hostPort']}")
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            yield FieldError(f"{place}.protocol", f"must be one of {', '.join(_PROTOCOLS)}")
        if name and not _PORT_NAME.fullmatch(name):
            rule = "must be at most 15 lower-case letters, digits and single '-', with a letter among them"
            yield FieldError(f"{place}.name", f"{rule}, is {name[:80]!r}")
        if name in names:
            yield FieldError(place, f"the name {name!r} is there twice")
        names |= {name} - {""}


def _host_ports(container: Body, pod: Body, *, place: str, taken: set[tuple[Any, ...]]) -> Iterator[FieldError]:
    """With ``hostNetwork`` each port is a host port."""
    for index, port in enumerate(container.get("ports", ())):
        number = port.get("hostPort") or (pod.get("hostNetwork") and port["containerPort"])
        key = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
        if number and key in taken:
            yield FieldError(f"{place}.ports[{index}]", f"the host port {number} is there twice")
        taken.add(key)
