"""JSON that nobody vouches for, read value by value: what is not as expected is as good as not there."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from tf_operator.meta import Body, mapping_of, rfc3339

E = TypeVar("E", bound=StrEnum)
_MOST_COUNT: Final = 2**28
"""Somebody has written more: one that counts on, or a sum of all types, would not fit into the int32 of a status."""
_MOST_SECONDS: Final = 2**53
"""JSON numbers are exact up to there."""


def object_of(body: Body, name: str) -> Body:
    """The object in a field; an empty one when there is none."""
    return mapping_of(body.get(name))


def count_of(body: Body, name: str) -> int:
    """The number in a field; 0 when there is none."""
    value = body.get(name)
    return min(value, _MOST_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def seconds_of(body: Body, name: str) -> int:
    """As ``count_of``, of what grows with the time."""
    value = integer(body.get(name))
    return min(value, _MOST_SECONDS) if value is not None and value > 0 else 0


def integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def write_time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


def present(**fields: object) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value}


def one_of(kinds: type[E], value: object) -> E | None:
    return next((kind for kind in kinds if kind == value), None)
