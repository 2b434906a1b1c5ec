"""How an answer shows objects: whole, as metadata only, or as a table, whichever the client accepts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.forms import media_types, protobuf
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import JSON, PROTOBUF, YAML, ApiFailure, Parts, Response
from tf_operator.local.apiserver.storage.store import Encoded, Stored
from tf_operator.meta import Body

MOST_AT_ONCE = 100
"""Objects of a long answer that are handled before others have their turn: some hundredths of a second."""
_STREAM = ";stream=watch"
_WHOLE, _METADATA, _METADATA_LIST, _TABLE = "", "PartialObjectMetadata", "PartialObjectMetadataList", "Table"
_FORMS = frozenset({_METADATA, _METADATA_LIST, _TABLE})


class View(msgspec.Struct, frozen=True):
    """One way to show the objects of a kind."""

    kind: Kind
    form: str = _WHOLE
    version: str = "v1"
    """Of ``meta.k8s.io``, for what is not whole."""
    include: str = "Metadata"
    """``includeObject`` of a table."""
    media: str = JSON
    """JSON or protobuf; what becomes of JSON in the end, YAML, is another's."""

    @property
    def stream_type(self) -> str:
        return f"{PROTOBUF}{_STREAM}" if self.media == PROTOBUF else JSON

    def event(self, kind: str, whole: bytes) -> bytes:
        if self.media == PROTOBUF:
            return protobuf.event(kind, whole)
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), whole)

    def whole(self, body: Body) -> bytes:
        """An object that is not stored, as it is: the end of a watch."""
        return protobuf.enveloped(body) if self.media == PROTOBUF else msgspec.json.encode(body)

    def one(self, entry: Stored, now: datetime, *, code: int = 200) -> Response:
        if self.form == _METADATA_LIST:
            raise self._not_acceptable("not a list", "")
        return Response(code, self.raw(entry, now), self.media)

    def raw(self, entry: Stored, now: datetime, *, has_columns: bool = True) -> bytes:
        """One object as JSON, for an answer or the event of a watch (where only the first table has columns)."""
        body, raw = self._encoded(entry)
        if self.form:
            return self.encode(body, now, has_columns=has_columns)
        if self.media == PROTOBUF:
            resource = self.kind.resource
            return protobuf.envelope(resource.api_version, resource.kind, self._message(entry, body))
        return raw

    def encode(self, body: Body, now: datetime, *, has_columns: bool) -> bytes:
        """A body that need not be stored, in the form of the view: a bookmark has the form of all events."""
        if self.form == _TABLE:
            body = {"spec": {}, "status": {}, **body}  # a bookmark has neither, and columns read them
            table = self._table([body], now, {"resourceVersion": body["metadata"].get("resourceVersion", "")})
            return msgspec.json.encode(table if has_columns else {**table, "columnDefinitions": None})
        return self.whole(self._metadata(body) if self.form else body)

    def many(self, objects: Sequence[Stored], meta: Mapping[str, Any], now: datetime) -> Parts:
        if self.form == _METADATA:
            raise self._not_acceptable("a list", "List")
        return (yield from (self._protobuf_list if self.media == PROTOBUF else self._json_list)(objects, meta, now))

    def _json_list(self, objects: Sequence[Stored], meta: Mapping[str, Any], now: datetime) -> Parts:
        entries: list[Encoded] = []
        table = self._table([], now, meta) if self.form == _TABLE else {}
        for start in range(0, len(objects), MOST_AT_ONCE):
            if start:
                yield
            some = [self._encoded(entry) for entry in objects[start : start + MOST_AT_ONCE]]
            if table:
                table["rows"] += self._table([body for body, _ in some], now, meta)["rows"]
            entries += some
        if table:
            return Response.of(table)
        if self.form == _METADATA_LIST:
            items = [msgspec.json.encode(self._metadata(body)) for body, _ in entries]
            answer = _list(_METADATA_LIST, f"meta.k8s.io/{self.version}", meta, items)
            # Go writes a list that nothing was added to as ``null``.
            return (
                answer if items else structs.replace(answer, body=answer.body.replace(b'"items":[]', b'"items":null'))
            )
        resource = self.kind.resource
        items = [raw for _, raw in entries]
        if not self.kind.is_custom:
            # Typed lists say once what their items are. The JSON of a stored object begins with its kind.
            head = len(_head(resource.kind, resource.api_version))
            items = [b"{" + raw[head:] for raw in items]
        return _list(f"{resource.kind}List", resource.api_version, meta, items)

    def _encoded(self, entry: Stored) -> Encoded:
        return entry.served(self.kind.resource.api_version, self.kind.convert, self.kind.completion)

    def _message(self, entry: Stored, body: Body) -> bytes:
        """Kept, as the JSON is: each watch and list wants it again."""
        return entry.encoded_as(self.kind.resource.api_version, lambda: protobuf.message(body))

    def _protobuf_list(self, objects: Sequence[Stored], meta: Mapping[str, Any], __: datetime) -> Parts:
        items: list[bytes] = []
        for number, entry in enumerate(objects, 1):
            body, _ = self._encoded(entry)
            items.append(protobuf.message(self._metadata(body)) if self.form else self._message(entry, body))
            if number % MOST_AT_ONCE == 0:
                yield
        resource = self.kind.resource
        version = f"meta.k8s.io/{self.version}" if self.form else resource.api_version
        kind = self.form or f"{resource.kind}List"
        return Response(200, protobuf.list_of(version, kind, meta, items), PROTOBUF)

    def _metadata(self, body: Body) -> dict[str, Any]:
        return {"kind": _METADATA, "apiVersion": f"meta.k8s.io/{self.version}", "metadata": body["metadata"]}

    def _table(self, bodies: Sequence[Body], now: datetime, meta: Mapping[str, Any]) -> dict[str, Any]:
        from tf_operator.local.apiserver.reads import tables  # noqa: PLC0415 (only kubectl wants tables)

        table = tables.table(self.kind, bodies, now, include=self.include, version=self.version)
        return {**table, "metadata": dict(meta)}

    def _not_acceptable(self, description: str, suffix: str) -> ApiFailure:
        resource = self.kind.resource
        go_type = f"*{resource.group.partition('.')[0] or 'core'}.{resource.kind}{suffix}"
        type_name = f"*unstructured.Unstructured{suffix}" if self.kind.is_custom else go_type
        message = f"you requested {self.form}, but the requested object is {description} ({type_name})"
        return ApiFailure(406, "NotAcceptable", message)


