"""What a request asks of Kubernetes, and the record of what became of it. No I/O.

A ``Call`` is the evidence that tests read: one for each request, in the order in which the proxy read them, whatever
connection they came on. Of tokens only fingerprints are kept.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from support.disturbances.fault_proxy.messages import Request, header

Json = dict[str, Any]

_BODY_LIMIT = 1 << 20
"""How much of the body is kept after the end of a request."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NOT_RESOURCES = frozenset({"status", "finalize"})
"""After ``namespaces/x``: subresources of the namespace itself, not resources in it."""


@dataclass(kw_only=True)
class Call:
    """One request, and what became of it. Only the proxy changes it; read it from any thread.

    Verb, group, resource, namespace, name and subresource are those of Kubernetes, ``""`` for what does not apply.
    """

    number: int
    """Place in the order in which the proxy read the requests, from 1."""
    at: float
    """``time.monotonic()`` when it was read, comparable between processes of one machine."""
    client: str
    """The *client* of ``FaultProxy.kubeconfig``."""
    method: str
    target: str
    query: dict[str, str]
    token: str
    """``fingerprint`` of the bearer token, ``""`` without one."""
    body: bytes
    verb: str
    """get list watch create update patch delete deletecollection; the method in small letters elsewhere."""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    upstream: int | None = None
    """Which apiserver it was sent to, counted from 0; ``None`` if to none."""
    upstream_code: int | None = None
    """The status that the apiserver sent, whatever the client got."""
    upstream_error: str = ""
    """Why there is no complete answer of the apiserver."""
    code: int | None = None
    """The status that the client got; ``None`` if none, or not yet."""
    ending: str = ""
    """How the reply ended: clean, fin, rst, silent, or left when the client went first; ``""`` before its end."""
    ended_at: float | None = None
    faults: list[str] = field(default_factory=list)
    """The faults that acted on it, in order."""

    @classmethod
    def of(cls, request: Request, *, number: int, at: float, client: str) -> Self:
        query = dict(parse_qsl(urlsplit(request.target).query, keep_blank_values=True))
        call = cls(
            **_target_fields(request.method, request.target, query),
            number=number,
            at=at,
            client=client,
            method=request.method,
            target=request.target,
            query=query,
            token=fingerprint(header(request.headers, "Authorization").removeprefix("Bearer ")),
            body=request.body,
        )
        if call.verb == "create" and not call.name:
            call.name = _name_in(call.document)
        return call

    @cached_property
    def document(self) -> Any:  # noqa: ANN401 - whatever JSON can be
        """The body as JSON; ``None`` when it is none."""
        return decoded(self.body)

    def end(self, ending: str, at: float) -> None:
        """Note the end, once, and drop what is not kept."""
        if not self.ending:
            self.ending, self.ended_at = ending, at
            self.body = self.body[:_BODY_LIMIT]

    def __str__(self) -> str:
        answer = f"{self.code} {self.ending}".strip()
        return f"#{self.number} {self.client} {self.method} {self.target} -> {answer} {' '.join(self.faults)}".rstrip()


def _target_fields(method: str, target: str, query: dict[str, str]) -> dict[str, Any]:
    """Read a target as k8s.io/apiserver's RequestInfoFactory does."""
    parts = [unquote(part) for part in urlsplit(target).path.split("/") if part]
    match parts:
        case ["api", _version, resource, *rest]:
            group = ""
        case ["apis", group, _version, resource, *rest]:
            pass
        case _:
            return {"verb": method.lower()}
    namespace = ""
    if resource == "namespaces" and rest:
        namespace = rest[0]
        if len(rest) > 1 and rest[1] not in _NOT_RESOURCES:
            resource, rest = rest[1], rest[2:]
    name = rest[0] if rest else ""
    return {
        "verb": _verb(method, name=name, is_watch=query.get("watch", "false").lower() not in {"false", "0"}),
        "group": group,
        "resource": resource,
        "namespace": namespace,
        "name": name or _name_selected(query.get("fieldSelector", "")),
        "subresource": "/".join(rest[1:]),
    }


def _verb(method: str, *, name: str, is_watch: bool) -> str:
    if method in {"GET", "HEAD"}:
        return "watch" if is_watch else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(method, method.lower())


def _name_selected(selector: str) -> str:
    """The one name that a field selector selects, as in a watch of a single object."""
    pairs = (term.split("=", 1) for term in selector.replace("==", "=").split(",") if "=" in term)
    return next((value for key, value in pairs if key == "metadata.name"), "")


def _name_in(document: object) -> str:
    match document:
        case {"metadata": {"name": str(name)}} | {"metadata": {"generateName": str(name)}}:
            return name
        case _:
            return ""


def fingerprint(token: str) -> str:
    """Return what the log keeps of a bearer token."""
    return hashlib.sha256(token.encode()).hexdigest()[:12] if token else ""


def decoded(body: bytes) -> Any:  # noqa: ANN401 - whatever JSON can be
    """Decode a JSON document; ``None`` for anything else, protobuf above all."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
