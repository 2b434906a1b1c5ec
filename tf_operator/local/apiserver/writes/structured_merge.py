"""What server-side apply does with values, as Kubernetes' ``structured-merge-diff`` does it: sets of fields, merges.

A field is a path of elements as ``fieldsV1`` writes them: ``f:name``, ``k:{"name":"a"}`` of a list that is a map, and
``v:"a"`` of one that is a set. Schemas are those of OpenAPI with Kubernetes' extensions; where they say nothing, a list
is one value and a map is one field for each entry. Pure: values that are given stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

Path = tuple[str, ...]
Fields = frozenset[Path]
Json = Any
_MISSING: Final = object()
_TYPES: Final = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}
_KEY: Final = "k:"
_VALUE: Final = "v:"
_NAME: Final = "f:"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which fields differ between two values."""

    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Schema:
    """One place in a schema."""

    definitions: Mapping[str, Mapping[str, Any]]
    """Definitions by their names in ``$ref``."""
    here: Mapping[str, Any]

    @classmethod
    def of(cls, definitions: Mapping[str, Mapping[str, Any]], here: Mapping[str, Any]) -> "Schema":
        """What a part of a schema says, with what it refers to."""
        return cls(definitions, {**definitions[here["$ref"]], **here} if "$ref" in here else here)

    def field(self, name: str) -> "Schema | None":
        """That of a field; ``None`` if nobody knows the field."""
        fields, others = self.here.get("properties") or {}, self.here.get("additionalProperties")
        if name in fields:
            return Schema.of(self.definitions, fields[name])
        if isinstance(others, Mapping):
            return Schema.of(self.definitions, others)
        is_open = others is True or not fields or self.here.get("x-kubernetes-preserve-unknown-fields")
        return Schema(self.definitions, {}) if is_open else None

    def has_field(self, name: str) -> bool:
        return name in (self.here.get("properties") or {})

    @property
    def item(self) -> "Schema":
        return Schema.of(self.definitions, self.here.get("items") or {})

    def is_one(self, value: Json) -> bool:
        """Whether a value is one field, whatever is in it."""
        if isinstance(value, Mapping):
            return self.here.get("x-kubernetes-map-type") == "atomic"
        return not isinstance(value, list) or self.here.get("x-kubernetes-list-type") not in ("map", "set")

    def element(self, item: Json) -> str:
        """How an item of a list that is no single field is told from the others."""
        keys: Sequence[str] = self.here.get("x-kubernetes-list-map-keys") or ()
        if not keys:
            return _VALUE + _text(item)
        fields = self.item.here.get("properties") or {}
        fields_of_item = item if isinstance(item, Mapping) else {}
        return _KEY + _text(
            {key: fields_of_item.get(key, fields.get(key, {}).get("default", "")) for key in sorted(keys)}
        )

    def below(self, element: str) -> "Schema":
        return self.item if not element.startswith(_NAME) else self.field(element[2:]) or Schema(self.definitions, {})


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _children(value: Json, schema: Schema) -> Iterator[tuple[str, Json, Schema]]:
    """What is directly below a value that is not one field."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            element = _NAME + name
            yield element, item, schema.below(element)
    elif isinstance(value, list):
        yield from ((schema.element(item), item, schema.item) for item in value)


# Problems


def problems(value: Json, schema: Schema, path: Path = ()) -> Iterator[str]:
    schema_type, place = schema.here.get("type"), path_text(path)
    if schema_type in _TYPES and (
        isinstance(value, bool) is not (schema_type == "boolean") or not _is_a(value, schema_type)
    ):
        yield from () if value is None else (f"{place}: expected {_go(schema_type)}, got &{{{_plain(value)}}}",)
    elif schema_type == "object" and not isinstance(value, Mapping | None):
        yield f"{place}: expected map, got &{{{_plain(value)}}}"
    elif schema_type == "array" and not isinstance(value, list | None):
        yield f"{place}: expected list, got &{{{_plain(value)}}}"
    elif not schema.is_one(value):
        yield from _problems_below(value, schema, path)


def _problems_below(value: Json, schema: Schema, path: Path) -> Iterator[str]:
    elements = set[str]()
    for element, item, below in _children(value, schema):
        if isinstance(value, list) and element in elements:
            yield f"{path_text(path)}: duplicate entries for key {path_text((element,))}"
        elif isinstance(value, Mapping) and schema.field(element[2:]) is None:
            yield f"{path_text((*path, element))}: field not declared in schema"
        else:
            yield from problems(item, below, (*path, element))
        elements.add(element)


def _is_a(value: Json, schema_type: str) -> bool:
    return isinstance(value, _TYPES[schema_type])


def _go(name: str) -> str:
    return "numeric (int or float)" if name in ("integer", "number") else name


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else _text(value)


def ordered(paths: Iterable[Path]) -> list[Path]:
    """Fields in the order in which Kubernetes names them: those of a level come before what is in them."""
    return sorted(paths, key=lambda path: [*((1, element) for element in path[:-1]), (0, path[-1])])


def path_text(path: Path) -> str:
    """A path as conflicts name it: ``.spec.containers[name="c"].image``."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    if element.startswith(_NAME):
        return f".{element[2:]}"
    if element.startswith(_VALUE):
        return f"[={element[2:]}]"
    return f"[{','.join(f'{name}={_text(value)}' for name, value in msgspec.json.decode(element[2:]).items())}]"


