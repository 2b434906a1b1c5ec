"""What the CRD's schema says about an object, in words for the user who wrote it.

The schema is evaluated by the engine of the embedded API server (``validation.schemas`` there). A field that is null is
a field that is left out. A field that the schema does not know is an error where the schema is closed, as for kubectl.
In a pod template, which is open to fields of newer releases, it is only a warning: there nobody else would notice a
misspelt field. The rules in CEL are those of ``job.validation``, and the patterns of these CRDs need no engine of CEL:
Python's ``re`` evaluates them (``validation.patterns`` there).
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tf_operator.dialects.fields import kind_of
from tf_operator.job.training_job import FieldError
from tf_operator.local.apiserver.validation import schemas
from tf_operator.local.apiserver.validation.schemas import Violation, below, property_of

Schema = schemas.Schema
_TYPES: Final = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_MAP_KEY: Final = re.compile(r"\[([^\]\d][^\]]*)\]")


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
    properties = {name: property_of(schema, name) for name in value}
    return {
        name: item if (inner := properties[name]) is None else without_nulls(item, inner)
        for name, item in value.items()
        if item is not None or properties[name] is None
    }


def check(value: object, schema: Schema) -> Findings:
    """Everything that the schema says about a value without nulls; of each field only the first rule that it breaks."""
    findings = Findings()
    reported = set[str]()
    for violation in (*schemas.violations(value, schema), *schemas.repeated(value, schema)):
        path = _MAP_KEY.sub(r".\1", violation.path)
        if path not in reported:
            findings.errors.append(FieldError(path, _WORDS[violation.rule](violation)))
        reported.add(path)
    _check_names(value, schema, "", findings)
    return findings


def _check_names(value: object, schema: Schema, path: str, findings: Findings) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_names(item, schema.get("items", {}), f"{path}[{index}]", findings)
    for name, item in value.items() if isinstance(value, Mapping) else ():
        inner = property_of(schema, name)
        if inner is not None:
            _check_names(item, inner, below(path, name), findings)
        elif properties := schema.get("properties", {}):
            is_open = schema.get("x-kubernetes-preserve-unknown-fields", False)
            unknown = findings.warnings if is_open else findings.errors
            unknown.append(FieldError(below(path, name), f"unknown field{_hint(name, properties)}"))


def _hint(name: str, properties: Mapping[str, Schema]) -> str:
    """The field that was probably meant: of a similar name, or of this name one level below."""
    for parent, schema in properties.items():
        if name in schema.get("properties", {}):
            return f"; did you mean {parent}.{name}?"
    close = difflib.get_close_matches(name, properties, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _wrong_type(violation: Violation) -> str:
    if violation.value is None:
        return "must not be null"
    return f"must be {' or '.join(_TYPES[name] for name in violation.limit)}, is {kind_of(violation.value)}"


def _wrong_format(violation: Violation) -> str:
    bits = schemas.BITS.get(violation.limit)
    return (
        f"must fit into {bits} bits, is {violation.value}"
        if bits
        else f"must be a {violation.limit}, is {kind_of(violation.value)}"
    )


def _wrong_size(violation: Violation) -> str:
    size = len(violation.value) if isinstance(violation.value, Sequence | Mapping) else 0
    if violation.rule.startswith("max"):
        return f"is too long: {size}, and at most {violation.limit} are possible"
    return f"is too short: {size}, and at least {violation.limit} are needed"


def _repeated(violation: Violation) -> str:
    keys = violation.value if isinstance(violation.value, Mapping) else {}
    item = ", ".join(f"{name} {value!r}" for name, value in keys.items()) or repr(violation.value)
    return f"{item} is there twice"


def _bound_message(words: str) -> Callable[[Violation], str]:
    return lambda violation: f"must be {words} {violation.limit}, is {violation.value}"


_NO_FORM: Final = "has none of the forms that are possible here"
_WORDS: Final[Mapping[str, Callable[[Violation], str]]] = {
    "required": lambda _: "is required",
    "type": _wrong_type,
    "enum": lambda violation: f"must be one of {', '.join(map(repr, violation.limit))}, is {kind_of(violation.value)}",
    "pattern": lambda violation: f"does not have the right form, is {kind_of(violation.value)}",
    "format": _wrong_format,
    "minimum": _bound_message("at least"),
    "maximum": _bound_message("at most"),
    "exclusiveMinimum": _bound_message("more than"),
    "exclusiveMaximum": _bound_message("less than"),
    "multipleOf": _bound_message("a multiple of"),
    "duplicate": _repeated,
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties", "minLength", "minItems", "minProperties"), _wrong_size),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "not"), lambda _: _NO_FORM),
}
