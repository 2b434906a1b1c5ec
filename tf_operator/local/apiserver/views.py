"""How an answer shows objects: whole, as metadata only, or as a table, whichever the client accepts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import JSON, ApiFailure, Parts, Response
from tf_operator.local.apiserver.store import Encoded, Stored
from tf_operator.meta import Body

MOST_AT_ONCE = 100
"""Objects of a long answer that are handled before others have their turn: some hundredths of a second."""
_PARAMETER = re.compile(r"\s*;\s*([^=;\s]+)=([^;\s]+)")
_WHOLE, _METADATA, _METADATA_LIST, _TABLE = "", "PartialObjectMetadata", "PartialObjectMetadataList", "Table"
_FORMS = frozenset({_METADATA, _METADATA_LIST, _TABLE})


@dataclass(frozen=True, slots=True)
class View:
    """One way to show the objects of a kind."""

    kind: Kind
    form: str = _WHOLE
    version: str = "v1"
    """Of ``meta.k8s.io``, for what is not whole."""
    include: str = "Metadata"
    """``includeObject`` of a table."""

    def one(self, stored: Stored, now: datetime, *, code: int = 200) -> Response:
        """The answer that is one object."""
        if self.form == _METADATA_LIST:
            raise self._not_acceptable("not a list", "")
        return Response(code, self.raw(stored, now))

    def raw(self, stored: Stored, now: datetime, *, has_columns: bool = True) -> bytes:
        """One object as JSON, for an answer or the event of a watch (where only the first table has columns)."""
        body, raw = self._served(stored)
        if self.form == _TABLE:
            table = self._table([body], now, {"resourceVersion": body["metadata"].get("resourceVersion", "")})
            return msgspec.json.encode(table if has_columns else {**table, "columnDefinitions": None})
        return msgspec.json.encode(self._metadata(body)) if self.form else raw

    def many(self, found: Sequence[Stored], meta: Mapping[str, Any], now: datetime) -> Parts:
        """The answer that is a list."""
        if self.form == _METADATA:
            raise self._not_acceptable("a list", "List")
        served: list[Encoded] = []
        table = self._table([], now, meta) if self.form == _TABLE else {}
        for start in range(0, len(found), MOST_AT_ONCE):
            if start:
                yield
            some = [self._served(stored) for stored in found[start : start + MOST_AT_ONCE]]
            if table:
                table["rows"] += self._table([body for body, _ in some], now, meta)["rows"]
            served += some
        if table:
            return Response.of(table)
        if self.form == _METADATA_LIST:
            items = [msgspec.json.encode(self._metadata(body)) for body, _ in served]
            answer = _list(_METADATA_LIST, f"meta.k8s.io/{self.version}", meta, items)
            # Go writes a list that nothing was added to as ``null``.
            return answer if items else replace(answer, body=answer.body.replace(b'"items":[]', b'"items":null'))
        resource = self.kind.resource
        items = [raw for _, raw in served]
        if not self.kind.is_custom:
            # Typed lists say once what their items are. The JSON of a stored object begins with its kind.
            head = len(_head(resource.kind, resource.api_version))
            items = [b"{" + raw[head:] for raw in items]
        return _list(f"{resource.kind}List", resource.api_version, meta, items)

    def _served(self, stored: Stored) -> Encoded:
        return stored.served(self.kind.resource.api_version, self.kind.convert, self.kind.completion)

    def _metadata(self, body: Body) -> dict[str, Any]:
        return {"kind": _METADATA, "apiVersion": f"meta.k8s.io/{self.version}", "metadata": body["metadata"]}

    def _table(self, bodies: Sequence[Body], now: datetime, meta: Mapping[str, Any]) -> dict[str, Any]:
        from tf_operator.local.apiserver import tables  # noqa: PLC0415 (only kubectl wants tables)

        table = tables.table(self.kind, bodies, now, include=self.include, version=self.version)
        return {**table, "metadata": dict(meta)}

    def _not_acceptable(self, found: str, suffix: str) -> ApiFailure:
        resource = self.kind.resource
        typed = f"*{resource.group.partition('.')[0] or 'core'}.{resource.kind}{suffix}"
        named = f"*unstructured.Unstructured{suffix}" if self.kind.is_custom else typed
        message = f"you requested {self.form}, but the requested object is {found} ({named})"
        return ApiFailure(406, "NotAcceptable", message)


def _head(kind: str, api_version: str) -> bytes:
    return b'{"kind":%s,"apiVersion":%s,' % (msgspec.json.encode(kind), msgspec.json.encode(api_version))


def _list(kind: str, api_version: str, meta: Mapping[str, Any], items: Sequence[bytes]) -> Response:
    head, metadata = _head(kind, api_version), msgspec.json.encode(meta)
    return Response(200, b'%s"metadata":%s,"items":[%s]}\n' % (head, metadata, b",".join(items)))


def view_of(kind: Kind, accept: str, query: Mapping[str, str]) -> View:
    """The first of the accepted forms that the server has."""
    for part in accept.split(",") if accept else (JSON,):
        media = part.partition(";")[0].strip()
        parameters = dict(_PARAMETER.findall(part))
        form, version = parameters.get("as", ""), parameters.get("v", "")
        if media not in {JSON, "*/*", "application/*"}:
            continue
        if not form:
            return View(kind)
        if form in _FORMS and parameters.get("g") == "meta.k8s.io" and version in {"v1", "v1beta1"}:
            return View(kind, form, version, _included(query) if form == _TABLE else "")
    raise failures.not_acceptable()


def _included(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "") or "Metadata"
    if include not in {"Metadata", "Object", "None"}:
        rule = f"""includeObject: Invalid value: "{include}": must be 'Metadata', 'Object', 'None', or empty"""
        raise failures.bad_request(f"Unable to convert to Table as requested: {rule}")
    return include
