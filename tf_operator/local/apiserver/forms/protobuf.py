"""Objects in Kubernetes' protobuf, for clients that prefer it to JSON, as those written in Go do.

The state machine speaks JSON only; bodies and answers are translated here. An object travels as four bytes and a
message ``Unknown`` that says its kind; a watch is a stream of messages ``WatchEvent``, each with its length in front.
Only built-in kinds have messages: custom resources are JSON, as in a cluster.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.meta import Body, text_of

_MAGIC: Final = b"k8s\x00"
_UNKNOWN: Final = "runtime.Unknown"
_NOT_INSTALLED: Final = (
    "protobuf needs a package that is not installed: pip install 'tf-operator[local]'; without it, send JSON (in a "
    "program in Go: ContentType of rest.Config)"
)


@cache
def _loaded() -> ModuleType | None:
    """The messages; ``None`` if the package that they need is not installed."""
    try:
        from tf_operator.local.apiserver.forms import protobuf_messages  # noqa: PLC0415 (takes time, and few speak it)
    except ModuleNotFoundError:
        return None
    return protobuf_messages


def _messages() -> Any:  # noqa: ANN401 - a module
    if (module := _loaded()) is None:
        raise ApiFailure(415, "UnsupportedMediaType", _NOT_INSTALLED)
    return module


def _name_of(api_version: str, kind: str) -> str:
    name: str = _messages().protobuf_descriptors.name_of(api_version, kind)
    return name


def _version() -> str:
    version: str = _messages().protobuf_descriptors.version()
    return version


def is_spoken() -> bool:
    return _loaded() is not None


def has_message(body: Body) -> bool:
    return is_spoken() and bool(_name_of(text_of(body, "apiVersion"), text_of(body, "kind")))


def to_json(body: bytes) -> bytes:
    """The JSON of an object that was sent; ``ApiFailure`` if it is damaged, or has what is not known here."""
    messages = _messages()
    if not body.startswith(_MAGIC):
        prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise failures.bad_request(prefix)
    try:
        envelope = messages.parse(_UNKNOWN, body[len(_MAGIC) :])
        api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        messages.check_known(envelope, kind)
        if envelope.contentEncoding or envelope.contentType:
            raise ApiFailure(415, "UnsupportedMediaType", "what protobuf contains cannot be in another form again")
        name = _name_of(api_version, kind)
        if not name:
            message = f"a {kind or 'body'} of {api_version or 'no version'} has no protobuf here; send JSON"
            raise ApiFailure(415, "UnsupportedMediaType", message)
        frame = {"kind": kind, "apiVersion": api_version}
        return msgspec.json.encode(frame | messages.to_json(name, envelope.raw, kind))
    except messages.UnknownFieldError as error:
        message = (
            f"{error} is not a field that Kubernetes {_version()} has in protobuf; send JSON, where unknown "
            "fields are dropped with a warning"
        )
        raise failures.bad_request(message) from error
    except (ValueError, OverflowError) as error:  # a UnicodeDecodeError is a ValueError
        raise failures.bad_request("the body is damaged protobuf") from error


def message(body: Body) -> bytes:
    """The message of an object, without what says its kind."""
    messages, kind = _messages(), text_of(body, "kind")
    rest = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
    try:
        raw: bytes = messages.to_bytes(_name_of(text_of(body, "apiVersion"), kind), rest, kind)
    except (messages.UnknownFieldError, TypeError, ValueError, AttributeError) as error:
        reason = f"{kind} cannot be written in the protobuf of Kubernetes {_version()}: {error}; accept JSON"
        raise ApiFailure(406, "NotAcceptable", reason) from error
    return raw


def enveloped(body: Body) -> bytes:
    return envelope(text_of(body, "apiVersion"), text_of(body, "kind"), message(body))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = {"typeMeta": {"apiVersion": api_version, "kind": kind}}
    wrapper = _messages().filled(_UNKNOWN, type_meta)
    wrapper.raw = raw
    return _MAGIC + bytes(wrapper.SerializeToString())


def list_of(api_version: str, kind: str, meta: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
    """A whole list from the messages of its items: each list has them as its second field, behind its metadata."""
    return envelope(api_version, kind, _messages().list_bytes(meta, items))


def event(kind: str, whole: bytes) -> bytes:
    """The event of a watch, as it is sent: with its length."""
    watch_event = _messages().filled("apis.meta.v1.WatchEvent", {"type": kind})
    watch_event.object.raw = whole
    data = bytes(watch_event.SerializeToString())
    return struct.pack(">I", len(data)) + data
