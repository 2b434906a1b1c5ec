"""What pods request of the CPU and memory of this machine, as kube-scheduler counts it. Pure."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from tf_operator import quantity
from tf_operator.local.node.machine import Capacity
from tf_operator.local.node.pod import ContainerSpec, LocalPod, Role

COUNTED: Final = ("cpu", "memory")
_NOTHING: Final = Decimal(0)


def reasons(pod: LocalPod, others: Iterable[LocalPod], capacity: Capacity) -> list[str]:
    """Why a pod does not fit beside others, in the words of kube-scheduler; empty if it does."""
    room = {"cpu": Decimal(capacity.cpus), "memory": Decimal(capacity.memory)}
    amounts = {name: amount for name in COUNTED if (amount := _of(pod, name))}
    there = tuple(others) if amounts else ()
    used = {name: sum((_of(other, name) for other in there), _NOTHING) for name in amounts}
    return [f"1 Insufficient {name}" for name, amount in amounts.items() if amount + used[name] > room[name]]


def _of(pod: LocalPod, name: str) -> Decimal:
    """What containers that run beside each other request, or an init container with the sidecars before it."""
    beside = most = _NOTHING
    for container in pod.containers:
        request = _request(container.spec, name)
        most = max(most, beside + request)
        if container.role is not Role.INIT:
            beside += request
    return most


def _request(spec: ContainerSpec, name: str) -> Decimal:
    """A limit is the request of a container that has none of its own."""
    resources = spec.resources
    return quantity.parse(resources.requests.get(name, resources.limits.get(name))) or _NOTHING
