"""A few small kinds for tests of the embedded API server: no rules but those that a test is about."""

from datetime import datetime

import msgspec

from tf_operator.local.apiserver.kinds import Json, Kind, ScalePaths
from tf_operator.local.apiserver.messages import JSON, Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import HISTORY, Journal
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, GroupVersionResource

NAMESPACES = GroupVersionResource("", "v1", "namespaces", "Namespace", is_namespaced=False)
BOXES = GroupVersionResource("", "v1", "boxes", "Box")
"""Built in, with a grace period of ten seconds and a status."""
NOTES = GroupVersionResource("", "v1", "notes", "Note")
"""Built in, for a minute."""
TOYS = GroupVersionResource("toys.io", "v1", "toys", "Toy")
"""Custom, with generation and status."""
OLD_TOYS = GroupVersionResource("toys.io", "v1alpha1", "toys", "Toy")
"""The same with ``spec.colour`` instead of ``spec.color``."""


def _converted(body: Body, api_version: str) -> Json:
    names = ("color", "colour") if api_version == OLD_TOYS.api_version else ("colour", "color")
    spec = {names[1] if name == names[0] else name: value for name, value in body.get("spec", {}).items()}
    return {**body, "apiVersion": api_version, "spec": spec}


def _terminates(body: Json) -> None:
    body["status"] = {"phase": "Terminating"}


def _new_namespace(body: Json, old: Body | None, _now: datetime) -> Json:
    return body if old else {**body, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


DEFINITIONS = GroupVersionResource("", "v1", "definitions", "Definition", is_namespaced=False)
"""Each defines a custom kind of the group ``made.io`` by its ``spec.plural``, whose ``spec.rust`` no schema knows."""


def _without_rust(sent: Json) -> tuple[str, ...]:
    return ('unknown field "spec.rust"',) if sent.get("spec", {}).pop("rust", None) else ()


def _defined(body: Body) -> tuple[Kind, ...]:
    plural = body["spec"]["plural"]
    resource = GroupVersionResource("made.io", "v1", plural, plural[:-1].capitalize())
    return (Kind(resource, plural, is_custom=True, unknown_fields=_without_rust),)


KINDS = (
    Kind(NOTES, "note", seconds_to_live=60),
    Kind(DEFINITIONS, "definition", defines=_defined),
    Kind(
        NAMESPACES, "namespace", subresources=frozenset({"status", "finalize"}),
        is_namespace=True, returns_deleted=True, prepare=_new_namespace, on_delete=_terminates,
        changes={"finalize": lambda old, sent, _: {**old, "spec": sent.get("spec", {})}},
    ),
    Kind(
        BOXES, "box", subresources=frozenset({"status", "binding"}), returns_deleted=True,
        may_create_by_update=True, merge_keys={"spec.parts": "id"},
        grace_seconds=lambda _, seconds: 10 if seconds is None else seconds,
        actions={"binding": lambda old, sent, _: {**old, "spec": {**old["spec"], "on": sent["target"]["name"]}}},
    ),
    Kind(
        TOYS, "toy", subresources=frozenset({"status", "scale"}), has_generation=True, is_custom=True,
        scale=ScalePaths(("spec", "wheels"), ("status", "wheels"), ("status", "selector")),
    ),
    Kind(
        OLD_TOYS, "toy", subresources=frozenset({"status"}), has_generation=True, is_custom=True,
        stored_as=TOYS, convert=_converted,
    ),
)  # fmt: skip


def server(
    clock: Clock, *, journal: Journal | None = None, history: int = HISTORY, has_controllers: bool = True
) -> ApiServer:
    """A server with the namespace ``team``, and UIDs that count."""
    numbers = iter(range(1, 10_000))
    api_server = ApiServer(
        clock,
        kinds=KINDS,
        journal=journal,
        history=history,
        uids=lambda: f"uid-{next(numbers):05}",
        has_controllers=has_controllers,
    )
    call(api_server, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    return api_server


def call(
    server: ApiServer,
    method: str,
    path: str,
    body: object = None,
    *,
    content_type: str = JSON,
    accept: str = JSON,
    **query: str,
) -> tuple[int, Json]:
    """The code and the body of an answer."""
    sent = body if isinstance(body, bytes | None) else msgspec.json.encode(_framed(method, path, body))
    answer = server.handle(Request("", method, path, query, sent, content_type, accept))
    assert isinstance(answer, Response)
    return answer.code, msgspec.json.decode(answer.body) if answer.content_type == JSON else {}


def _framed(method: str, path: str, body: object) -> object:
    """As all clients do: a custom resource that is written names its kind."""
    parts = path.split("/")
    if method not in {"POST", "PUT"} or parts[1] != "apis" or not isinstance(body, dict):
        return body
    return {"apiVersion": "/".join(parts[2:4]), "kind": parts[min(6, len(parts) - 1)][:-1].capitalize()} | body


def watch(server: ApiServer, path: str, **query: str) -> WatchStream:
    """Open a watch; a reply that is none fails."""
    answer = server.handle(Request("watch", "GET", path, {"watch": "true"} | query))
    assert isinstance(answer, WatchStream)
    return answer


def events(stream: WatchStream) -> list[str]:
    """What a watch has to say now: type, name and version of each."""
    lines = []
    for line in map(msgspec.json.decode, stream.news()):
        metadata = line["object"]["metadata"]
        lines.append(f"{line['type']} {metadata.get('name', '')} {metadata.get('resourceVersion', '')}".strip())
    return lines
