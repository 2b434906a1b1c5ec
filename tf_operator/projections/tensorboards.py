"""The Deployments and Services that run TensorBoards."""

from typing import Final

import msgspec

from tf_operator.machinery.cache.interning import Interned, InternedLabels, decoder
from tf_operator.planning import tensorboards
from tf_operator.planning.child_kinds.kind import DIGEST
from tf_operator.projections.children import NOBODY, Child, ChildMeta, Owner
from tf_operator.text import LONGEST_MESSAGE, one_line


class _ChildMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()
    generation: int = 0


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: Interned[str] = ""
    status: Interned[str] = ""
    message: str = ""


class _ChildStatus(msgspec.Struct, frozen=True, rename="camel"):
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[_Condition, ...] = ()


class _RawChild(msgspec.Struct, frozen=True):
    metadata: _ChildMeta
    status: _ChildStatus = _ChildStatus()


class CachedChild(Child, frozen=True):
    """A Deployment or a Service; ``owner`` is whatever controls it."""

    child: tensorboards.TensorBoardChild


_READ_CHILD: Final = decoder(_RawChild, keeps=DIGEST.__eq__)


def read_child(raw: msgspec.Raw | bytes) -> CachedChild:
    raw_child = _READ_CHILD(raw)
    metadata, status = raw_child.metadata, raw_child.status
    owner: Owner = next((entry for entry in metadata.owner_references if entry.controller), NOBODY)
    is_current = status.observed_generation >= metadata.generation
    trouble = (entry.message for entry in status.conditions if (entry.type, entry.status) == ("ReplicaFailure", "True"))
    child = tensorboards.TensorBoardChild(
        metadata.name,
        metadata.uid,
        metadata.annotations.get(DIGEST, ""),
        is_terminating=metadata.deletion_timestamp is not None,
        is_available=is_current and status.available_replicas > 0,
        message=one_line(next(trouble, ""), most=LONGEST_MESSAGE),
    )
    return CachedChild(*metadata.core(), owner.uid, child)
