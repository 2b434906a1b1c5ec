"""What of a value the schema of a CRD allows; the rest is left out, and listed.

A conversion is not checked by anybody: the API server stores its result as it is, and a typed client that reads a list
fails at the first field of a wrong type. So what a conversion makes is fitted before it is given away. Rules in CEL are
not asked here. A field that is null counts as absent, as it does for the API server; what no schema knows stays.

Neighbour: ``kubeflow.versions.stored_schema``, which has the schema of v1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tf_operator.dialects.fields import kind_of
from tf_operator.meta import Body, parse_time

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_BITS: Final = {"int32": 32, "int64": 64}
_LARGEST_EXACT: Final = 2**53
"""The API server reads a whole number with a fraction of 0 only up to here."""
_WORDS: Final = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
}
_LEAST_OF_TYPE: Final[Mapping[str, object]] = {"array": [], "string": "", "boolean": False}


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place where a value does not keep the schema."""

    field: str
    rule: str
    value: object = None
    """What is left out; ``None`` where something was missing, and the least that the schema takes is there now."""


def fit(value: Body, schema: Body) -> tuple[dict[str, Any], list[Misfit]]:
    """An object that keeps the schema, and everything in which this one did not."""
    fitting = _Fitting()
    return fitting.object_(value, schema, ""), fitting.misfits


class _Fitting:
    def __init__(self) -> None:
        self.misfits: list[Misfit] = []

    def object_(self, value: Body, schema: Body, field: str) -> dict[str, Any]:
        """The object without the fields that do not fit, and with those that it needs."""
        result: dict[str, Any] = {}
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, part in value.items():
            field_schema, place = properties.get(name, others), _below(field, name)
            if field_schema is None or part is None:
                result[name] = part
            elif len(result) == schema.get("maxProperties"):
                self.misfits.append(Misfit(place, f"is beyond the most, which is {len(result)}", part))
            else:
                self._put(result, name, part, schema=field_schema, place=place)
        for name in schema.get("required", ()):
            if result.get(name) is None:
                if value.get(name) is None:
                    self.misfits.append(Misfit(_below(field, name), "is required"))
                result[name] = _least(properties[name])
        return result

    def _put(self, fields: dict[str, Any], name: str, part: object, *, schema: Body, place: str) -> None:
        if rule := _broken(part, schema):
            self.misfits.append(Misfit(place, rule, part))
        else:
            fields[name] = self._fitting_part(part, schema, place)

    def _fitting_part(self, value: object, schema: Body, place: str) -> object:
        """What has the right type, with everything in it that fits."""
        if isinstance(value, Mapping):
            return self.object_(value, schema, place)
        if isinstance(value, list):
            return self._list(value, schema, place)
        return int(value) if isinstance(value, float) else value

    def _list(self, value: list[Any], schema: Body, place: str) -> list[Any]:
        items: dict[bytes, object] = {}
        item_schema, keys = schema["items"], schema.get("x-kubernetes-list-map-keys", ())
        for index, item in enumerate(value):
            at = f"{place}[{index}]"
            if rule := _broken(item, item_schema):
                self.misfits.append(Misfit(at, rule, item))
                continue
            part = self._fitting_part(item, item_schema, at)
            identity = _identity(part, keys) if keys else str(index).encode()
            if identity in items:
                self.misfits.append(Misfit(at, f"has the {' and '.join(keys)} of an earlier item", item))
            elif len(items) == schema.get("maxItems"):
                self.misfits.append(Misfit(at, f"is beyond the most, which is {len(items)}", item))
            else:
                items[identity] = part
        return list(items.values())


def _below(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _identity(item: object, keys: Sequence[str]) -> bytes:
    fields = item if isinstance(item, Mapping) else {}
    return msgspec.json.encode([fields.get(name) for name in keys])


def _least(schema: Body) -> object:
    """The least that keeps the schema."""
    kind = schema.get("type", "integer")
    if kind == "object":
        return {name: _least(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "integer":
        return schema.get("minimum", 0)
    return _LEAST_OF_TYPE[kind] if "enum" not in schema else schema["enum"][0]


def _broken(value: object, schema: Body) -> str:
    """The rule that the value itself breaks, whatever is in it; empty when there is none."""
    if isinstance(value, msgspec.Raw):
        return "has too many levels"
    types = ("integer", "string") if schema.get(_INT_OR_STRING) else (schema["type"],)
    kind = _type_of(value)
    if kind not in types:
        return f"must be {' or '.join(_WORDS[name] for name in types)}, is {kind_of(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(map(repr, schema['enum']))}, is {kind_of(value)}"
    if isinstance(value, str):
        return _broken_text(value, schema)
    return _broken_number(value, schema) if isinstance(value, int | float) and kind == "integer" else ""


def _type_of(value: object) -> str:
    """Its type, as schemas call it; empty for what no field can be."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else ""
        case float():
            return "integer" if value.is_integer() and abs(value) < _LARGEST_EXACT else ""
        case str():
            return "string"
        case Mapping():
            return "object"
    return "array" if isinstance(value, list) else ""


def _broken_text(value: str, schema: Body) -> str:
    if len(value) > schema.get("maxLength", len(value)):
        return f"must have at most {schema['maxLength']} characters, has {len(value)}"
    # Patterns of CRDs begin with ^ and end with $, which is the end of a line for Python.
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return f"must match {schema['pattern']}, is {kind_of(value)}"
    is_time = schema.get("format") == "date-time"
    return f"must be a time as in RFC 3339, is {kind_of(value)}" if is_time and parse_time(value) is None else ""


def _broken_number(value: float, schema: Body) -> str:
    bits = _BITS.get(schema.get("format", ""), 64)
    least, most = schema.get("minimum", -(2 ** (bits - 1))), schema.get("maximum", 2 ** (bits - 1) - 1)
    return "" if least <= value <= most else f"must be from {least} to {most}, is {kind_of(value)}"
