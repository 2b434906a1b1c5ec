"""What can be wrong with a field, worded as the real server words it."""

from collections.abc import Iterable
from typing import Final

import msgspec

from tf_operator.local.apiserver.messages import FieldCause

NO_VALUE: Final = object()
"""For ``invalid``: the message does not show the value."""


def quoted(value: object) -> str:
    """A value in a message: as JSON."""
    return msgspec.json.encode(value).decode()


def _cause(field: str, reason: str, head: str, detail: str) -> FieldCause:
    return FieldCause(field, reason, f"{head}: {detail}" if detail else head)


def required(field: str, detail: str = "") -> FieldCause:
    return _cause(field, "FieldValueRequired", "Required value", detail)


def invalid(field: str, value: object, detail: str, *, reason: str = "FieldValueInvalid") -> FieldCause:
    head = "Invalid value" if value is NO_VALUE else f"Invalid value: {quoted(value)}"
    return _cause(field, reason, head, detail)


def not_supported(field: str, value: object, supported: Iterable[object]) -> FieldCause:
    values = ", ".join(quoted(choice) for choice in supported)
    detail = f"supported values: {values}"
    return _cause(field, "FieldValueNotSupported", f"Unsupported value: {quoted(value)}", detail)


def not_found(field: str, value: object) -> FieldCause:
    return _cause(field, "FieldValueNotFound", f"Not found: {quoted(value)}", "")


def duplicate(field: str, value: object) -> FieldCause:
    """Another item of the list has it, too."""
    return _cause(field, "FieldValueDuplicate", f"Duplicate value: {quoted(value)}", "")


def forbidden(field: str, detail: str) -> FieldCause:
    return _cause(field, "FieldValueForbidden", "Forbidden", detail)


def too_long(field: str, most: int, *, unit: str = "bytes") -> FieldCause:
    """A text with more than this many bytes."""
    return _cause(field, "FieldValueTooLong", "Too long", f"may not be more than {most} {unit}")


def too_many(field: str, count: int, most: int) -> FieldCause:
    """A list or map with more than this many items."""
    detail = f"must have at most {most} item{'s' * (most != 1)}"
    return _cause(field, "FieldValueTooMany", f"Too many: {count}", detail)
