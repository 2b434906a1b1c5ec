"""What a request is about: its path, method and query as values."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.registry import Registry
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import ObjectKey

_VERBS = {"POST": "create", "GET": "list", "DELETE": "deletecollection"}
_VERBS_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_DURATION = re.compile(r"([0-9.]+(ns|us|ms|s|m|h))+|0|")
_WRITTEN = frozenset({"status", "scale"})
_INTERACTIVE = frozenset({"attach", "exec", "portforward"})
_NO_NAMES = frozenset({".", ".."})
_UNSIGNED = re.compile(r"[0-9]{1,19}")


class Route(msgspec.Struct, frozen=True):
    """A verb, and what it is about. Without a name it is about a collection."""

    verb: str
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


def route_of(request: Request, registry: Registry) -> Route | None:
    """What a request is about; ``None`` if its path names no resource, as those of discovery do."""
    # Unquoted as a whole, as by the real server: a slash in a name cannot be hidden.
    parts = unquote(request.path).strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    is_watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if is_watch else rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        # What follows a namespace is a resource in it, or a subresource of the namespace itself.
        inner = registry.find(group, version, rest[2])
        if inner is not None and inner.resource.is_namespaced:
            namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or not all(rest) or (not namespace and not _is_across(kind, rest, request)):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    _check(request, name)
    verb = "watch" if is_watch else _verb(request, kind, name=name, subresource=subresource)
    if namespace in _NO_NAMES:
        raise failures.no_namespace(kind, namespace, name, is_new=verb == "create")
    if verb == "deletecollection" and kind.is_namespace:
        raise failures.method_not_allowed()
    return Route(verb, kind, namespace, name, subresource)


def _check(request: Request, name: str) -> None:
    if not _DURATION.fullmatch(request.query.get("timeout", "")):
        raise failures.bad_request("invalid timeout specified in the request URL")
    if problem := _problem_of(name):
        raise failures.bad_request(f'Name parameter invalid: "{name}": {problem}')


def _problem_of(name: str) -> str:
    """Why no object can have this name, if none can."""
    if name in _NO_NAMES:
        return f"may not be '{name}'"
    return "may not contain '%'" if "%" in name else ""


def _is_across(kind: Kind, rest: list[str], request: Request) -> bool:
    """Whether a path without a namespace may be: objects of all namespaces are listed, and no more."""
    if not kind.resource.is_namespaced:
        return True
    if len(rest) > 1 or (kind.is_custom and request.method != "GET"):
        return False
    if request.method != "GET" and kind.answer is None:
        raise failures.method_not_allowed()
    return True


def _verb(request: Request, kind: Kind, *, name: str, subresource: str) -> str:
    if subresource:
        return _verb_of_subresource(request, kind, name=name, subresource=subresource)
    verb = (_VERBS_OF_ONE if name else _VERBS).get(request.method)
    if verb is None and kind.is_custom and not name:
        raise failures.bad_request("name must be provided")
    if verb is None or (kind.answer is not None and verb != "create"):
        raise failures.method_not_allowed()
    return "watch" if verb == "list" and flag(request.query, "watch") else verb


def _verb_of_subresource(request: Request, kind: Kind, *, name: str, subresource: str) -> str:
    if subresource not in kind.subresources:
        if subresource in _INTERACTIVE:
            raise failures.not_served(subresource)
        raise failures.not_found(kind, name) if kind.is_custom else failures.no_such_path()
    if subresource in kind.actions:
        verb = "create" if request.method == "POST" else None
    elif subresource in _WRITTEN or subresource in kind.changes:
        verb = _VERBS_OF_ONE.get(request.method) if request.method != "DELETE" else None
    else:
        verb = "get" if request.method == "GET" else None
    if verb is None:
        raise failures.method_not_allowed(kind, {"DELETE": "delete", "POST": "create"}.get(request.method, ""))
    return verb


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter, as the real server takes it: whatever is not false is true."""
    return query.get(name, "").lower() not in {"", "0", "false"}


