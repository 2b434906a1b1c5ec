"""The downward API: what a pod's containers read of the pod itself, as variables and files. Pure."""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

from tf_operator import quantity
from tf_operator.local.node.addresses import LOOPBACK
from tf_operator.local.node.machine import Capacity
from tf_operator.local.node.pod import LocalContainer, LocalPod, SourceReference

_ENTRY = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")
_ADDRESSES = frozenset({"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"})
_DEFAULT_DIVISOR = Decimal(1)


def field_value(pod: LocalPod, path: str) -> str:
    """A field of the pod, for ``fieldRef``; ``""`` for one that it does not have."""
    metadata = pod.metadata
    if match := _ENTRY.fullmatch(path):
        return (metadata.labels if match["map"] == "labels" else metadata.annotations).get(match["key"], "")
    if path in _ADDRESSES:
        return LOOPBACK
    fields = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "metadata.labels": _lines(metadata.labels),
        "metadata.annotations": _lines(metadata.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
    }
    return fields.get(path, "")


def resource_value(pod: LocalPod, container: LocalContainer, reference: SourceReference, capacity: Capacity) -> str:
    """A request or limit, for ``resourceFieldRef``: in units of the divisor, rounded up; without one, the machine's."""
    spec = next((entry.spec for entry in pod.containers if entry.name == reference.container_name), container.spec)
    group, _, name = reference.resource.partition(".")
    amount = quantity.parse((spec.resources.limits if group == "limits" else spec.resources.requests).get(name))
    if amount is None:
        amount = Decimal({"cpu": capacity.cpus, "memory": capacity.memory}.get(name, 0))
    divisor = quantity.parse(reference.divisor) or _DEFAULT_DIVISOR
    return str(int((amount / divisor).to_integral_value(ROUND_CEILING)))


def _lines(entries: Mapping[str, str]) -> str:
    """As the kubelet writes labels into a file."""
    lines = (f"{name}={_quoted(value)}" for name, value in sorted(entries.items()))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    content = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{content}"'
