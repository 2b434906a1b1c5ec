"""PodGroups, of either kind. They are watched without a selector, because they carry no label of ours.

So the cache sees those of every tenant, and of other frameworks. Of a group that no job of ours controls only the name
is kept, however large it is.
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
    """A PodGroup; ``group`` is ``None``, and ``owner`` empty, when no job of ours controls it."""

    group: PodGroup | None


_READ_GROUP: Final = decoder(_RawGroup)


@cache
def group_reader(apis: tuple[ServedAPI, ...]) -> Callable[[msgspec.Raw | bytes], CachedGroup]:
    owner_of = owner_reader(apis, is_labelled=False)

    def read_group(raw: msgspec.Raw | bytes) -> CachedGroup:
        raw_group = _READ_GROUP(raw)
        core = raw_group.metadata.core()
        owner = owner_of(raw_group.metadata)
        if owner is NOBODY:
            return CachedGroup(core, "", None)
        is_terminating = raw_group.metadata.deletion_timestamp is not None
        group = PodGroup(core.name, core.uid, raw_group.status.phase, as_object(raw_group.spec), is_terminating)
        return CachedGroup(core, owner.uid, group)

    return read_group