def optional_flag(query: Mapping[str, str], name: str) -> bool | None:
    return flag(query, name) if query.get(name) else None


def number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise failures.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list or a watch."""

    label_selector: str
    field_selector: str
    version: int | None
    """``None``: as new as the request; 0: any."""
    match: str
    limit: int
    token: str
    timeout_seconds: int | None
    has_bookmarks: bool
    sends_initial_events: bool | None


def list_options(query: Mapping[str, str], *, is_watch: bool) -> ListOptions:
    text = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    initial = optional_flag(query, "sendInitialEvents")
    if is_watch and initial is None and not match and text in {"", "0"}:
        initial, match = True, "NotOlderThan"
    checks = _watch_causes(query, match, initial=initial) if is_watch else _list_causes(query, match, initial=initial)
    causes = tuple(checks)
    if causes:
        raise failures.invalid_options("ListOptions", causes)
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        version=_version(text, is_watch=is_watch),
        match=match,
        limit=max(0, number(query, "limit") or 0),
        token=query.get("continue", ""),
        timeout_seconds=number(query, "timeoutSeconds"),
        has_bookmarks=flag(query, "allowWatchBookmarks"),
        sends_initial_events=initial,
    )


def _version(text: str, *, is_watch: bool) -> int | None:
    if not text:
        return None
    if not _UNSIGNED.fullmatch(text):
        if is_watch:
            raise failures.unparsable_version(text, field="resourceVersion")
        message = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise failures.bad_request(f"invalid resource version: resourceVersion: {message}")
    return int(text)


def version_of(query: Mapping[str, str]) -> int | None:
    return _version(query.get("resourceVersion", ""), is_watch=True)


def _watch_causes(query: Mapping[str, str], match: str, *, initial: bool | None) -> Iterator[FieldCause]:
    if initial is not None and match != "NotOlderThan":
        yield _forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if not match:
        return
    if initial is None:
        yield _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if match != "NotOlderThan":
        yield _not_supported(match, '"NotOlderThan"')
    if query.get("continue"):
        yield _forbidden("resourceVersionMatch is forbidden when continue is provided")


def _list_causes(query: Mapping[str, str], match: str, *, initial: bool | None) -> Iterator[FieldCause]:
    if match:
        version = query.get("resourceVersion", "")
        if not version:
            yield _forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if query.get("continue"):
            yield _forbidden("resourceVersionMatch is forbidden when continue is provided")
        if match not in {"Exact", "NotOlderThan"}:
            yield _not_supported(match, '"Exact", "NotOlderThan", ""')
        if match == "Exact" and version == "0":
            yield _forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if initial is not None:
        yield _forbidden("sendInitialEvents is forbidden for list", field="sendInitialEvents")


def _forbidden(reason: str, *, field: str = "resourceVersionMatch") -> FieldCause:
    return FieldCause(field, "FieldValueForbidden", f"Forbidden: {reason}")


def _not_supported(value: str, values: str) -> FieldCause:
    message = f'Unsupported value: "{value}": supported values: {values}'
    return FieldCause("resourceVersionMatch", "FieldValueNotSupported", message)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def make_token(version: int, last: str) -> str:
    """Where the next page begins: behind the path ``last``, at a version (-1: whatever is current)."""
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", version, f"{last}\0"))
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_token(token: str) -> tuple[int, str]:
    """Version and last path of a token."""
    invalid = "invalid continue token: continue key is not valid: "
    raw = b""
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        first = raw[:1].decode("latin-1")
        text = first if first.isprintable() else f"\\u{ord(first):04x}"
        problem = f"invalid character '{text}' looking for beginning of value" if first != "{" else str(error)
        raise failures.bad_request(invalid + problem) from error
    if content.v != "meta.k8s.io/v1" or not content.rv or not content.start:
        raise failures.bad_request(f"{invalid}server does not recognize this encoded version {content.v!r}")
    return content.rv, content.start.rstrip("\0")
