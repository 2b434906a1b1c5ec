"""Replies as values: how what comes back from the apiserver is read. No I/O.

Replies are read in two steps. ``Page`` and ``WatchLine`` decode the frame and leave each object as raw bytes, so
that one object that cannot be decoded (nested deeper than any decoder goes, a wrong type) costs only itself:
see ``raw_json`` for frames that a decoder refuses because of what is inside one of their objects. A reader requires
what every apiserver sends and raises ``Garbled`` without it: a load balancer's ``{}`` must not pass for an
empty list, which would mean that every object has been deleted.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tf_operator.machinery.transport import errors, raw_json
from tf_operator.machinery.transport.errors import Garbled, Unreadable
from tf_operator.meta import Body, ObjectKey

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


LONGEST_LINE = 16 * 1024 * 1024
"""An object is at most about 1.5 MiB in etcd, and its JSON up to six times that: Go writes ``<``, ``>`` and ``&``
in six bytes each. A limit below that would let one tenant's pod end the watch of everybody. So much is held by each
watch at most, and only while such a line comes."""


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """As much of ``metadata`` as machinery acts on. Projections extend it with what they need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class Page(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    resource_version: str
    token: str


class WatchLine(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object's raw bytes."""

    type: str
    object: msgspec.Raw


class Bookmark(msgspec.Struct, frozen=True):
    """The object of a BOOKMARK line: only its metadata has a meaning."""

    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        """The version that the watch has reached, and the mark at the end of the initial events."""

        resource_version: str = ""
        annotations: dict[str, str] | None = None

    metadata: Meta

    @property
    def ends_initial_events(self) -> bool:
        """Whether everything that existed at the start of a watch-list has now been sent."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


class _Envelope(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_List)


_LIST_META = msgspec.json.Decoder(_ListMeta)


_LINE = msgspec.json.Decoder(WatchLine)


_BOOKMARK = msgspec.json.Decoder(Bookmark)


_STATUS = msgspec.json.Decoder(errors.Status)


_ENVELOPE = msgspec.json.Decoder(_Envelope)


_OBJECT_META = msgspec.json.Decoder(ObjectMeta)


_OBJECT_NAMES = ObjectMeta.__struct_encode_fields__


_OBJECT = msgspec.json.Decoder(dict[str, Any])


_TEXT = msgspec.json.Decoder(str)


_FRAME = re.compile(rb'\{"type":(?P<type>"[A-Z]+"),"object":(?P<object>\{.*\})\}\s*', re.DOTALL)


# Both are what a decoder says to bytes that are no JSON, or not the JSON that it is for.
_NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError)


def read_object(body: bytes) -> Body:
    """Read one object; ``Garbled`` when it is none, ``Unreadable`` when it is nested too deep."""
    return _read(_OBJECT, body)


def read_identity(body: bytes) -> ObjectMeta:
    """Read which object it is, and its version; empty when it does not say, as a Status does not."""
    return _read(_ENVELOPE, body).metadata


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except RecursionError as error:
        raise Unreadable("the object is nested deeper than any decoder goes") from error
    except _NOT_DECODABLE as error:
        raise Garbled(f"the reply is not a JSON object: {errors.excerpt(body)}") from error


def read_page(body: bytes) -> Page:
    """Read a list; ``Garbled`` when it is none."""
    try:
        try:
            frame = _LIST.decode(body)
            page = Page(frame.items or [], frame.metadata.resource_version, frame.metadata.token)
        except RecursionError:
            members = raw_json.split_object(body)
            meta = _LIST_META.decode(members["metadata"])
            page = Page(
                [msgspec.Raw(item) for item in raw_json.split_array(members["items"])],
                meta.resource_version,
                meta.token,
            )
    except (*_NOT_DECODABLE, RecursionError, KeyError) as error:
        raise Garbled(f"the reply is not a list ({error}): {errors.excerpt(body)}") from error
    if not page.resource_version:
        raise Garbled(f"the reply is a list of no version: {errors.excerpt(body)}")
    return page


def read_line(line: bytes) -> WatchLine:
    """Read a line of a watch; ``Garbled`` when it is none."""
    try:
        try:
            return _LINE.decode(line)
        except RecursionError:
            if frame := _FRAME.fullmatch(line):
                # As every apiserver writes it, so nothing has to be counted.
                return WatchLine(_TEXT.decode(frame["type"]), msgspec.Raw(frame["object"]))
            members = raw_json.split_object(line)
            return WatchLine(_TEXT.decode(members["type"]), msgspec.Raw(members["object"]))
    except (*_NOT_DECODABLE, KeyError) as error:
        raise Garbled(f"not a line of a watch ({error}): {errors.excerpt(line)}") from error


def read_bookmark(raw: msgspec.Raw) -> Bookmark:
    """Read the object of a BOOKMARK line; ``Garbled`` when it is none."""
    try:
        return _BOOKMARK.decode(raw)
    except (*_NOT_DECODABLE, RecursionError) as error:
        raise Garbled(f"not a bookmark: {error}") from error


def read_error(raw: msgspec.Raw) -> errors.Refused:
    """The error that an ERROR line carries; one that is no Status is a 500 that quotes it."""
    try:
        return errors.from_status(_STATUS.decode(raw))
    except (*_NOT_DECODABLE, RecursionError):
        return errors.refused(500, bytes(raw))


def read_metadata(raw: msgspec.Raw) -> ObjectMeta:
    """The metadata of an object of which nothing else may be readable; empty when even that is not."""
    try:
        try:
            return _ENVELOPE.decode(raw).metadata
        except RecursionError:
            return split_metadata(raw_json.split_object(bytes(raw)))
    except (*_NOT_DECODABLE, RecursionError):
        return ObjectMeta()


def split_metadata(members: Mapping[str, bytes]) -> ObjectMeta:
    """The metadata among the members of an object that was split; empty when it is not readable."""
    try:
        # Name by name: the field manager's record of a deep object is as deep, and stands in its metadata.
        metadata = raw_json.split_object(members["metadata"])
        names = (b'"%s":%s' % (name.encode(), metadata[name]) for name in _OBJECT_NAMES if name in metadata)
        return _OBJECT_META.decode(b"{%s}" % b",".join(names))
    except (*_NOT_DECODABLE, RecursionError, KeyError):
        return ObjectMeta()


class LineSplitter:
    """Cuts chunks as they arrive into lines. A line may span chunks; it may not be longer than the limit."""

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes. What follows the last newline waits for the next chunk."""
        lines, start = [], 0
        while (end := chunk.find(b"\n", start)) >= 0:  # which takes less than half of what split does
            lines.append(chunk[start:end])
            start = end + 1
        if lines and self._partial:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += chunk[start:]
        if max(map(len, lines), default=0) > self._limit or len(self._partial) > self._limit:
            raise Garbled(f"a line of more than {self._limit} bytes")
        return [line for line in lines if line and not line.isspace()]
