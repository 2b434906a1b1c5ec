"""The downward API: what a pod's containers read of the pod itself, as variables and files. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from tf_operator import quantity
from tf_operator.local.node.containers import LocalContainer, LocalPod, mapping_of
from tf_operator.local.node.run.pod_report import ADDRESS
from tf_operator.meta import Body, labels_of, metadata_of, text_of

_ENTRY = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")
_FROM_SPEC = {"spec.nodeName": "nodeName", "spec.serviceAccountName": "serviceAccountName"}
_ADDRESSES = frozenset({"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"})
_DEFAULT_DIVISOR = Decimal(1)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the machine has."""

    cpus: int
    memory: int


def field_value(pod: LocalPod, path: str) -> str:
    """A field of the pod, for ``fieldRef``; ``""`` for one that it does not have."""
    metadata = metadata_of(pod.body)
    if match := _ENTRY.fullmatch(path):
        return text_of(mapping_of(metadata, match["map"]), match["key"])
    if path in _FROM_SPEC:
        return text_of(pod.spec, _FROM_SPEC[path])
    if path in _ADDRESSES:
        return ADDRESS
    if path == "metadata.labels":
        return _lines(labels_of(pod.body))
    if path == "metadata.annotations":
        return _lines(mapping_of(metadata, "annotations"))
    return text_of(metadata, path.removeprefix("metadata."))


def resource_value(pod: LocalPod, container: LocalContainer, reference: Body, capacity: Capacity) -> str:
    """A request or limit, for ``resourceFieldRef``: in units of the divisor, rounded up; without one, the machine's."""
    named = text_of(reference, "containerName")
    spec = next((entry.spec for entry in pod.containers if entry.name == named), container.spec)
    group, _, name = text_of(reference, "resource").partition(".")
    text = mapping_of(mapping_of(spec, "resources"), group).get(name)
    amount = quantity.parse(text)
    if amount is None:
        amount = Decimal({"cpu": capacity.cpus, "memory": capacity.memory}.get(name, 0))
    divisor = quantity.parse(reference.get("divisor")) or _DEFAULT_DIVISOR
    return str(int((amount / divisor).to_integral_value(ROUND_CEILING)))


def _lines(entries: Mapping[str, object]) -> str:
    """As the kubelet writes labels into a file."""
    quoted = (f"{name}={_quoted(str(value))}" for name, value in sorted(entries.items()))
    return "\n".join(quoted)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
