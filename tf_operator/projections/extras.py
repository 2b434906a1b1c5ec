"""What jobs have beside their replicas: whether it is there, and what it was made from.

Of kinds that are kept whole, spec and status are kept, too, and of objects that no job has made.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec
from msgspec import structs

from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import InternedLabels, decoder
from tf_operator.planning.child_kinds.kind import DIGEST, ChildKind
from tf_operator.planning.snapshot import ChildObject
from tf_operator.projections.children import Child, ChildMeta, owner_reader
from tf_operator.projections.jobs import FieldManager
from tf_operator.projections.json_parts import EMPTY, as_object


class _Meta(ChildMeta, frozen=True, rename="camel"):
    annotations: InternedLabels = InternedLabels()
    generation: int = 0


class _WholeMeta(_Meta, frozen=True, rename="camel"):
    managed_fields: tuple[FieldManager, ...] = ()


class _RawExtra(msgspec.Struct, frozen=True):
    metadata: _Meta


class _RawWhole(msgspec.Struct, frozen=True):
    metadata: _WholeMeta
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY


class CachedExtra(Child, frozen=True):
    """An object of a ``ChildKind``; ``owner`` is the job that has made it."""

    digest: str
    is_terminating: bool
    generation: int
    spec: msgspec.Raw
    status: msgspec.Raw
    status_managers: tuple[FieldManager, ...]

    def as_planned(self) -> ChildObject:
        body = {"spec": as_object(self.spec), "status": as_object(self.status)}
        return ChildObject(self.name, self.uid, self.digest, self.is_terminating, **body)


_READ: Final = decoder(_RawExtra, keeps=DIGEST.__eq__)
_READ_WHOLE: Final = decoder(_RawWhole, keeps=DIGEST.__eq__)


@cache
def extra_reader(kind: ChildKind, apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedExtra]:
    owner_of = owner_reader(apis, is_labelled=kind.is_labelled)

    def read(raw: msgspec.Raw | bytes) -> CachedExtra:
        metadata = _READ(raw).metadata
        digest, is_terminating = metadata.annotations.get(DIGEST, ""), metadata.deletion_timestamp is not None
        body = metadata.generation, EMPTY, EMPTY, ()
        return CachedExtra(*metadata.core(), owner_of(metadata).uid, digest, is_terminating, *body)

    def read_whole(raw: msgspec.Raw | bytes) -> CachedExtra:
        whole = _READ_WHOLE(raw)
        managers = (manager for manager in whole.metadata.managed_fields if manager.subresource == "status")
        return structs.replace(read(raw), spec=whole.spec, status=whole.status, status_managers=tuple(managers))

    return read_whole if kind.is_whole else read
