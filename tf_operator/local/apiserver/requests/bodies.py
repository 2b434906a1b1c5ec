"""What is sent, as a body of the kind that the path names; what cannot be is refused in the words of kube-apiserver."""

from contextlib import suppress
from typing import Any

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.forms import protobuf
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import PROTOBUF, YAML, ApiFailure
from tf_operator.local.apiserver.registry import Registry
from tf_operator.machinery.transport.requests import JSON, Request
from tf_operator.meta import Body, metadata_of, text_of

ACCEPTED = (JSON, YAML, PROTOBUF)
_SHOWN = 30
_FRAME = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_NO_VERSION = "couldn't get version/kind; json parse error: "


class _Metadata(msgspec.Struct, rename="camel"):
    """The types of ``metadata``'s fields; a client's mistake ends here."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None


def media_type(request: Request) -> str:
    return request.content_type.partition(";")[0].strip() or JSON


def sent_object(request: Request, kind: Kind, *, needs_kind: bool = True) -> Json:
    body, media = request.body or b"", media_type(request)
    if media not in ACCEPTED or (media == PROTOBUF and kind.is_custom):
        raise failures.unsupported_media_type(ACCEPTED[:2] if media == PROTOBUF else ACCEPTED)
    return _decode(as_json(body, media), kind, needs_kind=needs_kind)


def as_json(body: bytes, media: str) -> bytes:
    check_size(body)
    if media == JSON:
        return body
    return protobuf.to_json(body) if media == PROTOBUF else _json_of(body)


def check_size(body: bytes) -> None:
    if len(body) > failures.LONGEST_BODY:
        raise failures.too_large()


def _json_of(text: bytes) -> bytes:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        msgspec.json.decode(text)
        return text  # as kubectl sends it, and a hundred times as fast
    import yaml  # noqa: PLC0415 (few clients send it, and none of those that start a job)

    from tf_operator.local.apiserver.forms import go_yaml  # noqa: PLC0415 (as above)

    try:
        document = go_yaml.load(text)
        _check_aliases(document)
        return msgspec.json.encode(document)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, TypeError, ValueError) as error:
        raise failures.bad_request(f"error converting YAML to JSON: {error}") from error


def _check_aliases(document: object) -> None:
    """``ValueError`` if the aliases of a short text stand for more than a long one may hold, or for themselves."""
    size, stack = 0, [document]
    while stack:
        value = stack.pop()
        size += 1 + (len(value) if isinstance(value, str) else 0)
        if size + len(stack) > failures.LONGEST_BODY:
            raise ValueError("document contains excessive aliasing")
        stack.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _decode(body: bytes, kind: Kind, *, needs_kind: bool) -> Json:
    excerpt = body[:_SHOWN].decode(errors="replace") if body[:1] == b"{" else body[:_SHOWN].hex()
    excerpt = (excerpt + " ..." if len(body) > _SHOWN else excerpt) or "<empty>"
    beginning = f"the object provided is unrecognized (must be of type {kind.resource.kind}): "
    problem = parse_problem(body)
    if problem:
        raise failures.bad_request(f"{beginning}{_NO_VERSION}{problem} ({excerpt})")
    payload: Json = msgspec.json.decode(body) or {}
    if needs_kind and kind.is_custom and not payload.get("kind"):
        whole = body.decode(errors="replace")
        raise failures.bad_request(f"{beginning}Object 'Kind' is missing in '{whole}' ({excerpt})")
    return payload


def parse_problem(body: bytes) -> str:
    """Why a body is no JSON object, as Go says it; empty if it is one (or ``null``)."""
    try:
        payload = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return "unexpected end of JSON input" if "truncated" in str(error) else str(error)
    if payload is None or isinstance(payload, dict):
        return ""
    type_name = {list: "array", str: "string", bool: "bool"}.get(type(payload), "number")
    return f"json: cannot unmarshal {type_name} into Go value of type {_FRAME}"


def options_problem(body: bytes) -> ApiFailure | None:
    problem = parse_problem(body)
    return failures.bad_request(f"{_NO_VERSION}{problem}") if problem else None


def framed(kind: Kind, payload: object, registry: Registry) -> Json:
    """A body with its kind, and with metadata of the right types; 400 if it is another kind."""
    resource = kind.resource
    if not isinstance(payload, dict):
        raise failures.bad_request(f"the object provided is no {resource.kind}")
    api_version = payload.get("apiVersion") or resource.api_version
    kind_name = payload.get("kind") or resource.kind
    if kind.is_custom and api_version == resource.api_version and kind_name != resource.kind:
        raise failures.other_kind(kind, text_of(metadata_of(payload), "name"), str(kind_name))
    if (api_version, kind_name) != (resource.api_version, resource.kind):
        raise failures.bad_request(_mismatch(kind, str(api_version), str(kind_name), registry=registry))
    metadata = {} if payload.get("metadata", ...) is ... else payload["metadata"]
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        problem = f"json: cannot unmarshal metadata: {error}"
        raise failures.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {problem}'
        ) from error
    for name in ("labels", "annotations"):
        if metadata.get(name):
            metadata = {**metadata, name: {key: value or "" for key, value in metadata[name].items()}}
    return {**payload, "kind": kind_name, "apiVersion": api_version, "metadata": metadata}


def check_name(body: Body, name: str) -> None:
    own_name = text_of(metadata_of(body), "name")
    if own_name and own_name != name:
        raise failures.bad_request(f"the name of the object ({own_name}) does not match the name on the URL ({name})")


def is_of(kind: Kind, body: object) -> bool:
    resource = kind.resource
    identity = (body.get("apiVersion"), body.get("kind")) if isinstance(body, dict) else None
    return identity == (resource.api_version, resource.kind)


def _mismatch(kind: Kind, api_version: str, kind_name: str, *, registry: Registry) -> str:
    resource = kind.resource
    if kind.is_custom:
        served_version = resource.api_version
        return f"the API version in the data ({api_version}) does not match the expected API version ({served_version})"
    version = api_version.rpartition("/")[2]
    if registry.of_kind(api_version, kind_name) is None:
        problem = (
            f'no kind "{kind_name}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    else:
        group = resource.group.partition(".")[0] or "core"
        problem = f"converting ({version}.{kind_name}) to ({group}.{resource.kind}): unknown conversion"
    return f'{kind_name} in version "{version}" cannot be handled as a {resource.kind}: {problem}'
