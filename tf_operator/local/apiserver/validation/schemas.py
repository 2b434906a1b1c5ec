"""Structural schemas: what a CRD says about its objects.

``prune`` drops what no schema knows, ``fill`` sets defaults, ``violations`` says what breaks the schema. All of them
walk the value and not the schema, so a small object is cheap however large the CRD is. ``schema_causes`` words a
violation as the server does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver.validation import patterns
from tf_operator.meta import parse_time

Schema = Mapping[str, Any]
Node = Any
"""Any JSON."""
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_COMBINING: Final = frozenset({"anyOf", "oneOf", "allOf", "not"})
_CHOOSING: Final = _COMBINING | {"enum"}
_OF_TEXTS: Final = _CHOOSING | {"format", "maxLength", "minLength", "pattern"}
BITS: Final = {"int32": 32, "int64": 64}
_NOTHING: Final[Schema] = {}
MISSING: Final = object()
"""No value, which is something else than ``null``."""
_NAMES_OF_TYPES: Final = {bool: "boolean", float: "number", str: "string", list: "array", type(None): "null"}
_LARGEST_EXACT: Final = 2**53
_BEYOND_FLOAT: Final = 2**1024
_BEYOND_INT64: Final = 2**63
_LARGEST_WHOLE: Final = 1e21
METADATA_FIELDS: Final = frozenset(
    {"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers"}
    | {"generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences"}
    | {"resourceVersion", "selfLink", "uid"}
)
_FRAME: Final = frozenset({"apiVersion", "kind", "metadata"})


class NumberError(ValueError):
    """No JSON reader of Go holds this number."""


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    rule: str
    """The keyword: ``type``, ``required``, ``enum``, ``maximum`` ..."""
    value: object = None
    limit: Any = None
    """What the schema asks for."""
    format: str = ""
    """Of ``type``: the format of the schema, which the real validator compares first."""


def property_of(schema: Schema, name: str) -> Schema | None:
    own: Schema | None = schema.get("properties", _NOTHING).get(name)
    if own is None:
        others = schema.get("additionalProperties")
        if others is None:
            return None
        return others if isinstance(others, Mapping) else _NOTHING if others is True else None
    return own


def prune(value: Node, schema: Schema | None, *, path: str = "", is_resource: bool = True) -> Iterator[str]:
    """Remove what the schema does not know from a value, in place; gives the paths of what is removed.

    Whole numbers lose their fraction of 0: Go writes them without.
    """
    if isinstance(value, list):
        items = None if schema is None else schema.get("items")
        for index, item in enumerate(value):
            value[index] = _whole(item)
            yield from prune(item, items, path=f"{path}[{index}]", is_resource=False)
    elif isinstance(value, dict):
        yield from _prune_object(value, schema or _NOTHING, path, is_resource=is_resource)


def _prune_object(value: dict[str, Node], schema: Schema, path: str, *, is_resource: bool) -> Iterator[str]:
    has_frame = is_resource or schema.get(_EMBEDDED, False)
    for name in list(value):
        if has_frame and name in _FRAME:
            if not is_resource and name == "metadata":
                yield from _prune_metadata(value[name], below(path, name))
            continue
        property_schema = property_of(schema, name)
        if property_schema is not None:
            if type(value[name]) is str:
                continue  # most of all values
            value[name] = _whole(value[name])
            yield from prune(value[name], property_schema, path=below(path, name), is_resource=False)
        elif not schema.get(_PRESERVE):
            del value[name]
            yield below(path, name)


def _prune_metadata(metadata: Node, path: str) -> Iterator[str]:
    for name in [field for field in metadata if field not in METADATA_FIELDS] if isinstance(metadata, dict) else ():
        del metadata[name]
        yield below(path, name)


def _whole(value: Node) -> Node:
    if isinstance(value, int) and abs(value) >= _BEYOND_FLOAT:
        raise NumberError
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE else value


def fill(value: Node, schema: Schema) -> None:
    """Set defaults, in place; a field that is ``null`` and may not be is one that is missing."""
    if isinstance(value, list):
        items = schema.get("items", _NOTHING)
        for item in value:
            fill(item, items)
    elif isinstance(value, dict):
        _fill_object(value, schema)


def _fill_object(value: dict[str, Node], schema: Schema) -> None:
    for name, property_schema in schema.get("properties", _NOTHING).items():
        if "default" in property_schema and (name not in value or _is_dropped(value[name], property_schema)):
            value[name] = _copied(property_schema["default"])
    for name in list(value):
        field_schema = property_of(schema, name)
        if field_schema and _is_dropped(value[name], field_schema):
            del value[name]
        elif field_schema and isinstance(value[name], dict | list):
            fill(value[name], field_schema)


def _is_dropped(value: Node, schema: Schema) -> bool:
    return value is None and not schema.get("nullable")


def _copied(value: Node) -> Node:
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def violations(value: Node, schema: Schema, path: str = "", old: Node = MISSING) -> Iterator[Violation]:
    """Everything that the schema forbids, in the order of the real validator.

    What an update leaves as it was is not checked: it may be older than the rule.
    """
    if old is not MISSING and value == old:
        return
    types = _types(schema, is_null=value is None)
    is_right = _is_one_of(value, types)
    if not is_right:
        has_format = not isinstance(value, str | list) and value is not None
        yield Violation(path, "type", value, types, schema.get("format", "") if has_format else "")
    if value is None:
        return
    if is_right or ("integer" in types and type_name(value) == "number"):
        yield from _broken_scalar(value, schema, path)
    if isinstance(value, list) and is_right:
        yield from _broken_list(value, schema, path, old)
    if not _CHOOSING.isdisjoint(schema):
        yield from _wrongly_chosen(value, schema, path)
    if isinstance(value, dict) and is_right:
        yield from _broken_object(value, schema, path, old)


def _broken_scalar(value: Node, schema: Schema, path: str) -> Iterator[Violation]:
    if isinstance(value, str):
        yield from _broken_text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _broken_number(value, schema, path)


def correlated(old: Node, name: str) -> Node:
    return old.get(name, MISSING) if isinstance(old, dict) else MISSING


def correlated_items(items: list[Any], old: Node, schema: Schema) -> Iterator[tuple[Node, Node]]:
    """Each item of a list, with the stored item of the same keys (``schema`` is that of the list)."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    old_items: dict[bytes, Node] = {}
    for item in old if keys and isinstance(old, list) else ():
        if isinstance(item, Mapping):
            old_items.setdefault(_canonical([item.get(name) for name in keys]), item)
    for item in items:
        is_found = bool(old_items) and isinstance(item, Mapping)
        yield item, old_items.get(_canonical([item.get(name) for name in keys]), MISSING) if is_found else MISSING


