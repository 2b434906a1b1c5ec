"""How the real server words what breaks a schema."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tf_operator.local.apiserver import causes
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.schemas import Violation, type_name

_FORMATS: Final = {"number": "float64", "integer": "int64"}
_TYPE_REASON: Final = "FieldValueTypeInvalid"


def cause(violation: Violation) -> FieldCause:
    """The violation as a cause of a Status."""
    path, rule, value = violation.path, violation.rule, violation.value
    if rule in _SPECIAL:
        return _SPECIAL[rule](violation)
    if rule in _COMBINED:
        return causes.invalid("<nil>", "", f'"{path}" {_COMBINED[rule]}{_alternatives(violation)}')
    shown = _size(value) if rule in ("minItems", "minProperties") else value
    return causes.invalid(path, shown, f"{path} in body {_RULES[rule].format(violation.limit)}")


def _alternatives(found: Violation) -> str:
    if found.rule != "oneOf":
        return ""
    return f". Found {found.limit} valid alternatives" if found.limit else ". Found none valid"


def _size(value: object) -> int:
    return len(value) if isinstance(value, Sequence | Mapping) else 0


def _wrong_type(found: Violation) -> FieldCause:
    name, wanted = type_name(found.value), ",".join(found.limit)
    if found.format:
        name, wanted = _FORMATS.get(name, ""), found.format
    text = f'{found.path} in body must be of type {wanted}: "{name}"'
    return causes.invalid(found.path, name, text, reason=_TYPE_REASON)


def _wrong_format(found: Violation) -> FieldCause:
    if not isinstance(found.value, str):  # the real server does not say where, but in the text
        wanted = f"with format {found.limit}" if found.limit else "(default format)"
        text = f"Checked value must be of type integer {wanted} in {found.path}"
        return causes.invalid("<nil>", "", text)
    text = f"{found.path} in body must be of type {found.limit}: {causes.shown(found.value)}"
    return causes.invalid(found.path, found.value, text, reason=_TYPE_REASON)


_SPECIAL: Final[Mapping[str, Callable[[Violation], FieldCause]]] = {
    "required": lambda found: causes.required(found.path),
    "enum": lambda found: causes.not_supported(found.path, found.value, found.limit),
    "duplicate": lambda found: causes.duplicate(found.path, found.value),
    "maxLength": lambda found: causes.too_long(found.path, found.limit),
    "maxItems": lambda found: causes.too_many(found.path, _size(found.value), found.limit),
    "maxProperties": lambda found: causes.too_many(found.path, _size(found.value), found.limit),
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
