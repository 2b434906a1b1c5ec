"""The apiserver's audit log: what the operator asked for, counted.

    sent = AuditLog(plane.audit_log).since(mark).by(namespace=namespace).writes()
    assert sent.tally() == {("create", "pods", 201): 3, ("patch", "tfjobs.kubeflow.org/status", 200): 2}

Requests count that failed, were repeated, or were sent by a connection nobody knew of; one request is one entry,
however many stages of it were logged. Which users are logged is a matter of the plane's audit policy.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from support.resources import Json

_READS = {"get", "list", "watch"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in an audit log: what was logged before it is not asked for."""

    offset: int


BEGINNING = Mark(0)


class Tally(NamedTuple):
    """What requests are counted by; equal to a plain tuple."""

    verb: str
    resource: str
    code: int


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the apiserver saw it. ``resource`` is ``pods/status``, ``tfjobs.kubeflow.org``, ..."""

    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    """The HTTP status; 0 when none was logged, as for a request that still runs."""
    user: str
    user_agent: str
    at: str
    decision: str = ""
    """Of the authorizer: ``allow``, or ``forbid``; what admission refuses was allowed before."""

    @property
    def tally(self) -> Tally:
        return Tally(self.verb, self.resource, self.code)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in the order in which the apiserver received them."""

    entries: tuple[Request, ...]

    def __iter__(self) -> Iterator[Request]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def by(self, *, user: str = "", user_agent: str = "", namespace: str = "") -> Self:
        """Those of a user, of a user agent (its beginning is enough), in a namespace."""
        return type(self)(
            tuple(
                entry
                for entry in self
                if user in {"", entry.user}
                and entry.user_agent.startswith(user_agent)
                and namespace in {"", entry.namespace}
            )
        )

    def writes(self) -> Self:
        """Those that change something or try to: all but get, list and watch."""
        return type(self)(tuple(entry for entry in self if entry.verb not in _READS))

    def of(self, resource: str) -> Self:
        return type(self)(tuple(entry for entry in self if entry.resource == resource))

    def tally(self) -> Counter[Tally]:
        return Counter(entry.tally for entry in self)


class AuditLog:
    """One apiserver's audit log, which it may be writing to at this moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> Mark:
        """The present end of the log. A line that is half written belongs to what comes after."""
        return Mark(len(self._complete(BEGINNING)))

    def since(self, mark: Mark = BEGINNING) -> Requests:
        lines = self._complete(mark).splitlines()
        return requests_of(json.loads(line) for line in lines if line)

    def _complete(self, mark: Mark) -> bytes:
        """The log from the mark to its last newline; empty while the apiserver has logged nothing yet."""
        if not self._path.exists():
            return b""
        with self._path.open("rb") as log:
            if log.seek(0, 2) < mark.offset:
                raise ValueError(f"{self._path} is shorter than at the mark: it was rotated")
            log.seek(mark.offset)
            content = log.read()
        return content[: content.rfind(b"\n") + 1]


def requests_of(events: Iterable[Json]) -> Requests:
    """Read audit events; of the stages of one request the last one logged counts."""
    latest = {event["auditID"]: event for event in events}
    entries = [_request(event) for event in latest.values()]
    return Requests(tuple(sorted(entries, key=lambda entry: entry.at)))


def _request(event: Json) -> Request:
    target = event.get("objectRef", {})
    group, subresource = target.get("apiGroup", ""), target.get("subresource", "")
    resource = target.get("resource", "") + (f".{group}" if group else "")
    return Request(
        verb=event["verb"],
        resource=f"{resource}/{subresource}" if subresource else resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        user=event["user"]["username"],
        user_agent=event.get("userAgent", ""),
        at=event["requestReceivedTimestamp"],
        decision=event.get("annotations", {}).get("authorization.k8s.io/decision", ""),
    )
