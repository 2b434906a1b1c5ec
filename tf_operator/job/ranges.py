"""A set of replica indexes as it stands in a status: ``0-2,5``.

A thousand workers that have all succeeded are five characters this way. The text comes back from stored objects,
so it is read without trust: what is no range, or beyond any index, is passed over.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from tf_operator.job.constants import MOST_REPLICAS

_RANGE = re.compile(r"(0|[1-9][0-9]{0,5})(?:-(0|[1-9][0-9]{0,5}))?")


class Indexes(msgspec.Struct, frozen=True):
    """An immutable set of indexes. ``in``, ``len``, iteration in order, ``|`` and ``-`` work as on a set."""

    members: frozenset[int] = frozenset()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Self:
        return cls(frozenset(indexes))

    @classmethod
    def parse(cls, text: object) -> Self:
        """From the text in a status; what is no range of indexes in it is passed over."""
        if not text:
            return cls()
        union: set[int] = set()
        rest = MOST_REPLICAS  # as many as there can be; a text that repeats itself must not cost more
        for part in text.split(",") if isinstance(text, str) else ():
            if rest > 0 and (match := _RANGE.fullmatch(part.strip())):
                first = int(match[1])
                indexes = range(first, min(int(match[2] or first), MOST_REPLICAS - 1) + 1)
                rest -= len(indexes)
                union.update(indexes)
        return cls(frozenset(union))

    def below(self, count: int) -> Self:
        """Those that are indexes of ``count`` replicas."""
        if max(self.members, default=-1) < count:
            return self
        return type(self)(frozenset(index for index in self.members if index < count))

    def __contains__(self, index: int) -> bool:
        return index in self.members

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.members))

    def __or__(self, other: Self) -> Self:
        return type(self)(self.members | other.members) if other.members else self

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.members - other.members) if other.members else self

    def __str__(self) -> str:
        if not self.members:
            return ""
        return ",".join(
            f"{first}-{last}" if last > first else str(first) for first, last in _runs(sorted(self.members))
        )


NO_INDEXES = Indexes()


def _runs(indexes: list[int]) -> Iterator[tuple[int, int]]:
    """Maximal runs of neighbours, of one index or more in ascending order."""
    start = previous = -2
    for index in indexes:
        if index != previous + 1:
            if previous >= 0:
                yield start, previous
            start = index
        previous = index
    yield start, previous
