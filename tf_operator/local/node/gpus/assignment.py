"""Which pod gets which GPUs, and which of these each of its containers sees. Pure.

A pod holds as many as kube-scheduler counts for it, from its binding to its end. Containers that run beside each other
have GPUs of their own; an init container ends before, so those that it had are used again, as a kubelet does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tf_operator import quantity
from tf_operator.local.node.gpus import devices
from tf_operator.local.node.gpus.devices import Device
from tf_operator.local.node.pod import ContainerSpec, LocalPod, Role

Needs = Mapping[str, int]
"""How many of each resource."""


def needs_of(pod: LocalPod) -> Needs:
    return {resource: need for resource in _resources(pod) if (need := _spans(pod, resource)[1])}


def pick(needs: Needs, usable: Iterable[Device], users: Mapping[str, int], *, shares: bool) -> tuple[Device, ...]:
    """Devices for a pod; none if there are not enough. ``users``: how many pods have a device, by its UUID.

    The first in the order of nvidia-smi that nobody has. Where they are shared, those that the fewest have.
    """
    by_use = sorted(usable, key=lambda device: users.get(device.uuid, 0))
    choice = list[Device]()
    for resource, need in needs.items():
        candidates = [device for device in by_use if device.resource == resource]
        free = [device for device in candidates if shares or not users.get(device.uuid)]
        if len(free) < need and not (shares and free):
            return ()
        choice += free[:need]
    return tuple(choice)


def refusal(needs: Needs, usable: Iterable[Device], users: Mapping[str, int]) -> str:
    """Why a pod waits, in the words of kube-scheduler."""
    free = Counter(device.resource for device in usable if not users.get(device.uuid))
    reasons = sorted(f"1 Insufficient {resource}" for resource, need in needs.items() if need > free[resource])
    return f"0/1 nodes are available: {', '.join(reasons)}."


def rejection(needs: Needs, usable: Sequence[Device], users: Mapping[str, int]) -> tuple[str, str]:
    """Reason and message of a pod that was bound to this node, which cannot give it what it needs, as of a kubelet."""
    capacity = Counter(device.resource for device in usable)
    used = Counter(device.resource for device in usable if users.get(device.uuid))
    resource = next(name for name, need in sorted(needs.items()) if need > capacity[name] - used[name])
    amounts = f"requested: {needs[resource]}, used: {used[resource]}, capacity: {capacity[resource]}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {amounts}"


def rank(pod: LocalPod) -> tuple[int, str]:
    """By priority, then by age."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp


def of_container(pod: LocalPod, name: str, devices: Sequence[Device]) -> tuple[Device, ...]:
    """Those of the pod's devices that one of its containers sees."""
    own = list[Device]()
    for resource in _resources(pod):
        start, end = _spans(pod, resource)[0][name]
        own += [device for device in devices if device.resource == resource][start:end]
    return tuple(own)


def _resources(pod: LocalPod) -> list[str]:
    names = (name for container in pod.containers for name in container.spec.resources.limits)
    return [name for name in dict.fromkeys(names) if devices.is_gpu(name)]


def _spans(pod: LocalPod, resource: str) -> tuple[dict[str, tuple[int, int]], int]:
    """Of the pod's devices of one kind, the first and the end of each container's, and how many there are."""
    spans, beside, most = dict[str, tuple[int, int]](), 0, 0
    for container in pod.containers:
        end = beside + _limit(container.spec, resource)
        spans[container.name] = beside, end
        most = max(most, end)
        if container.role is not Role.INIT:
            beside = end
    return spans, most


def _limit(spec: ContainerSpec, resource: str) -> int:
    return max(int(quantity.parse(spec.resources.limits.get(resource)) or 0), 0)