def _head(kind: str, api_version: str) -> bytes:
    return b'{"kind":%s,"apiVersion":%s,' % (msgspec.json.encode(kind), msgspec.json.encode(api_version))


def _list(kind: str, api_version: str, meta: Mapping[str, Any], items: Sequence[bytes]) -> Response:
    head, metadata = _head(kind, api_version), msgspec.json.encode(meta)
    return Response(200, b'%s"metadata":%s,"items":[%s]}\n' % (head, metadata, b",".join(items)))


def view_of(kind: Kind, accept: str, query: Mapping[str, str], *, verb: str = "") -> View:
    entries, has_no_stream = media_types.accepted(accept), False
    for entry in entries:
        form, version = entry.parameters.get("as", ""), entry.parameters.get("v", "")
        media = PROTOBUF if entry.name == PROTOBUF else JSON
        is_known = form in _FORMS and entry.parameters.get("g") == "meta.k8s.io" and version in {"v1", "v1beta1"}
        if form and (not is_known or kind.answer is not None):
            continue
        if entry.name == YAML and verb == "watch":
            has_no_stream = True
        elif media != PROTOBUF or _has_protobuf(kind, form):
            return View(kind, form, version or "v1", _included(query) if form == _TABLE else "", media)
    streams: tuple[str, ...] = (f"{JSON}{_STREAM}", f"{PROTOBUF}{_STREAM}")
    if has_no_stream:
        raise failures.not_acceptable(streams, is_known=True)
    if entries or kind.is_custom or verb not in {"list", "watch"}:
        streams = ()
    raise failures.not_acceptable((JSON, YAML, PROTOBUF, *streams), is_known=bool(entries) or kind.is_custom)


def _has_protobuf(kind: Kind, form: str) -> bool:
    """Whether objects can be shown in protobuf: metadata of any kind, but no table, and no kind without a message."""
    if form:
        return form != _TABLE and protobuf.is_spoken()
    resource = kind.resource
    return not kind.is_custom and protobuf.has_message({"apiVersion": resource.api_version, "kind": resource.kind})


def _included(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "") or "Metadata"
    if include not in {"Metadata", "Object", "None"}:
        rule = f"""includeObject: Invalid value: "{include}": must be 'Metadata', 'Object', 'None', or empty"""
        raise failures.bad_request(f"Unable to convert to Table as requested: {rule}")
    return include
