"""Patches: JSON patch (RFC 6902), merge patch (RFC 7386), and the strategic merge patch of the built-in kinds.

Pure: the stored body stays as it is, and the result shares nothing with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.writes import strategic_merge
from tf_operator.meta import Body

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_MOST_OPERATIONS: Final = 10_000
_MOST_COPIED: Final = 3 * 1024 * 1024
"""Bytes that all copies of a JSON patch may have: each can double the document."""


def apply(content_type: str, body: Body, patch: bytes, kind: Kind) -> Json:
    """The body after the patch; raises ``ApiFailure``. Server-side apply is not a patch of one body: not here."""
    media_type = content_type.partition(";")[0].strip()
    if media_type == JSON_PATCH:
        return _object(_json_patch(_copy(body), _decoded(patch, list)))
    if media_type == MERGE_PATCH:
        if patch.strip() == b"null":
            raise _bad_request("Invalid JSON Patch")
        return _object(merge(_copy(body), _decoded(patch, dict)))
    if media_type == STRATEGIC_MERGE_PATCH and kind.merge_keys:
        return strategic_merge.apply(_copy(body), _decoded(patch, dict), kind.merge_keys)
    media_types = (JSON_PATCH, MERGE_PATCH, *((STRATEGIC_MERGE_PATCH,) if kind.merge_keys else ()), APPLY_PATCH)
    rule = f"the body of the request was in an unknown format - accepted media types include: {', '.join(media_types)}"
    raise ApiFailure(415, "UnsupportedMediaType", rule)


def merge(target: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    """RFC 7386: ``null`` removes a field, an object is merged, and anything else replaces. May change the target."""
    if not isinstance(patch, Mapping):
        return patch
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def _copy(body: Body) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.json.decode(msgspec.json.encode(body))


def _decoded(patch: bytes, expected_type: type) -> Any:  # noqa: ANN401 - any JSON
    try:
        value = msgspec.json.decode(patch)
    except (msgspec.DecodeError, RecursionError) as error:
        problem = "unexpected end of JSON input" if "truncated" in str(error) else error
        raise _bad_request(f"error decoding patch: {problem}") from None
    if not isinstance(value, expected_type):
        json_type = {list: "array", dict: "object", str: "string", bool: "bool"}.get(type(value), "number")
        go_type = "jsonpatch.Patch" if expected_type is list else "map[string]interface {}"
        raise _bad_request(f"error decoding patch: json: cannot unmarshal {json_type} into Go value of type {go_type}")
    return value


def _object(body: object) -> Json:
    if not isinstance(body, dict):
        raise _bad_request("the patch leaves no object")
    return body


def _bad_request(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def _too_much_copied(size: int) -> ApiFailure:
    problem = f"Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit"
    return ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: {problem} {_MOST_COPIED}")


class _FailedOperation(Exception):
    """An operation of a JSON patch that cannot be done."""


def _json_patch(document: Any, operations: Sequence[Any]) -> Any:  # noqa: ANN401 - any JSON
    if len(operations) > _MOST_OPERATIONS:
        rule = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise ApiFailure(413, "RequestEntityTooLarge", rule)
    size = 0
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise _bad_request("error decoding patch: an operation of a JSON patch is an object")
        try:
            if operation.get("op") == "copy":
                size += len(msgspec.json.encode(_find(document, _pointer(operation.get("from")))))
                if size > _MOST_COPIED:
                    raise _too_much_copied(size)
            document = _operate(document, operation)
        except _FailedOperation:
            rule = "the server rejected our request due to an error in our request"
            raise ApiFailure(422, "Invalid", rule, details={}) from None
    return document


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    path, name = _pointer(operation.get("path")), operation.get("op")
    if name == "remove":
        _take(document, path)
    elif name in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = _take(document, source) if name == "move" else _copy(_find(document, source))
        document = _add(document, path, value)
    elif name == "test":
        if not _is_same(_find(document, path, missing=None), operation.get("value")):
            raise _FailedOperation
    elif "value" not in operation:
        raise _FailedOperation
    elif name == "add":
        document = _add(document, path, operation["value"])
    elif name == "replace":
        document = _replace(document, path, operation["value"])
    else:
        raise _FailedOperation
    return document


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _FailedOperation
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


_RAISE: Final = object()


def _find(document: Any, path: Sequence[str], *, missing: object = _RAISE) -> Any:  # noqa: ANN401 - any JSON
    for position, part in enumerate(path):
        if isinstance(document, Mapping) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        elif missing is not _RAISE and position == len(path) - 1 and isinstance(document, Mapping):
            return missing
        else:
            raise _FailedOperation
    return document


def _index(part: str, largest: int) -> int:
    """A place in a list; negative ones count from the end, as the real server's library has them."""
    if not part.lstrip("-").isdecimal() or part.startswith("--"):
        raise _FailedOperation
    index = int(part)
    if not -largest - 1 <= index <= largest:
        raise _FailedOperation
    return index if index >= 0 else index + largest + 1


def _at_end(document: Any, path: Sequence[str]) -> tuple[Any, str]:  # noqa: ANN401 - any JSON
    if not path:
        raise _FailedOperation
    return _find(document, path[:-1]), path[-1]


def _take(document: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON
    holder, part = _at_end(document, path)
    if isinstance(holder, list):
        return holder.pop(_index(part, len(holder) - 1))
    if not isinstance(holder, dict) or part not in holder:
        raise _FailedOperation
    return holder.pop(part)


def _add(document: Any, path: Sequence[str], value: object) -> Any:  # noqa: ANN401 - any JSON
    def insert(holder: list[Any], part: str) -> None:
        holder.insert(len(holder) if part == "-" else _index(part, len(holder)), value)

    return _put(document, path, value, into_list=insert)


def _replace(document: Any, path: Sequence[str], value: object) -> Any:  # noqa: ANN401 - any JSON
    """As the real server's library does it, a field that is missing is set."""
    if not path and isinstance(value, dict | list):
        return value

    def exchange(holder: list[Any], part: str) -> None:
        holder[_index(part, len(holder) - 1)] = value

    return _put(document, path, value, into_list=exchange)


def _put(
    document: Any,  # noqa: ANN401 - any JSON
    path: Sequence[str],
    value: object,
    *,
    into_list: Callable[[list[Any], str], None],
) -> Any:  # noqa: ANN401 - any JSON
    holder, part = _at_end(document, path)
    if isinstance(holder, list):
        into_list(holder, part)
    elif isinstance(holder, dict):
        holder[part] = value
    else:
        raise _FailedOperation
    return document


def _is_same(value: object, other: object) -> bool:
    """As JSON: ``1`` is not ``true``."""
    return value == other and bool(
        msgspec.json.encode(value, order="sorted") == msgspec.json.encode(other, order="sorted")
    )
