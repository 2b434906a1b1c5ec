"""What is wrong with the numbers that the ``scale`` subresource of a custom resource reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tf_operator.local.apiserver import causes
from tf_operator.local.apiserver.kinds import ScalePaths
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.schemas import is_integer
from tf_operator.meta import Body

_MOST: Final = 2**31 - 1
_GO_TYPES: Final = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}", dict: "map"}


def check(body: Body, paths: ScalePaths, *, is_status: bool = False) -> Iterator[FieldCause]:
    """The errors at both paths; only at that of the status when nothing else is written."""
    for path in (paths.status_replicas,) if is_status else (paths.spec_replicas, paths.status_replicas):
        yield from _check_number(body, path)


def _check_number(body: Any, path: Sequence[str]) -> Iterator[FieldCause]:  # noqa: ANN401 - decoded JSON
    field, found = "." + ".".join(path), body
    for name in path:
        if not isinstance(found, Mapping):
            yield _no_access(field, found, wanted="map[string]interface{}")
            return
        if name not in found or found[name] is None:
            return
        found = found[name]
    if not is_integer(found):
        yield _no_access(field, found, wanted="int64")
    elif found < 0:
        yield causes.invalid(field, found, "should be a non-negative integer")
    elif found > _MOST:
        yield causes.invalid(field, found, f"should be less than or equal to {_MOST}")


def _no_access(field: str, found: object, *, wanted: str) -> FieldCause:
    shown = "[]" if found == [] else found
    text = f"{field} accessor error: {shown} is of the type {_GO_TYPES.get(type(found), 'object')}, expected {wanted}"
    return causes.invalid(field, 0, text)
