"""How an answer shows objects: whole, as metadata only, or as a table, whichever the client accepts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import JSON, Response
from tf_operator.local.apiserver.store import Stored

Render = Callable[[Stored], bytes]
_PARAMETER = re.compile(r"\s*;\s*([^=;\s]+)=([^;\s]+)")
_META_VERSIONS = frozenset({"v1", "v1beta1"})
_WHOLE, _METADATA = "", "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class View:
    """One way to show the objects of a kind."""

    kind: Kind
    form: str = _WHOLE
    version: str = "v1"
    """Of ``meta.k8s.io``, for what is not whole."""
    include: str = "Metadata"
    """``includeObject`` of a table."""

    @property
    def content_type(self) -> str:
        """Of the answer."""
        return JSON

    def one(self, stored: Stored, now: datetime, *, code: int = 200) -> Response:
        """The answer that is one object."""
        return Response(code, self.raw(stored, now))

    def raw(self, stored: Stored, now: datetime) -> bytes:
        """One object as JSON, for an answer or the event of a watch."""
        body, raw = stored.served(self.kind.resource.api_version, self.kind.convert)
        return msgspec.json.encode(self._metadata(body, "PartialObjectMetadata")) if self.form else raw

    def many(self, found: Sequence[Stored], meta: Mapping[str, Any], now: datetime) -> Response:
        """The answer that is a list."""
        served = [stored.served(self.kind.resource.api_version, self.kind.convert) for stored in found]
        if self.form == _METADATA:
            items = [msgspec.json.encode(self._metadata(body, "PartialObjectMetadata")) for body, _ in served]
            return _list("PartialObjectMetadataList", f"meta.k8s.io/{self.version}", meta, items)
        resource = self.kind.resource
        items = [raw for _, raw in served]
        if not self.kind.is_custom:
            # Typed lists say once what their items are. The JSON of a stored object begins with its kind.
            head = len(_head(resource.kind, resource.api_version))
            items = [b"{" + raw[head:] for raw in items]
        return _list(f"{resource.kind}List", resource.api_version, meta, items)

    def _metadata(self, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
        return {"kind": kind, "apiVersion": f"meta.k8s.io/{self.version}", "metadata": body["metadata"]}


def _head(kind: str, api_version: str) -> bytes:
    return b'{"kind":%s,"apiVersion":%s,' % (msgspec.json.encode(kind), msgspec.json.encode(api_version))


def _list(kind: str, api_version: str, meta: Mapping[str, Any], items: Sequence[bytes]) -> Response:
    return Response(
        200,
        b'%s"metadata":%s,"items":[%s]}\n' % (_head(kind, api_version), msgspec.json.encode(meta), b",".join(items)),
    )


def ordered(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with its kind first, which is how all stored objects begin."""
    return {"kind": body["kind"], "apiVersion": body["apiVersion"], "metadata": body["metadata"], **body}


def view_of(kind: Kind, accept: str, query: Mapping[str, str]) -> View:
    """The first of the accepted forms that the server has."""
    for part in accept.split(",") if accept else (JSON,):
        media, _, _ = part.strip().partition(";")
        parameters = dict(_PARAMETER.findall(part))
        if media not in {JSON, "*/*", "application/*"}:
            continue
        form = parameters.get("as", "").removesuffix("List")
        if not form:
            return View(kind)
        if form == _METADATA and parameters.get("g") == "meta.k8s.io":
            version = parameters.get("v", "")
            if version in _META_VERSIONS:
                return View(kind, form, version, query.get("includeObject", "") or "Metadata")
    raise failures.not_acceptable((JSON,))
