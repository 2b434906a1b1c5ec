"""What a conversion would lose, kept as the list of places in which the way there and back makes a difference.

Each entry has a path, what stands there after the way back, and what stood there at first. It is restored only where
the way back still gives the same: so whoever changes a field in the other version has changed it, and all other fields
are as they were. No conversion has to know which fields another version lacks.

Whoever may write the object may write anything into its annotations. So what is read from one is bounded, and takes
time in proportion to its length: no annotation makes an object that the API server cannot read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tf_operator.meta import Body, mapping_of, objects_of

DEEPEST: Final = 12
"""Objects below this depth are compared as a whole."""
LARGEST: Final = 64 * 1024
"""Characters of one annotation."""
ROOM: Final = 256 * 1024
"""Bytes of all annotations of an object, with their names."""
_LEVELS: Final = 100
"""So many levels of JSON are kept in one place."""
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place. ``_ABSENT`` stands for a field that is not there."""

    path: tuple[str, ...]
    came_back: object
    original: object


def differences(original: Body, came_back: Body, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """The places in which two objects differ; the fields of an object before the object itself."""
    for name in sorted({*original, *came_back}):
        value, other = original.get(name, _ABSENT), came_back.get(name, _ABSENT)
        if _is_same(value, other):
            continue
        place = (*path, name)
        if len(place) == DEEPEST or not _may_descend(value, other):
            yield Difference(place, other, value)
            continue
        yield from differences(mapping_of(value), mapping_of(other), place)
        if value is _ABSENT:  # when all its fields are gone
            yield Difference(place, {}, _ABSENT)


def restore(came_back: Body, changes: list[Difference], depth: int = 0) -> dict[str, Any]:
    """The object with the original values in all places that nobody has changed since."""
    result: dict[str, Any] = dict(came_back)
    places: dict[str, list[Difference]] = {}
    for entry in changes:
        places.setdefault(entry.path[depth], []).append(entry)
    for name, group in places.items():
        below = [entry for entry in group if len(entry.path) > depth + 1]
        inner = result.get(name, {})
        if below and isinstance(inner, Mapping):
            inner_part = restore(inner, below, depth + 1)
            if inner_part or name in result:
                result[name] = inner_part
        for entry in group:
            if len(entry.path) == depth + 1:
                _put_back(result, name, entry)
    return result


def originals(changes: list[Difference], whole: str) -> dict[str, object]:
    """The original values by the places below *whole* where they stood."""
    return {".".join((whole, *entry.path)): entry.original for entry in changes if entry.original is not _ABSENT}


def encode(changes: list[Difference]) -> str | None:
    """The text for an annotation; ``None`` when ``decode`` would not read all of it: it is too large, or too deep."""
    try:
        text = msgspec.json.encode([_encode(entry) for entry in changes], order="sorted").decode()
    except RecursionError:
        return None
    return text if len(decode(text)) == len(changes) else None


def decode(text: object) -> list[Difference]:
    """The differences in an annotation. A user may have written anything there: what is none is ignored."""
    try:
        entries = msgspec.json.decode(text) if isinstance(text, str) and len(text) <= LARGEST else []
    except (msgspec.DecodeError, RecursionError):
        return []
    return [
        Difference(tuple(entry["path"]), entry.get("back", _ABSENT), entry.get("original", _ABSENT))
        for entry in objects_of(entries)
        if _is_path(entry.get("path")) and _is_storable(entry.get("original"))
    ]


def fit(annotations: Body) -> bool:
    """Whether one object may have all of them."""
    return size_of(annotations) <= ROOM


def size_of(annotations: Body) -> int:
    """How many bytes the API server counts."""
    return sum(len(f"{name}{value}".encode()) for name, value in annotations.items())


def _put_back(body: dict[str, Any], name: str, entry: Difference) -> None:
    if not _is_same(body.get(name, _ABSENT), entry.came_back):
        return
    if entry.original is _ABSENT:
        body.pop(name, None)
    else:
        body[name] = entry.original


def _may_descend(value: object, other: object) -> bool:
    """Whether the difference of two values is that of their fields; an object that is absent has none."""
    if value is _ABSENT or other is _ABSENT:
        return bool(mapping_of(value) or mapping_of(other))
    return isinstance(value, Mapping) and isinstance(other, Mapping)


def _is_same(one: object, other: object) -> bool:
    """As JSON: Python takes 1 for true. Only what is equal is compared as text: it takes no longer than the smaller."""
    if one is _ABSENT or other is _ABSENT or one is other:
        return one is other
    try:
        return one == other and _canonical_json(one) == _canonical_json(other)
    except RecursionError:
        return False


def _canonical_json(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _is_storable(content: object, levels: int = _LEVELS) -> bool:
    """Whether the API server can read it: it fails on a number that is too large, and nothing may be too deep."""
    if isinstance(content, dict | list):
        inner = content.values() if isinstance(content, dict) else content
        return levels > 0 and all(_is_storable(value, levels - 1) for value in inner)
    return not isinstance(content, int) or abs(content) < 2**63


def _encode(entry: Difference) -> dict[str, object]:
    sides = {"back": entry.came_back, "original": entry.original}
    return {"path": list(entry.path)} | {side: value for side, value in sides.items() if value is not _ABSENT}


def _is_path(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= DEEPEST and all(isinstance(name, str) for name in value)
