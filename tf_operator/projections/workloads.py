"""Workloads of Kueue, and what they refer to: flavors of nodes, and classes of priority.

Workloads are watched without a selector: users label them as they like. Of one that no job of ours controls only the
name is kept, and of one that does not the pod templates, which are most of it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import Interned, InternedLabels, decoder
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import objects_of
from tf_operator.planning.kueue import state
from tf_operator.planning.kueue.state import Flavor, Workload
from tf_operator.projections.children import NOBODY, Child, ChildMeta, owner_reader
from tf_operator.projections.json_parts import EMPTY, as_object


class _WorkloadMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()
    finalizers: tuple[Interned[str], ...] = ()


class _PodSet(msgspec.Struct, frozen=True, rename="camel"):
    name: Interned[str] = ""
    count: int = 1
    topology_request: msgspec.Raw = EMPTY


class _ClassReference(msgspec.Struct, frozen=True, gc=False):
    group: Interned[str] = ""
    kind: Interned[str] = ""
    name: Interned[str] = ""


class _WorkloadSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pod_sets: tuple[_PodSet, ...] = ()
    queue_name: Interned[str] = ""
    priority: int | None = None
    priority_class_ref: _ClassReference | None = None
    priority_class_name: Interned[str] = ""
    priority_class_source: Interned[str] = ""
    active: bool = True
    maximum_execution_time_seconds: int | None = None


_NO_SPEC: Final = _WorkloadSpec()


class _RawWorkload(msgspec.Struct, frozen=True):
    metadata: _WorkloadMeta
    spec: _WorkloadSpec = _NO_SPEC
    status: msgspec.Raw = EMPTY


class CachedWorkload(Child, frozen=True):
    """A Workload; ``owner`` is empty, and nothing else is known, when no job of ours controls it."""

    digest: str
    finalizers: tuple[str, ...]
    spec: _WorkloadSpec
    status: msgspec.Raw
    is_terminating: bool

    def as_planned(self) -> Workload:
        spec: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.spec))
        return Workload(
            self.name,
            self.uid,
            self.resource_version,
            self.digest,
            self.finalizers,
            spec,
            as_object(self.status),
            self.is_terminating,
        )


class _RawFlavorSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_labels: InternedLabels = InternedLabels()
    tolerations: msgspec.Raw = msgspec.Raw(b"[]")


class _RawFlavor(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _RawFlavorSpec = _RawFlavorSpec()


class CachedFlavor(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    flavor: Flavor


class CachedPriority(msgspec.Struct, frozen=True, rename="camel"):
    """A class of priority, Kueue's or the scheduler's."""

    metadata: ObjectMeta
    value: int = 0
    global_default: bool = False


_READ_WORKLOAD: Final = decoder(_RawWorkload, keeps=state.DIGEST.__eq__)
_READ_FLAVOR: Final = decoder(_RawFlavor)
read_priority: Final = decoder(CachedPriority)
"""Reads either kind of class."""


@cache
def workload_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedWorkload]:
    owner_of = owner_reader(apis, is_labelled=False)

    def read(raw: msgspec.Raw | bytes) -> CachedWorkload:
        raw_workload = _READ_WORKLOAD(raw)
        metadata = raw_workload.metadata
        owner = owner_of(metadata)
        if owner is NOBODY:
            return CachedWorkload(*metadata.core(), "", "", (), _NO_SPEC, EMPTY, is_terminating=False)
        return CachedWorkload(
            *metadata.core(),
            owner.uid,
            metadata.annotations.get(state.DIGEST, ""),
            metadata.finalizers,
            raw_workload.spec,
            raw_workload.status,
            metadata.deletion_timestamp is not None,
        )

    return read


def read_flavor(raw: msgspec.Raw | bytes) -> CachedFlavor:
    raw_flavor = _READ_FLAVOR(raw)
    tolerations = tuple(objects_of(msgspec.json.decode(raw_flavor.spec.tolerations)))
    return CachedFlavor(raw_flavor.metadata, Flavor(dict(raw_flavor.spec.node_labels), tolerations))
