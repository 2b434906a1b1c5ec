"""What is wrong with the numbers that the ``scale`` subresource of a custom resource reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tf_operator.local.apiserver.kinds import ScalePaths
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes
from tf_operator.local.apiserver.validation.schemas import is_integer
from tf_operator.meta import Body

_MOST: Final = 2**31 - 1
_GO_TYPES: Final = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}", dict: "map"}


def check(body: Body, paths: ScalePaths, *, is_status: bool = False) -> Iterator[FieldCause]:
    """The errors at both paths; only at that of the status when nothing else is written."""
    for path in (paths.status_replicas,) if is_status else (paths.spec_replicas, paths.status_replicas):
        yield from _check_number(body, path)


def _check_number(body: Any, path: Sequence[str]) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    field, value = "." + ".".join(path), body
    for name in path:
        if not isinstance(value, Mapping):
            yield _no_access(field, value, expected="map[string]interface{}")
            return
        if name not in value or value[name] is None:
            return
        value = value[name]
    if not is_integer(value):
        yield _no_access(field, value, expected="int64")
    elif value < 0:
        yield causes.invalid(field, value, "should be a non-negative integer")
    elif value > _MOST:
        yield causes.invalid(field, value, f"should be less than or equal to {_MOST}")


def _no_access(field: str, value: object, *, expected: str) -> FieldCause:
    value_text = "[]" if value == [] else value
    go_type = _GO_TYPES.get(type(value), "object")
    text = f"{field} accessor error: {value_text} is of the type {go_type}, expected {expected}"
    return causes.invalid(field, 0, text)
