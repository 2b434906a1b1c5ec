"""What the schema of the CRD says of an object: as the API server would, and where it keeps silent.

The operator's own validation knows the rules of a job; the schema knows every field and its type, also those of the pod
templates. A field that it does not know is most likely misspelt: kubectl refuses it in the job itself, and in a pod
template, which is open to fields of newer releases, nobody would notice. So it is named, with what was probably meant.
Rules in CEL are left to ``api.validation``, which has the same.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tf_operator.api.job import FieldError
from tf_operator.dialects.fields import kind_of

Schema = Mapping[str, Any]


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
    """What is wrong, and which fields are not known."""

    errors: list[FieldError] = field(default_factory=list)
    unknown: list[FieldError] = field(default_factory=list)


def check(value: object, schema: Schema, path: str = "") -> Findings:
    """Everything that the schema says of a value."""
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
        for index, item in enumerate(value):
            _check(item, schema.get("items", {}), f"{path}[{index}]", findings)


def _check_object(value: Mapping[str, Any], schema: Schema, path: str, findings: Findings) -> None:
    """A field that is null is one that is left out."""
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None and "default" not in properties.get(name, {}):
            findings.errors.append(FieldError(_below(path, name), "is required"))
    for name, item in value.items():
        known = properties.get(name, others)
        if isinstance(known, Mapping):
            if item is not None:
                _check(item, known, _below(path, name), findings)
        elif properties and not others:
            findings.unknown.append(FieldError(_below(path, name), f"unknown field{_hint(name, properties)}"))


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
    """The bounds that a value of the right type does not keep."""
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        yield f"must be one of {', '.join(map(repr, allowed))}, is {kind_of(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"must be at least {schema['minimum']}, is {value}"
        if value > schema.get("maximum", value):
            yield f"must be at most {schema['maximum']}, is {value}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"does not have the right form, is {kind_of(value)}"
    for bound, kind in (("maxLength", str), ("maxItems", list), ("maxProperties", Mapping)):
        if bound in schema and isinstance(value, kind) and _size(value) > schema[bound]:
            yield f"is too long: {_size(value)}, and at most {schema[bound]} are possible"


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
