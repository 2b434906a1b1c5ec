"""Requests and replies as values: what goes onto the wire, and how what comes back is read. No I/O.

A request is built by a pure function and sent by ``client``; so the whole grammar of the Kubernetes API that
this project uses is on this page, and is tested without a server.

Replies are read in two steps. ``Page`` and ``Line`` decode the frame and leave each object as raw bytes, so
that one object that cannot be decoded (nested deeper than any decoder goes, a wrong type) costs only itself:
see ``carve`` for frames that a decoder refuses because of what is inside one of their objects. A reader demands
what every apiserver sends and raises ``Garbled`` without it: a load balancer's ``{}`` must not pass for an
empty list, which would mean that every object has been deleted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from tf_operator.machinery import carve, errors
from tf_operator.machinery.errors import Garbled, Status, Unreadable
from tf_operator.meta import Body, ObjectKey

MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
LONGEST_LINE = 16 * 1024 * 1024
"""An object is at most about 1.5 MiB in etcd, and its JSON up to six times that: Go writes ``<``, ``>`` and ``&``
in six bytes each. A limit below that would let one tenant's pod end the watch of everybody. So much is held by each
watch at most, and only while such a line comes."""

# Kubernetes' own rule for what may stand in a path. Quoting does not help: the apiserver unquotes before it splits.
_IMPOSSIBLE_NAME = re.compile(r"\.{0,2}|.*[/%].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object, by the names that the API knows it by."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in ``apiVersion``: the core group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of the collection, of an object or of its subresource, as it goes onto the wire."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace and self.is_namespaced:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        parts += [_segment(part) for part in (name, subresource) if part]
        return "/".join(parts)

    def path_of(self, key: ObjectKey, subresource: str = "") -> str:
        """The path of one object, and never of a collection, whatever the key is.

        Names come from owner references and command lines, too. One that no object can have is ``NotFound``
        right here: an empty one would turn the deletion of an object into that of all.
        """
        if self.is_namespaced:
            _segment(key.namespace)
        _segment(key.name)
        return self.path(key.namespace, key.name, subresource)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource: one namespace or all, and by which selectors."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        return _present(labelSelector=self.label_selector, fieldSelector=self.field_selector)


EVERYWHERE = Scope()


@dataclass(frozen=True, slots=True)
class Request:
    """One call: ``verb`` as RBAC and metrics name it, and what HTTP needs. ``repr`` shows no body: it has secrets."""

    verb: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = JSON


def get(resource: Resource, key: ObjectKey) -> Request:
    """Read one object."""
    return Request("get", "GET", resource.path_of(key))


def list_page(
    resource: Resource, scope: Scope, *, limit: int, token: str = "", resource_version: str | None = None
) -> Request:
    """One page. Without a version and a token the answer is consistent: as new as the request itself."""
    query = scope.query() | {"limit": str(limit)} | _present(**{"continue": token})
    if resource_version is not None:
        query["resourceVersion"] = resource_version
    return Request("list", "GET", resource.path(scope.namespace), query)


def watch(resource: Resource, scope: Scope, *, resource_version: str, timeout_seconds: int) -> Request:
    """Every change after ``resource_version``, and bookmarks."""
    query = scope.query() | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_seconds),
    }
    return Request("watch", "GET", resource.path(scope.namespace), query)


def watch_list(resource: Resource, scope: Scope, *, timeout_seconds: int) -> Request:
    """The whole picture as a stream of ADDED, a marked bookmark, then every change: no page is ever held."""
    query = scope.query() | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": str(timeout_seconds),
    }
    return Request("watch", "GET", resource.path(scope.namespace), query)


def create(resource: Resource, namespace: str, body: Mapping[str, Any]) -> Request:
    """Create one object. The body names its kind, which a list item of the apiserver does not."""
    framed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    return Request("create", "POST", resource.path(namespace), body=msgspec.json.encode(framed))


def merge_patch(resource: Resource, key: ObjectKey, body: Mapping[str, Any], *, subresource: str = "") -> Request:
    """Change the fields in ``body``. A ``metadata.resourceVersion`` in it makes a stale patch a Conflict."""
    path = resource.path_of(key, subresource)
    return Request("patch", "PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH)


def update(resource: Resource, key: ObjectKey, body: Mapping[str, Any]) -> Request:
    """Replace the object; the ``metadata.resourceVersion`` in the body makes a stale update a Conflict."""
    framed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    path = resource.path_of(key)
    return Request("update", "PUT", path, body=msgspec.json.encode(framed))


def delete(
    resource: Resource,
    key: ObjectKey,
    *,
    uid: str,
    version: str = "",
    propagation: str = "",
    grace_seconds: int | None = None,
) -> Request:
    """Delete this object and never its successor of the same name: the UID is a precondition; a version may be one."""
    conditions = {"uid": uid} | _present(resourceVersion=version)
    options: dict[str, Any] = {"preconditions": conditions} | _present(propagationPolicy=propagation)
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return Request("delete", "DELETE", resource.path_of(key), body=msgspec.json.encode(options))


def delete_all(resource: Resource, scope: Scope) -> Request:
    """Delete whatever a label selector selects in one namespace. Without either it would be everything: refused."""
    if not (scope.namespace and scope.label_selector):
        raise ValueError("a collection is deleted by namespace and label selector, or not at all")
    return Request("deletecollection", "DELETE", resource.path(scope.namespace), scope.query())


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """As much of ``metadata`` as machinery acts on. Projections extend it with what they need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        """Where the object lives."""
        return ObjectKey(self.namespace, self.name)


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    items: list[msgspec.Raw]
    resource_version: str
    token: str


