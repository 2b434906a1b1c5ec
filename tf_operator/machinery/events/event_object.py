"""Events as the apiserver stores them: what one is about, its name, its JSON. Pure.

The format is core/v1 with ``count``, ``firstTimestamp`` and ``lastTimestamp``. An apiserver shows every Event in both
APIs, core/v1 and events.k8s.io/v1; but one that was written through the new API, or with a ``series``, has neither
times nor a count for clients of the old one, and those are what users have: the Kubeflow SDKs, dashboards, scripts
that sort by ``lastTimestamp``. kubectl shows both alike. All of it was tried on a real apiserver.

The name is a function of what the Event is about. So there is one for each object, related object, reason and text,
whoever writes it: after a restart, or when the reply to a create was lost, it exists already and is counted up.
client-go puts the time into the name, and begins another row in the same list. As there, texts beyond the first few
(``recorder``) share an Event, which says so: ``combined``.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import structs

from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, ObjectKey, rfc3339, text_of
from tf_operator.text import escaped

EVENTS = Resource("", "v1", "events", "Event")
MOST_BYTES = 1024
"""Of a message: what the newer API allows, and what a terminal can bear."""

Severity = Literal["Normal", "Warning"]

_COMBINED = "(combined from similar events): "
"""As client-go has it: the count is not that of the text."""
_LONGEST_NAME = 253
_ELLIPSIS = "..."


class Reference(msgspec.Struct, frozen=True, gc=False):
    api_version: str
    kind: str
    key: ObjectKey
    uid: str

    def body(self) -> dict[str, Any]:
        place = {"namespace": self.key.namespace} if self.key.namespace else {}
        return {"apiVersion": self.api_version, "kind": self.kind, **place, "name": self.key.name, "uid": self.uid}


def reference_to(resource: Resource, key: ObjectKey, uid: str) -> Reference:
    return Reference(resource.api_version, resource.kind, key, uid)


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: the component as people know it, and which instance of it."""

    component: str
    instance: str


class EventKey(msgspec.Struct, frozen=True):
    """What an Event is about. Equal topics are the same Event, happening again."""

    regarding: Reference
    reason: str
    related: Reference | None = None
    text: str | None = None
    """``None``: the texts differ."""

    def event_key(self, reporter: Reporter) -> ObjectKey:
        """Where the Event lives. For an object without a namespace that is ``default``, as everywhere."""
        related = self.related.uid if self.related else ""
        text = () if self.text is None else (self.text,)
        parts = "\0".join((self.regarding.uid, related, self.reason, reporter.component, *text))
        digest = hashlib.blake2b(parts.encode(errors="replace"), digest_size=8).hexdigest()
        name = self.regarding.key.name[: _LONGEST_NAME - len(digest) - 1].rstrip("-.")
        return ObjectKey(self.regarding.key.namespace or "default", f"{name}.{digest}")


class EventSeries(msgspec.Struct, frozen=True):
    """How often it has happened, from when to when, and what was said the last time."""

    severity: Severity
    message: str
    first: datetime
    last: datetime
    count: int = 1

    def followed_by(self, later: "EventSeries") -> "EventSeries":
        """The tally of both: the latest message, and all occurrences."""
        return structs.replace(later, first=self.first, count=self.count + later.count)


def make_event(topic: EventKey, tally: EventSeries, reporter: Reporter) -> dict[str, Any]:
    key = topic.event_key(reporter)
    related = {"related": topic.related.body()} if topic.related else {}
    return {
        "metadata": {"namespace": key.namespace, "name": key.name},
        "involvedObject": topic.regarding.body(),
        **related,
        "reason": topic.reason,
        "firstTimestamp": rfc3339(tally.first),
        "source": {"component": reporter.component},
        "reportingComponent": reporter.component,
        **make_patch(tally, reporter),
    }


def make_patch(tally: EventSeries, reporter: Reporter) -> dict[str, Any]:
    """What changes in an Event when it happens again."""
    return {
        "type": tally.severity,
        "message": tally.message,
        "count": tally.count,
        "lastTimestamp": rfc3339(tally.last),
        "reportingInstance": reporter.instance,
    }


def counted_before(event: Body, tally: EventSeries, reporter: Reporter) -> int:
    """How often an Event that exists already has happened before ``tally`` began; 0 when it *is* the tally's own.

    That is so when a create was carried out and its reply lost. An invalid count, as another program may have
    left it, counts as one.
    """
    is_own = (text_of(event, "firstTimestamp"), text_of(event, "reportingInstance"))
    if is_own == (rfc3339(tally.first), reporter.instance):
        return 0
    count = event.get("count")
    return count if type(count) is int and count > 0 else 1


def combined(text: str) -> str:
    """The text of an Event that stands for several: the latest of theirs."""
    return printable(_COMBINED + text)


def printable(text: str) -> str:
    """One line of at most ``MOST_BYTES`` bytes, in which nothing can move a cursor, hide or reverse text."""
    line = escaped(text[:MOST_BYTES])
    if len(text) <= MOST_BYTES and len(line.encode()) <= MOST_BYTES:
        return line
    return line.encode()[: MOST_BYTES - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
