"""Requests as values: what goes onto the wire. No I/O.

A request is built by a pure function and sent by ``client``; so the whole grammar of the Kubernetes API that
this project uses is on this page, and is tested without a server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.errors import Status
from tf_operator.meta import GroupVersionResource, ObjectKey

MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"

# Kubernetes' own rule for what may stand in a path. Quoting does not help: the apiserver unquotes before it splits.
_IMPOSSIBLE_NAME = re.compile(r"\.{0,2}|.*[/%].*", re.DOTALL)


Resource = GroupVersionResource
"""What requests are about, by its short name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource: one namespace or all, and by which selectors."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> dict[str, str]:
        return _present(labelSelector=self.label_selector, fieldSelector=self.field_selector)


EVERYWHERE = Scope()


class Request(msgspec.Struct, frozen=True):
    """One call: ``verb`` as RBAC and metrics name it, and what HTTP needs. ``repr`` shows no body: it has secrets."""

    verb: str
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON

    def __repr__(self) -> str:
        return f"{self.method} {self.path} {self.query}"


def path(resource: Resource, namespace: str = "", name: str = "", *, subresource: str = "") -> str:
    parts = [f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"]
    if namespace and resource.is_namespaced:
        parts += ["namespaces", _segment(namespace)]
    parts.append(resource.plural)
    parts += [_segment(part) for part in (name, subresource) if part]
    return "/".join(parts)


def path_of(resource: Resource, key: ObjectKey, subresource: str = "") -> str:
    """The path of one object, and never of a collection, whatever the key is.

    Names come from owner references and command lines, too. One that no object can have is ``NotFound`` right here: an
    empty one would turn the deletion of an object into that of all.
    """
    if resource.is_namespaced:
        _segment(key.namespace)
    _segment(key.name)
    return path(resource, key.namespace, key.name, subresource=subresource)


def get(resource: Resource, key: ObjectKey) -> Request:
    return Request("get", "GET", path_of(resource, key))


def list_page(
    resource: Resource, scope: Scope, *, limit: int, token: str = "", resource_version: str | None = None
) -> Request:
    """One page. Without a version and a token the answer is consistent: as new as the request itself."""
    query = scope.query() | {"limit": str(limit)} | _present(**{"continue": token})
    if resource_version is not None:
        query["resourceVersion"] = resource_version
    return Request("list", "GET", path(resource, scope.namespace), query)


def watch(resource: Resource, scope: Scope, *, resource_version: str, timeout_seconds: int) -> Request:
    """Every change after ``resource_version``, and bookmarks."""
    query = scope.query() | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_seconds),
    }
    return Request("watch", "GET", path(resource, scope.namespace), query)


def watch_list(resource: Resource, scope: Scope, *, timeout_seconds: int) -> Request:
    """The initial list as a stream of ADDED, a marked bookmark, then every change: no page is ever held."""
    query = scope.query() | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": str(timeout_seconds),
    }
    return Request("watch", "GET", path(resource, scope.namespace), query)


def create(resource: Resource, namespace: str, body: Mapping[str, Any]) -> Request:
    """Create one object. The body names its kind, which a list item of the apiserver does not."""
    payload = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    return Request("create", "POST", path(resource, namespace), body=msgspec.json.encode(payload))


def merge_patch(
    resource: Resource,
    key: ObjectKey,
    body: Mapping[str, Any],
    *,
    subresource: str = "",
    is_dry_run: bool = False,
) -> Request:
    """Change the fields in ``body``. A ``metadata.resourceVersion`` in it makes a stale patch a Conflict."""
    where, query = path_of(resource, key, subresource), {"dryRun": "All"} if is_dry_run else {}
    return Request("patch", "PATCH", where, query, body=msgspec.json.encode(body), content_type=MERGE_PATCH)


def update(resource: Resource, key: ObjectKey, body: Mapping[str, Any]) -> Request:
    """Replace the object; the ``metadata.resourceVersion`` in the body makes a stale update a Conflict."""
    payload = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    return Request("update", "PUT", path_of(resource, key), body=msgspec.json.encode(payload))


def delete(
    resource: Resource,
    key: ObjectKey,
    *,
    uid: str,
    version: str = "",
    propagation: str = "",
    grace_seconds: int | None = None,
    is_dry_run: bool = False,
) -> Request:
    """Delete this object and never its successor of the same name: the UID is a precondition; a version may be one.

    A dry run is in the body, too: with one, an API server reads no option from the query.
    """
    conditions = {"uid": uid} | _present(resourceVersion=version)
    options: dict[str, Any] = {"preconditions": conditions} | _present(propagationPolicy=propagation)
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if is_dry_run:
        options["dryRun"] = ["All"]
    return Request("delete", "DELETE", path_of(resource, key), body=msgspec.json.encode(options))


def delete_all(resource: Resource, scope: Scope) -> Request:
    """Delete whatever a label selector selects in one namespace. Without either it would be everything: refused."""
    if not (scope.namespace and scope.label_selector):
        raise ValueError("a collection is deleted by namespace and label selector, or not at all")
    return Request("deletecollection", "DELETE", path(resource, scope.namespace), scope.query())


def _present(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


@lru_cache(maxsize=4096)
def _segment(name: str) -> str:
    """A name as a part of a path; ``NotFound`` for one that no object can have."""
    if _IMPOSSIBLE_NAME.fullmatch(name):
        raise errors.NotFound(404, Status(reason="NotFound", message=f"nothing can be called {name[:80]!r}"))
    return quote(name, safe="")
