"""What the CRD's schema says about an object, as the API server evaluates it.

A field that is null is a field that is left out. A field that the schema does not know is an error where the schema is
closed, as for kubectl. In a pod template, which is open to fields of newer releases, it is only a warning: there nobody
else would notice a misspelt field. The rules in CEL are those of ``job.validation``.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tf_operator.dialects.fields import kind_of
from tf_operator.job.training_job import FieldError

Schema = Mapping[str, Any]
_BITS: Final = {"int32": 32, "int64": 64}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "object": ("an object", lambda value: isinstance(value, Mapping)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("a whole number", _is_integer),
    "number": ("a number", lambda value: _is_integer(value) or isinstance(value, float)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
}


@dataclass(frozen=True, slots=True)
class Findings:
    """What the API server refuses, and the unknown fields that it stores all the same."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)


def without_nulls(value: Any, schema: Schema) -> Any:  # noqa: ANN401 - any JSON
    """The value without the fields that are null; those that the schema does not know stay."""
    if isinstance(value, list):
        return [without_nulls(item, schema.get("items", {})) for item in value]
    if not isinstance(value, Mapping):
        return value
    known = {name: _known(name, schema) for name in value}
    return {
        name: item if (below := known[name]) is None else without_nulls(item, below)
        for name, item in value.items()
        if item is not None or known[name] is None
    }


def check(value: object, schema: Schema, path: str = "") -> Findings:
    """Everything that the schema says about a value without nulls."""
    findings = Findings()
    _check(value, schema, path, findings)
    return findings


def _check(value: object, schema: Schema, path: str, findings: Findings) -> None:
    if wrong := _wrong_type(value, schema):
        findings.errors.append(FieldError(path, wrong))
        return
    findings.errors.extend(FieldError(path, rule) for rule in _broken(value, schema))
    if isinstance(value, Mapping):
        _check_object(value, schema, path, findings)
    elif isinstance(value, list):
        findings.errors.extend(_duplicates(value, schema, path))
        for index, item in enumerate(value):
            _check(item, schema.get("items", {}), f"{path}[{index}]", findings)


def _check_object(value: Mapping[str, Any], schema: Schema, path: str, findings: Findings) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value and "default" not in properties.get(name, {}):
            findings.errors.append(FieldError(_below(path, name), "is required"))
    is_open = schema.get("x-kubernetes-preserve-unknown-fields", not properties)
    unknown = findings.warnings if is_open else findings.errors
    for name, item in value.items():
        known = _known(name, schema)
        if known is not None:
            _check(item, known, _below(path, name), findings)
        elif properties:
            unknown.append(FieldError(_below(path, name), f"unknown field{_hint(name, properties)}"))


def _known(name: str, schema: Schema) -> Schema | None:
    """The schema of one field of an object, if there is one."""
    others = schema.get("additionalProperties")
    found: Schema | None = schema.get("properties", {}).get(name, others if isinstance(others, Mapping) else None)
    return found


def _duplicates(items: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    """Items of a list that have the same keys as an earlier one."""
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys", ())
    seen = list[dict[str, Any]]()
    for index, item in enumerate(items if keys else ()):
        key = {name: item.get(name) for name in keys} if isinstance(item, Mapping) else {}
        if key and key in seen:
            shown = ", ".join(f"{name} {value!r}" for name, value in key.items())
            yield FieldError(f"{path}[{index}]", f"{shown} is there twice")
        seen.append(key)


def _wrong_type(value: object, schema: Schema) -> str:
    """What the value has to be, if it is something else."""
    if schema.get("x-kubernetes-int-or-string"):
        is_right = _is_integer(value) or isinstance(value, str)
        return "" if is_right else f"must be a whole number or a string, is {kind_of(value)}"
    if value is None:
        return "must not be null"
    words, is_type = _TYPES.get(schema.get("type", ""), ("", lambda _: True))
    return "" if is_type(value) else f"must be {words}, is {kind_of(value)}"


def _broken(value: object, schema: Schema) -> Iterator[str]:
    """The bounds that a value of the right type exceeds."""
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        yield f"must be one of {', '.join(map(repr, allowed))}, is {kind_of(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _out_of_range(value, schema)
    if isinstance(value, str) and not re.search(_pattern(schema), value):
        yield f"does not have the right form, is {kind_of(value)}"
    for bound, kind in (("maxLength", str), ("maxItems", list), ("maxProperties", Mapping)):
        if bound in schema and isinstance(value, kind) and _size(value) > schema[bound]:
            yield f"is too long: {_size(value)}, and at most {schema[bound]} are possible"


def _out_of_range(value: float, schema: Schema) -> Iterator[str]:
    bits = _BITS.get(schema.get("format", ""))
    if bits and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        yield f"must fit into {bits} bits, is {value}"
    elif value < schema.get("minimum", value):
        yield f"must be at least {schema['minimum']}, is {value}"
    elif value > schema.get("maximum", value):
        yield f"must be at most {schema['maximum']}, is {value}"


def _pattern(schema: Schema) -> str:
    """As Go reads it: ``$`` is the end of the text, and not the place before a last line end."""
    return re.sub(r"(?<!\\)\$$", r"\\Z", schema.get("pattern", ""))


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | Sequence | Mapping) else 0


def _hint(name: str, properties: Mapping[str, Schema]) -> str:
    """The field that was probably meant: of a similar name, or of this name one level below."""
    for parent, schema in properties.items():
        if name in schema.get("properties", {}):
            return f"; did you mean {parent}.{name}?"
    close = difflib.get_close_matches(name, properties, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
