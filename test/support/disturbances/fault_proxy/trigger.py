"""When a fault acts: on which requests, on which lines of which watches.

    watch("pods", event="DELETED", name="*-worker-0")
    write("leases", client="replica-a")

Resources are written as kubectl does: ``pods``, ``pods/status``, ``deployments.apps``, ``tfjobs/*`` (with or without
a subresource). Names, namespaces, clients and paths are globs, or compiled patterns that have to match wholly.
``watch`` is about the lines of watches, where the fault is one that acts on lines; all others are about requests,
``opening`` about those that open a watch. Functions given here run in the thread of the proxy.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypedDict, Unpack

from support.disturbances.fault_proxy.request import Call, decoded
from support.disturbances.fault_proxy.watch import INITIAL_END, Line

__all__ = ["INITIAL_END", "Trigger", "anything", "create", "delete", "get", "listing", "opening", "patch", "update",
           "watch", "write"]  # fmt: skip

Text = str | re.Pattern[str]


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """A condition on requests, and for watches on their lines; ``None`` asks nothing."""

    verbs: frozenset[str] | None = None
    resource: str | None = None
    namespace: Text | None = None
    name: Text | None = None
    client: Text | None = None
    path: Text | None = None
    """The whole target, with its query."""
    event: str | tuple[str, ...] | None = None
    """Types of events, INITIAL_END among them."""
    object_name: Text | None = None
    where: Callable[[Any], bool] | None = None
    """A condition on the object in the line, as JSON."""
    is_watch: bool = False
    """A fault that can act on both lines and requests acts on lines."""

    def __str__(self) -> str:
        conditions = {name: value for name, value in vars(self).items() if value is not None and name != "is_watch"}
        verbs = "|".join(sorted(conditions.pop("verbs", ["anything"])))
        return " ".join([verbs, *(f"{name}={value!r}" for name, value in conditions.items())])

    @property
    def is_about_lines(self) -> bool:
        """Whether it asks something that only a line of a watch can answer."""
        return any(condition is not None for condition in (self.event, self.object_name, self.where))

    def fits(self, call: Call) -> bool:
        """Whether this request is meant, or the watch whose lines are."""
        return (
            (self.verbs is None or call.verb in self.verbs)
            and self._fits_resource(call)
            # A watch of all namespaces carries the lines of this one.
            and (_fits(self.namespace, call.namespace) or (call.verb == "watch" and not call.namespace))
            and _fits(self.name, call.name)
            and _fits(self.client, call.client)
            and _fits(self.path, call.target)
        )

    def fits_line(self, call: Call, line: Line) -> bool:
        events = (self.event,) if isinstance(self.event, str) else self.event
        return (
            self.fits(call)
            and (events is None or not line.types.isdisjoint(events))
            and (bool(call.namespace) or _fits(self.namespace, line.metadata.namespace))
            and _fits(self.object_name, line.metadata.name)
            and (self.where is None or self.where((decoded(line.raw) or {}).get("object")))
        )

    def _fits_resource(self, call: Call) -> bool:
        if self.resource is None:
            return True
        whole, _, subresource = self.resource.partition("/")
        resource, _, group = whole.partition(".")
        return (
            fnmatchcase(call.resource, resource)
            and (not group or group == call.group)
            and fnmatchcase(call.subresource, subresource)
        )


def _fits(pattern: Text | None, text: str) -> bool:
    if pattern is None:
        return True
    return fnmatchcase(text, pattern) if isinstance(pattern, str) else pattern.fullmatch(text) is not None


class LineConditions(TypedDict, total=False):
    """What ``watch`` takes; see Trigger. *name* is the one of the object in the line."""

    namespace: Text
    client: Text
    event: str | tuple[str, ...]
    where: Callable[[Any], bool]


def watch(resource: str | None = None, *, name: Text | None = None, **conditions: Unpack[LineConditions]) -> Trigger:
    """Watches of a resource, or those of their lines that carry such an object, such an event and so on."""
    return Trigger(verbs=frozenset({"watch"}), is_watch=True, resource=resource, object_name=name, **conditions)


@dataclass(frozen=True)
class Requests:
    """Makes triggers for requests of some verbs, or of any."""

    verbs: frozenset[str] | None

    def __call__(
        self,
        resource: str | None = None,
        *,
        namespace: Text | None = None,
        name: Text | None = None,
        client: Text | None = None,
        path: Text | None = None,
    ) -> Trigger:
        return Trigger(verbs=self.verbs, resource=resource, namespace=namespace, name=name, client=client, path=path)


anything = Requests(None)
write = Requests(frozenset({"create", "update", "patch", "delete", "deletecollection"}))
get, listing, opening = (Requests(frozenset({verb})) for verb in ("get", "list", "watch"))
create, update, patch, delete = (Requests(frozenset({verb})) for verb in ("create", "update", "patch", "delete"))
