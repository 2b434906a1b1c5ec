"""Bodies in Kubernetes' protobuf, as ``kubectl create configmap`` and its like send them, into JSON.

Only what kubectl's own commands make is known (``_MESSAGES``); anything else is refused with what to do. Answers are
always JSON: every client that sends protobuf reads it, too.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.messages import ApiFailure

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# By message, number and name of each field, and what it is: "text", "bytes", "int", "bool", another message, "[...]"
# for a list of it, "{...}" for a map from text to it. Go writes fields that are empty, and JSON has none of them: only
# with "=" in front an empty value is one.
_MESSAGES: Final[Mapping[str, Mapping[int, tuple[str, str]]]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "raw")},
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        11: ("labels", "{text}"),
        12: ("annotations", "{text}"),
        14: ("finalizers", "[text]"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{text}"),
        3: ("binaryData", "{bytes}"),
        4: ("immutable", "=bool"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{bytes}"),
        3: ("type", "text"),
        4: ("stringData", "{text}"),
        5: ("immutable", "=bool"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta"), 4: ("automountServiceAccountToken", "=bool")},
    "ResourceQuota": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ResourceQuotaSpec")},
    "ResourceQuotaSpec": {1: ("hard", "{Quantity}"), 2: ("scopes", "[text]")},
    "Quantity": {1: ("string", "text")},
    "PriorityClass": {
        1: ("metadata", "ObjectMeta"),
        2: ("value", "=int"),
        3: ("globalDefault", "bool"),
        4: ("description", "text"),
        5: ("preemptionPolicy", "text"),
    },
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "AccessReviewSpec")},
    "AccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "PathAttributes"),
    },
    "ResourceAttributes": {
        1: ("namespace", "text"),
        2: ("verb", "text"),
        3: ("group", "text"),
        4: ("version", "text"),
        5: ("resource", "text"),
        6: ("subresource", "text"),
        7: ("name", "text"),
    },
    "PathAttributes": {1: ("path", "text"), 2: ("verb", "text")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "=int"),
        2: ("preconditions", "Preconditions"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", "[text]"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
}
_OBJECTS: Final = (
    "Namespace",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "ResourceQuota",
    "PriorityClass",
    "SelfSubjectReview",
    "SelfSubjectAccessReview",
    "DeleteOptions",
)


def to_json(body: bytes) -> bytes:
    """The same object as JSON; ``ApiFailure`` if it is none that is known here."""
    if not body.startswith(_MAGIC):
        raise failures.bad_request("the body is no protobuf of Kubernetes")
    try:
        envelope = _message(body[len(_MAGIC) :], "Unknown")
        header = envelope.get("typeMeta", {})
        kind = header.get("kind", "")
        if kind not in _OBJECTS:
            message = (
                f"a {kind or 'body'} in protobuf is not read here; JSON is: add --dry-run=client -o yaml to this"
                " command of kubectl, and pipe it into: kubectl create -f -"
            )
            raise ApiFailure(415, "UnsupportedMediaType", message)
        return msgspec.json.encode(header | _message(envelope.get("raw", b""), kind))
    except (ValueError, IndexError) as error:  # a UnicodeDecodeError is a ValueError
        raise failures.bad_request("the body is damaged protobuf") from error


def _message(data: bytes, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    known = _MESSAGES[name]
    for number, raw in _fields(data):
        if number not in known:
            continue
        field, kind = known[number]
        if kind.startswith("["):
            found.setdefault(field, []).append(_value(raw, kind[1:-1]))
        elif kind.startswith("{"):
            entry = dict(_fields(raw if isinstance(raw, bytes) else b""))
            key = _value(entry.get(1, b""), "text")
            found.setdefault(field, {})[key] = _value(entry.get(2, b""), kind[1:-1])
        elif (value := _value(raw, kind.removeprefix("="))) or kind.startswith("="):
            found[field] = value
    return found


def _value(raw: int | bytes, kind: str) -> Any:  # noqa: ANN401 (as JSON has it)
    if kind in ("int", "bool"):
        if not isinstance(raw, int):
            raise ValueError("a number was expected")
        return bool(raw) if kind == "bool" else raw - (1 << 64 if raw >> 63 else 0)
    if not isinstance(raw, bytes):
        raise ValueError("bytes were expected")  # noqa: TRY004 (of the sender's data, not of a caller's)
    match kind:
        case "text":
            return raw.decode()
        case "raw":
            return raw
        case "bytes":
            return base64.b64encode(raw).decode()
        case "Quantity":
            return _message(raw, kind).get("string", "")
    return _message(raw, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; ``ValueError`` or ``IndexError`` when the data end in the middle."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(tag & 7)
        if tag & 7 == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError("the data end in the middle")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError("a number is too long")
