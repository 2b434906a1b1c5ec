"""PodGroups, of either kind. They are watched without a selector, because they carry no label of ours.

So the cache sees those of every tenant, and of other frameworks. Of a group that no job of ours controls only the name
is kept, however large it is; and of one that says so, the text.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.cache.interning import Interned, decoder
from tf_operator.planning.snapshot import PodGroup
from tf_operator.projections.children import NOBODY, Child, ChildMeta, owner_reader
from tf_operator.projections.json_parts import EMPTY, as_object


class _GroupStatus(msgspec.Struct, frozen=True, gc=False):
    phase: Interned[str] = ""


class _RawGroup(msgspec.Struct, frozen=True):
    metadata: ChildMeta
    spec: msgspec.Raw = EMPTY
    status: _GroupStatus = _GroupStatus()


class CachedGroup(Child, frozen=True):
    """A PodGroup; the rest is empty, too, when no job of ours controls it."""

    phase: str = ""
    spec: msgspec.Raw = EMPTY
    is_terminating: bool = False

    def as_planned(self) -> PodGroup:
        return PodGroup(self.name, self.uid, self.phase, as_object(self.spec), self.is_terminating)


_READ_GROUP: Final = decoder(_RawGroup)


@cache
def group_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedGroup]:
    owner_of = owner_reader(apis, is_labelled=False)

    def read_group(raw: msgspec.Raw | bytes) -> CachedGroup:
        raw_group = _READ_GROUP(raw)
        metadata = raw_group.metadata
        owner = owner_of(metadata)
        if owner is NOBODY:
            return CachedGroup(*metadata.core(), "")
        is_terminating = metadata.deletion_timestamp is not None
        return CachedGroup(*metadata.core(), owner.uid, raw_group.status.phase, raw_group.spec, is_terminating)

    return read_group
