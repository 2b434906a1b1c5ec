"""What pods request of the CPU and memory of this machine, as kube-scheduler counts it. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Final, NamedTuple

from tf_operator import quantity
from tf_operator.local.node.machine import Capacity
from tf_operator.local.node.pod import ContainerSpec, LocalPod, Role

COUNTED: Final = ("cpu", "memory")
_NOTHING: Final = Decimal(0)
_UNITS: Final = {"cpu": Decimal("0.001"), "memory": Decimal(1)}
_MOST: Final = Decimal(2**63 - 1)


class _PodRequests(NamedTuple):
    """A pod that has its place on the machine."""

    owner: str
    amounts: Mapping[str, Decimal]


class Requests:
    """What the pods of a machine request of it. A change costs the same, however many pods there are."""

    def __init__(self, node: str, capacity: Capacity) -> None:
        self._node = node
        self._capacity = {"cpu": Decimal(capacity.cpus), "memory": Decimal(capacity.memory)}
        self._assumed: set[str] = set()
        self._pods: dict[str, _PodRequests] = {}
        self._used = defaultdict[tuple[str, str], Decimal](Decimal)
        """By the UID of the owner, and by resource; of all of them without a UID."""
        self._reported: set[str] = set()
        self._has_begun = False

    def note(
        self, pod: LocalPod, there: Iterable[LocalPod] = (), *, has_ended: Callable[[LocalPod], bool] = lambda _: False
    ) -> None:
        """Count a pod as it is now: from when it has its place until its programs have ended.

        With the first one all that are ``there``: pods of the first list have a place before others are asked about.
        """
        for one in (pod,) if self._has_begun else (*there, pod):
            is_placed = one.spec.node_name == self._node or one.uid in self._assumed
            self._count(one.uid, _PodRequests(_owner(one), _amounts(one)) if is_placed and not has_ended(one) else None)
        self._has_begun = True

    def assume(self, pod: LocalPod) -> None:
        """A pod is being bound."""
        self._assumed.add(pod.uid)
        self.note(pod)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._assumed.discard(uid)
        self._count(uid, None)

    def reasons(self, pod: LocalPod) -> list[str]:
        """Why a pod that has no place does not fit beside the others, as kube-scheduler says it; empty if it does."""
        amounts = _amounts(pod).items()
        return [f"1 Insufficient {name}" for name, own in amounts if own + self._sum("", name) > self._capacity[name]]

    def excess(self, pod: LocalPod) -> str:
        """That the pods of one owner request more together than there is, as a sentence; once, and else empty."""
        owner = _owner(pod)
        too_much = [name for name in COUNTED if self._sum(owner, name) > self._capacity[name]]
        if not too_much or owner in self._reported:
            return ""
        self._reported.add(owner)
        parts = (_text_of(name, self._sum(owner, name), self._capacity[name]) for name in too_much)
        amounts = " and ".join(parts)
        return f"the pods request {amounts} that this machine has, and run all the same, unless --requests is enforce"

    def _sum(self, owner: str, name: str) -> Decimal:
        return self._used.get((owner, name), _NOTHING)

    def _count(self, uid: str, pod_requests: _PodRequests | None) -> None:
        if place := self._pods.pop(uid, None):
            self._add(place, -1)
        if pod_requests and pod_requests.amounts:
            self._pods[uid] = pod_requests
            self._add(pod_requests, 1)

    def _add(self, pod_requests: _PodRequests, times: int) -> None:
        for name, amount in pod_requests.amounts.items():
            for place in (("", name), (pod_requests.owner, name)):
                self._used[place] += times * amount
                if not self._used[place]:
                    del self._used[place]


def _text_of(name: str, amount: Decimal, most: Decimal) -> str:
    if name == "cpu":
        return f"{quantity.text(amount)} of {quantity.text(most)} CPUs"
    return f"{amount / 2**30:.1f} of {most / 2**30:.1f} GiB of memory"


def _owner(pod: LocalPod) -> str:
    return pod.owner.uid if pod.owner else pod.uid


def _amounts(pod: LocalPod) -> Mapping[str, Decimal]:
    return {name: _counted(name, amount) for name in COUNTED if (amount := _of(pod, name))}


def _counted(name: str, amount: Decimal) -> Decimal:
    """In whole units and up to a bound, as kube-scheduler has it: sums have to be exact, since pods are taken off."""
    return min(amount, _MOST).quantize(_UNITS[name], ROUND_CEILING)


def _of(pod: LocalPod, name: str) -> Decimal:
    """What the pod requests as a whole; else its containers, and else its limit."""
    own, beside = pod.spec.resources, _of_containers(pod, name)
    whole = own.requests.get(name, None if beside else own.limits.get(name))
    return beside if whole is None else quantity.parse(whole) or _NOTHING


def _of_containers(pod: LocalPod, name: str) -> Decimal:
    """Those that run beside each other, or an init container with the sidecars before it."""
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
