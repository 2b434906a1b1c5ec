"""What is kept of an object: a frozen struct with the fields that somebody reads, decoded straight from the JSON.

    class Pod(msgspec.Struct, frozen=True, gc=False):
        metadata: PodMeta
        phase: Interned[str] = ""

    pods = informers.get(PODS, decode=projection.decoder(Pod))

``decoder`` refuses a type that could be changed after decoding: a reader that edits what a cache hands out corrupts
it for all. And it keeps equal parts only once. Ten thousand pods have a hundred owners, a dozen conditions and one
namespace between them; in the JSON each pod has its own. A field of type ``Interned[...]`` is looked up among the
values that the same field had in other objects, so mark what repeats, and not what is unique.

A part that is read rarely is kept smallest as a ``msgspec.Raw``: the JSON as it came, decoded when it is wanted.
"""

import enum
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

V = TypeVar("V")
S = TypeVar("S", bound=msgspec.Struct)

_INTERNED = msgspec.Meta(extra={"shared": True})
Interned = Annotated[V, _INTERNED]
"""A field whose values repeat from object to object."""

MOST_INTERNED = 4096
"""So many different values of one field are remembered; then it starts again, and what is in use stays in use."""
LONGEST_INTERNED = 256
"""Characters. What is longer is kept by its object only: a tenant could fill the memory with texts of its own."""
_VALUES = (str, int, float, bool, datetime, enum.Enum, types.NoneType)


class InternedLabels(Mapping[str, str]):
    """Labels or annotations: a mapping that cannot be changed. Lookup is linear, because there are few."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: tuple[tuple[str, str], ...] = ()) -> None:
        self._pairs = pairs

    def __getitem__(self, name: str) -> str:
        for label, value in self._pairs:
            if label == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, InternedLabels) and self._pairs == other._pairs:
            return True  # the apiserver sends them in order, so this is the rule
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(frozenset(self._pairs))

    def __repr__(self) -> str:
        return f"InternedLabels({dict(self._pairs)})"


class InternPool:
    """Equal values, kept once."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._values)

    def intern(self, value: V) -> V:
        """The value that is equal to this one and was seen before; else this one."""
        known: V | None = self._values.get(value)
        if known is not None:
            return known
        if _length(value) > LONGEST_INTERNED:
            return value
        if len(self._values) >= MOST_INTERNED:
            self._values.clear()
        self._values[value] = value
        return value


@dataclass(frozen=True, slots=True)
class _Field:
    """What is done to one field of a fresh struct: first to what is inside of it, then to the value as a whole."""

    name: str
    inside: tuple["_Field", ...]
    pool: InternPool | None
    default: object

    def intern(self, owner: msgspec.Struct) -> None:
        value = getattr(owner, self.name, None)
        if not value or value is self.default:
            return  # there is none, or it is empty or kept once anyhow, and takes no room
        if self.inside:
            for part in value if isinstance(value, tuple) else (value,):
                for field in self.inside:
                    field.intern(part)
        # Frozen for all others, which have not seen this struct yet.
        if self.pool is not None:
            msgspec.structs.force_setattr(owner, self.name, self.pool.intern(value))
        elif isinstance(value, msgspec.Raw):
            # A copy of the part. As it is, it would keep the whole line alive.
            msgspec.structs.force_setattr(owner, self.name, value.copy())


def _length(value: object) -> int:
    """The characters of a text, or of the texts of a pair; nothing else is long."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_length, value)) if isinstance(value, tuple) else 1


def decoder(kind: type[S], *, keeps: Callable[[str], bool] = lambda _name: True) -> Callable[[msgspec.Raw | bytes], S]:
    """A decoder of ``kind`` that shares equal parts; ``TypeError`` when ``kind`` could be changed later.

    Of labels and annotations only those are kept whose names ``keeps`` accepts.
    """
    fields = _fields_of(kind, path=kind.__name__)
    pairs = InternPool()

    def read_labels(_kind: type, labels: Mapping[str, str]) -> InternedLabels:
        return InternedLabels(tuple(pairs.intern(pair) for pair in labels.items() if keeps(pair[0])))

    decode = msgspec.json.Decoder(kind, dec_hook=read_labels).decode

    def read(raw: msgspec.Raw | bytes) -> S:
        item = decode(raw)
        for field in fields:
            field.intern(item)
        return item

    return read


def _fields_of(kind: type[msgspec.Struct], *, path: str) -> tuple[_Field, ...]:
    """The fields of a struct to which something is to be done; refuses a type that could be changed."""
    if not kind.__struct_config__.frozen:
        raise TypeError(f"{path} is not frozen: a reader of the cache could change it for all")
    interned, defaults = [], {field.name: field.default for field in msgspec.structs.fields(kind)}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inside = tuple(field for fields in _parts_of(hint, path=f"{path}.{name}") for field in fields)
        pool = InternPool() if _INTERNED in getattr(hint, "__metadata__", ()) else None
        if inside or pool is not None or hint is msgspec.Raw:
            interned.append(_Field(name, inside, pool, defaults[name]))
    return tuple(interned)


def _parts_of(hint: object, *, path: str) -> Iterator[tuple[_Field, ...]]:
    """The fields of each struct that a type is made of; it may be made of frozen things only."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        yield from _parts_of(typing.get_args(hint)[0], path=path)
    elif origin in {tuple, types.UnionType, typing.Union}:
        for part in typing.get_args(hint):
            if part is not Ellipsis:
                yield from _parts_of(part, path=path)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield _fields_of(hint, path=path)
    elif not (isinstance(hint, type) and issubclass(hint, (*_VALUES, InternedLabels, msgspec.Raw))):
        raise TypeError(f"{path} is of type {hint}, which could be changed; use structs, tuples and InternedLabels")