class Line(msgspec.Struct, frozen=True):
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
    metadata: ObjectMeta


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_List)
_LIST_META = msgspec.json.Decoder(_ListMeta)
_LINE = msgspec.json.Decoder(Line)
_BOOKMARK = msgspec.json.Decoder(Bookmark)
_STATUS = msgspec.json.Decoder(errors.Status)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_OBJECT_META = msgspec.json.Decoder(ObjectMeta)
_OBJECT_NAMES = ObjectMeta.__struct_encode_fields__
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_TEXT = msgspec.json.Decoder(str)
# Both are what a decoder says to bytes that are no JSON, or not the JSON that it is for.
_NOT_DECODABLE = (msgspec.DecodeError, UnicodeDecodeError)


def read_object(body: bytes) -> Body:
    """Read one object; ``Garbled`` when it is none, ``Unreadable`` when it is nested too deep."""
    try:
        return _OBJECT.decode(body)
    except RecursionError as error:
        raise Unreadable("the object is nested deeper than any decoder goes") from error
    except _NOT_DECODABLE as error:
        raise Garbled(f"the reply is no JSON object: {errors.excerpt(body)}") from error


def read_page(body: bytes) -> Page:
    """Read a list; ``Garbled`` when it is none."""
    try:
        try:
            frame = _LIST.decode(body)
            page = Page(frame.items or [], frame.metadata.resource_version, frame.metadata.token)
        except RecursionError:
            members = carve.members(body)
            meta = _LIST_META.decode(members["metadata"])
            page = Page(
                [msgspec.Raw(item) for item in carve.elements(members["items"])], meta.resource_version, meta.token
            )
    except (*_NOT_DECODABLE, RecursionError, KeyError) as error:
        raise Garbled(f"the reply is no list ({error}): {errors.excerpt(body)}") from error
    if not page.resource_version:
        raise Garbled(f"the reply is a list of no version: {errors.excerpt(body)}")
    return page


def read_line(line: bytes) -> Line:
    """Read a line of a watch; ``Garbled`` when it is none."""
    try:
        try:
            return _LINE.decode(line)
        except RecursionError:
            members = carve.members(line)
            return Line(_TEXT.decode(members["type"]), msgspec.Raw(members["object"]))
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
            # Name by name: the field manager's record of a deep object is as deep, and stands in its metadata.
            found = carve.members(carve.members(bytes(raw))["metadata"])
            names = (b'"%s":%s' % (name.encode(), found[name]) for name in _OBJECT_NAMES if name in found)
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
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += rest
        if len(self._partial) > self._limit or any(len(line) > self._limit for line in lines):
            raise Garbled(f"a line of more than {self._limit} bytes")
        return [line for line in lines if line.strip()]


def _present(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _segment(name: str) -> str:
    """A name as a part of a path; ``NotFound`` for one that no object can have."""
    if _IMPOSSIBLE_NAME.fullmatch(name):
        raise errors.NotFound(404, Status(reason="NotFound", message=f"nothing can be called {name[:80]!r}"))
    return quote(name, safe="")