# Sets of fields


def fields(value: Json, schema: Schema) -> Fields:
    return frozenset(_fields(value, schema, ()))


def _fields(value: Json, schema: Schema, path: Path) -> Iterator[Path]:
    if schema.is_one(value):
        if path:
            yield path
        return
    for element, item, below in _children(value, schema):
        yield from _fields(item, below, (*path, element))
        is_entry = isinstance(value, list) or not schema.has_field(element[2:])
        if is_entry or item is None or item == {}:
            yield (*path, element)


def with_holders(paths: Iterable[Path], schema: Schema) -> Fields:
    """The set with the named fields that its fields are in."""
    holders = set(paths)
    for path in tuple(holders):
        here = schema
        for depth, element in enumerate(path):
            if element.startswith(_NAME) and here.has_field(element[2:]):
                holders.add(path[: depth + 1])
            here = here.below(element)
    return frozenset(holders)


def to_json(paths: Iterable[Path]) -> Json:
    tree: dict[str, Any] = {}
    for path in sorted(paths):  # a field comes before what is in it
        node = tree
        for element in path[:-1]:
            node = node.setdefault(element, {})
        node.setdefault(path[-1], {})
        node[path[-1]]["."] = {}
    return _without_dots(tree)


def _without_dots(node: Mapping[str, Any]) -> Json:
    """A field that holds no other needs no mark of its own."""
    return {
        name: {} if below == {".": {}} or name == "." else _without_dots(below) for name, below in sorted(node.items())
    }


def from_json(tree: Mapping[str, Any]) -> Fields:
    """The set that ``fieldsV1`` describes."""
    return frozenset(_paths(tree, ()))


def _paths(tree: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for element, below in tree.items():
        if element == ".":
            yield path
        elif not below:
            yield (*path, element)
        else:
            yield from _paths(below, (*path, element))


# Values


def merged(low: Json, high: Json, schema: Schema) -> Json:
    if high is _MISSING or low is _MISSING:
        return low if high is _MISSING else high
    if type(low) is not type(high) or schema.is_one(high):
        return high
    if isinstance(high, dict):
        over = {name: merged(low.get(name, _MISSING), item, schema.below(_NAME + name)) for name, item in high.items()}
        return {**low, **over}
    return _merged_lists(low, high, schema)


def _merged_lists(low: list[Json], high: list[Json], schema: Schema) -> list[Json]:
    """The order is that of the second list, and among its items the others keep their place."""
    lows, highs = [schema.element(item) for item in low], [schema.element(item) for item in high]
    low_items = dict(zip(lows, low, strict=True))
    shared = [element for element in highs if element in low_items]
    left, right = 0, 0
    result: list[Json] = []
    while left < len(low) or right < len(high):
        if left < len(low) and lows[left] not in highs:
            result.append(low[left])
            left += 1
        elif left < len(low) and right < len(high) and lows[left] != highs[right] and lows[left] not in shared[:1]:
            left += 1  # it comes later, or came before
        elif right == len(high):
            left += 1
        else:
            element = highs[right]
            result.append(merged(low_items.get(element, _MISSING), high[right], schema.item))
            left += left < len(low) and lows[left] == element
            right += 1
            shared = shared[1:] if shared[:1] == [element] else shared
    return result


def without(value: Json, paths: Iterable[Path], schema: Schema) -> Json:
    """A value without some fields, and what is in them."""
    absent = set(paths)
    if not absent or schema.is_one(value):
        return value
    heads = {path[0] for path in absent}
    result = []
    for element, item, below in _children(value, schema):
        if (element,) not in absent:
            rest = (
                without(item, {path[1:] for path in absent if path[0] == element}, below) if element in heads else item
            )
            result.append((element[2:], rest))
    return dict(result) if isinstance(value, Mapping) else [item for _, item in result]


def compared(old: Json, new: Json, schema: Schema) -> Comparison:
    comparison = Comparison()
    _compare(old, new, schema, (), comparison)
    return comparison


def _nodes(value: Json, schema: Schema, path: Path) -> Iterator[Path]:
    """Everything in a value, and the value."""
    yield path
    if not schema.is_one(value):
        for element, item, below in _children(value, schema):
            yield from _nodes(item, below, (*path, element))


def _compare(old: Json, new: Json, schema: Schema, path: Path, comparison: Comparison) -> None:
    if old is _MISSING or new is _MISSING:
        value, changes = (new, comparison.added) if old is _MISSING else (old, comparison.removed)
        changes |= set(_nodes(value, schema, path))
    elif schema.is_one(new) or schema.is_one(old) or type(old) is not type(new):
        if old != new:
            comparison.modified.add(path)
            # Where anything may be, one side can have fields, and the other none.
            for value, other, changes in ((old, new, comparison.removed), (new, old, comparison.added)):
                if type(value) is not type(other) and not schema.is_one(value):
                    changes.update(below for below in _nodes(value, schema, path) if below != path)
    else:
        olds = {element: item for element, item, _ in _children(old, schema)}
        news = {element: item for element, item, _ in _children(new, schema)}
        for element in {**olds, **news}:
            old_item, new_item = olds.get(element, _MISSING), news.get(element, _MISSING)
            if old_item is not new_item:
                _compare(old_item, new_item, schema.below(element), (*path, element), comparison)