def _canonical(value: Node) -> bytes:
    """The same for equal values only. It makes long lists cheap to compare: no client can make its hashes collide."""
    return msgspec.json.encode(value, order="deterministic")


def _types(schema: Schema, *, is_null: bool = False) -> tuple[str, ...]:
    if is_null and schema.get("nullable"):
        return ("null",)
    if schema.get(_INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _is_one_of(value: Node, types: tuple[str, ...]) -> bool:
    if isinstance(value, str | dict):  # most values are
        return not types or type_name(value) in types
    return not types or any(_is_type(value, name) for name in types)


def _is_type(value: Node, name: str) -> bool:
    if name == "integer":
        return is_integer(value)
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type_name(value) == name


def is_integer(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer() and abs(value) < _LARGEST_EXACT
    return isinstance(value, int) and not isinstance(value, bool) and -_BEYOND_INT64 <= value < _BEYOND_INT64


def type_name(value: object) -> str:
    """The type of a JSON value, as a schema calls it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "integer" if is_integer(value) else "number"
    return _NAMES_OF_TYPES.get(type(value), "object")


def _wrongly_chosen(value: Node, schema: Schema, path: str) -> Iterator[Violation]:
    for keyword in _COMBINING & schema.keys():
        parts = [schema[keyword]] if keyword == "not" else schema[keyword]
        violation_lists = [list(violations(value, part, path)) for part in parts]
        fitting = sum(not errors for errors in violation_lists)
        is_fulfilled = {"anyOf": fitting > 0, "oneOf": fitting == 1, "allOf": fitting == len(parts), "not": not fitting}
        if not is_fulfilled[keyword]:
            yield Violation(path, keyword, value, fitting)
            yield from () if fitting else violation_lists[0]
    if "enum" in schema and value not in schema["enum"]:
        yield Violation(path, "enum", value, schema["enum"])


def _broken_text(value: str, schema: Schema, path: str) -> Iterator[Violation]:
    """Only the first of length and pattern, as the real validator."""
    if len(value) > schema.get("maxLength", len(value)):
        yield Violation(path, "maxLength", value, schema["maxLength"])
    elif len(value) < schema.get("minLength", 0):
        yield Violation(path, "minLength", value, schema["minLength"])
    elif "pattern" in schema and not patterns.matches(schema["pattern"], value):
        yield Violation(path, "pattern", value, schema["pattern"])
    if "format" in schema and not _has_format(value, schema["format"]):
        yield Violation(path, "format", value, schema["format"])


def _has_format(value: str, name: str) -> bool:
    if name == "date-time":
        return parse_time(value) is not None
    if name == "date":
        return re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None and parse_time(f"{value}T00:00:00Z") is not None
    return True


def _broken_number(value: float, schema: Schema, path: str) -> Iterator[Violation]:
    if "integer" in _types(schema) and "format" not in schema and not is_integer(value):
        yield Violation(path, "format", value, "")
    bits = BITS.get(schema.get("format", ""))
    if bits and not (value == int(value) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)):
        yield Violation(path, "format", value, schema["format"])
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        yield Violation(path, "exclusiveMaximum" if schema.get("exclusiveMaximum") else "maximum", value, high)
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        yield Violation(path, "exclusiveMinimum" if schema.get("exclusiveMinimum") else "minimum", value, low)
    if schema.get("multipleOf") and value % schema["multipleOf"]:
        yield Violation(path, "multipleOf", value, schema["multipleOf"])


def _broken_list(value: list[Any], schema: Schema, path: str, old: Node) -> Iterator[Violation]:
    items = schema.get("items", _NOTHING)
    for index, (item, old_item) in enumerate(correlated_items(value, old, schema)):
        yield from violations(item, items, f"{path}[{index}]", old_item)
    if len(value) < schema.get("minItems", 0):
        yield Violation(path, "minItems", value, schema["minItems"])
    if len(value) > schema.get("maxItems", len(value)):
        yield Violation(path, "maxItems", value, schema["maxItems"])


def _broken_object(value: Mapping[str, Any], schema: Schema, path: str, old: Node) -> Iterator[Violation]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield Violation(path, "maxProperties", value, schema["maxProperties"])
    if len(value) < schema.get("minProperties", 0):
        yield Violation(path, "minProperties", value, schema["minProperties"])
    names = ("apiVersion", "kind") if schema.get(_EMBEDDED) else ()
    properties = schema.get("properties", _NOTHING)
    for name in (*schema.get("required", ()), *names):
        if name not in value and "default" not in properties.get(name, _NOTHING):
            yield Violation(below(path, name), "required")
    for name, item in value.items():
        property_schema = property_of(schema, name)
        if property_schema is not None and not (type(item) is str and _takes_any_text(property_schema)):
            yield from violations(item, property_schema, below(path, name), correlated(old, name))


def _takes_any_text(schema: Schema) -> bool:
    return schema.get("type") == "string" and _OF_TEXTS.isdisjoint(schema)


def repeated(value: object, schema: Schema, path: str = "") -> Iterator[Violation]:
    """Items of a set, or of a list with keys, that are there twice. Apart: the real server looks for them later."""
    if isinstance(value, list):
        yield from _repeated_items(value, schema, path)
        items = schema.get("items", _NOTHING)
        for index, item in enumerate(value):
            yield from repeated(item, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        properties = schema.get("properties", _NOTHING)
        for name, item in value.items():
            if isinstance(item, dict | list) and (property_schema := property_of(schema, name)) is not None:
                yield from repeated(
                    item, property_schema, below(path, name) if name in properties else f"{path}[{name}]"
                )


def _repeated_items(items: list[Any], schema: Schema, path: str) -> Iterator[Violation]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    if kind not in ("map", "set"):
        return
    identities: set[bytes] = set()
    item_properties = schema.get("items", _NOTHING).get("properties", _NOTHING)
    for index, item in enumerate(items):
        if kind == "set":
            key = item
        elif isinstance(item, Mapping):
            key = {name: item.get(name, item_properties.get(name, _NOTHING).get("default")) for name in keys}
            key = {name: part for name, part in key.items() if part is not None}
        else:
            continue
        text = _canonical(key)
        if text in identities:
            yield Violation(f"{path}[{index}]", "duplicate", key)
        identities.add(text)


def below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
