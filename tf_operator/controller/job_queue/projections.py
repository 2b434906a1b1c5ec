"""Nodes, all pods of the cluster, and priority classes, as far as the queue counts with them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import Interned, InternedLabels, decoder
from tf_operator.machinery.transport.requests import Resource
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.shapes import Amounts, Taint
from tf_operator.projections.children import Child, ChildMeta, owner_reader

NODES: Final[Resource] = GroupVersionResource("", "v1", "nodes", "Node")
PRIORITY_CLASSES: Final[Resource] = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _NodeMeta(ObjectMeta, frozen=True, rename="camel"):
    labels: InternedLabels = InternedLabels()


class _Taint(msgspec.Struct, frozen=True, gc=False):
    key: Interned[str] = ""
    value: Interned[str] = ""
    effect: Interned[str] = ""


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class _NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _NodeStatus(msgspec.Struct, frozen=True):
    allocatable: msgspec.Raw = msgspec.Raw(b"{}")
    conditions: tuple[_Condition, ...] = ()


class _RawNode(msgspec.Struct, frozen=True):
    metadata: _NodeMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class CachedNode:
    metadata: ObjectMeta
    labels: InternedLabels
    allocatable: Amounts
    taints: tuple[Taint, ...]
    is_usable: bool

    def differs(self, other: "CachedNode") -> bool:
        """Whether anything is another that the queue counts with: heartbeats are not."""
        one, two = ((node.labels, node.allocatable, node.taints, node.is_usable) for node in (self, other))
        return one != two


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    resources: msgspec.Raw = msgspec.Raw(b"{}")
    restart_policy: str = ""

    def body(self) -> dict[str, Any]:
        return {"resources": msgspec.json.decode(self.resources), "restartPolicy": self.restart_policy}


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: Interned[str] = ""
    priority_class_name: Interned[str] = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: msgspec.Raw = msgspec.Raw(b"{}")
    resources: msgspec.Raw = msgspec.Raw(b"{}")


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _RawPod(msgspec.Struct, frozen=True):
    metadata: ChildMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class CountedPod(Child, frozen=True):
    """Any pod of the cluster, and what it holds of its node: nothing when it has ended, or is on none."""

    node: str
    requests: Amounts
    priority_class: str
    """Empty for none; an API server gives each pod the default one, if there is one."""


class _RawPriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False


@dataclass(frozen=True, slots=True)
class CachedPriorityClass:
    metadata: ObjectMeta
    value: int
    is_default: bool


_READ_NODE: Final = decoder(_RawNode)
_READ_POD: Final = decoder(_RawPod)
_READ_PRIORITY_CLASS: Final = decoder(_RawPriorityClass)


def read_node(raw: msgspec.Raw | bytes) -> CachedNode:
    raw_node = _READ_NODE(raw)
    metadata, spec = raw_node.metadata, raw_node.spec
    is_ready = any(entry.type == "Ready" and entry.status == "True" for entry in raw_node.status.conditions)
    return CachedNode(
        ObjectMeta(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version),
        metadata.labels,
        shapes.amounts_of(msgspec.json.decode(raw_node.status.allocatable)),
        tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.taints),
        is_usable=is_ready and not spec.unschedulable,
    )


@cache
def counted_pod_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CountedPod]:
    """Reads all pods, and whose of the jobs of these APIs they are."""
    owner_of = owner_reader(apis)

    def read_pod(raw: msgspec.Raw | bytes) -> CountedPod:
        raw_pod = _READ_POD(raw)
        spec, holds = raw_pod.spec, bool(raw_pod.spec.node_name) and raw_pod.status.phase not in _ENDED
        body = {
            "containers": [entry.body() for entry in spec.containers],
            "initContainers": [entry.body() for entry in spec.init_containers],
            "overhead": msgspec.json.decode(spec.overhead),
            "resources": msgspec.json.decode(spec.resources),
        }
        owner = owner_of(raw_pod.metadata).uid
        requests = shapes.requests_of(body) if holds else ()
        return CountedPod(
            *raw_pod.metadata.core(), owner, spec.node_name if holds else "", requests, spec.priority_class_name
        )

    return read_pod


def read_priority_class(raw: msgspec.Raw | bytes) -> CachedPriorityClass:
    raw_class = _READ_PRIORITY_CLASS(raw)
    return CachedPriorityClass(raw_class.metadata, raw_class.value, raw_class.global_default)
