"""Reading JSON that nobody vouches for: each field with the type it should have, and a list of what is wrong.

A reader never raises. What has the wrong type is named, with its path as a user would write it, and the default
takes its place, so that the rest of the object can be read and reported, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Self, TypeVar

import msgspec

from tf_operator.job.training_job import FieldError
from tf_operator.meta import MAPPINGS, Body, mapping_of

E = TypeVar("E", bound=StrEnum)


class Fields(msgspec.Struct, frozen=True):
    """One JSON object and the path that leads to it; all readers of one job share the list of problems."""

    body: Body
    path: str = ""
    problems: list[FieldError] = []

    def wrong(self, name: str, rule: str, *, is_tolerated: bool = False) -> None:
        self.problems.append(FieldError(self.at(name), rule, is_tolerated=is_tolerated))

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def below(self, name: str) -> Self:
        """The reader of an object in a field; of an empty one, where there is none."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, MAPPINGS):
            self.wrong(name, f"must be an object, is {kind_of(value)}")
        return type(self)(mapping_of(value), self.at(name), self.problems)

    def items(self, name: str) -> list[Self]:
        value = self.body.get(name)
        if value is not None and not isinstance(value, list):
            self.wrong(name, f"must be a list, is {kind_of(value)}")
        elements = value if isinstance(value, list) else []
        places = type(self)({f"{name}[{index}]": item for index, item in enumerate(elements)}, self.path, self.problems)
        return [places.below(place) for place in places.body]

    def text(self, name: str, default: str = "") -> str:
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(name, f"must be a string, is {kind_of(value)}")
            return default
        return value

    def integer(self, name: str) -> int | None:
        """A whole number, or ``None`` where there is none."""
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(name, f"must be a whole number, is {kind_of(value)}")
            return None
        return value

    def flag(self, name: str) -> bool:
        """True or false; false where there is none."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            self.wrong(name, f"must be true or false, is {kind_of(value)}")
        return value is True

    def one_of(self, name: str, kinds: Iterable[E], default: E, *, other: E | None = None) -> E:
        """One of these values of an enum; ``other`` is what training-operator 1.9 takes any other text for."""
        value = self.body.get(name)
        if value is None:
            return default
        choices = list(kinds)
        if value in choices:
            return next(kind for kind in choices if kind == value)
        names = ", ".join(repr(kind.value) for kind in choices)
        is_tolerated = other is not None and isinstance(value, str)
        self.wrong(name, f"must be one of {names}, is {kind_of(value)}", is_tolerated=is_tolerated)
        return other if is_tolerated and other is not None else default


def kind_of(value: object) -> str:
    """What was found, said shortly in messages: a tenant may have put anything there."""
    match value:
        case bool() | int() | float():
            return repr(value)
        case str():
            return repr(value if len(value) <= 40 else f"{value[:40]}...")
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return "something else"
