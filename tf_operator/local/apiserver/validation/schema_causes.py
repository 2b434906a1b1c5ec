"""How the real server words what breaks a schema."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes
from tf_operator.local.apiserver.validation.schemas import Violation, type_name

_FORMATS: Final = {"number": "float64", "integer": "int64"}
_TYPE_REASON: Final = "FieldValueTypeInvalid"


def cause(violation: Violation) -> FieldCause:
    path, rule, value = violation.path, violation.rule, violation.value
    if rule in _SPECIAL:
        return _SPECIAL[rule](violation)
    if rule in _COMBINED:
        return causes.invalid("<nil>", "", f'"{path}" {_COMBINED[rule]}{_alternatives(violation)}')
    measure = _size(value) if rule in ("minItems", "minProperties") else value
    return causes.invalid(path, measure, f"{path} in body {_RULES[rule].format(violation.limit)}")


def _alternatives(violation: Violation) -> str:
    if violation.rule != "oneOf":
        return ""
    return f". Found {violation.limit} valid alternatives" if violation.limit else ". Found none valid"


def _size(value: object) -> int:
    return len(value) if isinstance(value, Sequence | Mapping) else 0


def _wrong_type(violation: Violation) -> FieldCause:
    name, expected = type_name(violation.value), ",".join(violation.limit)
    if violation.format:
        name, expected = _FORMATS.get(name, ""), violation.format
    text = f'{violation.path} in body must be of type {expected}: "{name}"'
    return causes.invalid(violation.path, name, text, reason=_TYPE_REASON)


def _wrong_format(violation: Violation) -> FieldCause:
    if not isinstance(violation.value, str):  # the real server does not say where, but in the text
        expected = f"with format {violation.limit}" if violation.limit else "(default format)"
        text = f"Checked value must be of type integer {expected} in {violation.path}"
        return causes.invalid("<nil>", "", text)
    text = f"{violation.path} in body must be of type {violation.limit}: {causes.quoted(violation.value)}"
    return causes.invalid(violation.path, violation.value, text, reason=_TYPE_REASON)


_SPECIAL: Final[Mapping[str, Callable[[Violation], FieldCause]]] = {
    "required": lambda violation: causes.required(violation.path),
    "enum": lambda violation: causes.not_supported(violation.path, violation.value, violation.limit),
    "duplicate": lambda violation: causes.duplicate(violation.path, violation.value),
    "maxLength": lambda violation: causes.too_long(violation.path, violation.limit),
    "maxItems": lambda violation: causes.too_many(violation.path, _size(violation.value), violation.limit),
    "maxProperties": lambda violation: causes.too_many(violation.path, _size(violation.value), violation.limit),
    "type": _wrong_type,
    "format": _wrong_format,
}
_COMBINED: Final = {
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf)",
    "allOf": "must validate all the schemas (allOf)",
    "not": "must not validate the schema (not)",
}
_RULES: Final = {
    "minLength": "should be at least {} chars long",
    "pattern": "should match '{}'",
    "minimum": "should be greater than or equal to {}",
    "exclusiveMinimum": "should be greater than {}",
    "maximum": "should be less than or equal to {}",
    "exclusiveMaximum": "should be less than {}",
    "multipleOf": "should be a multiple of {}",
    "minItems": "should have at least {} items",
    "minProperties": "should have at least {} properties",
}
