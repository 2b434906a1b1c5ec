"""Who answers a conversation: a real API server over HTTP, or the embedded one without sockets."""

import http.client
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

import yaml

from lab.kubeconfig import Access
from support.parity.script import Context, Conversation, Step, Value, at_path
from support.resources import Json
from tf_operator.local.apiserver.forms import protobuf, protobuf_messages
from tf_operator.local.apiserver.messages import PROTOBUF

_PATIENCE: Final = 60.0
_QUIET: Final = 1.0
_OPENING: Final = "storage is (re)initializing"
"""What is said of each request for a kind whose CRD has just changed."""
_OF_EACH_NAMESPACE: Final = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a reply, or the events that a ``READ`` read."""

    code: int
    body: Value
    time: float
    """Of the server's clock."""
    headers: Json = field(default_factory=dict)


class OpenWatch(Protocol):
    """A watch that goes on."""

    def read(self, count: int) -> list[Json]:
        """The next ``count`` events, or what there is of them."""

    def rest(self) -> list[Json]:
        """What else is there; it ends the watch."""

    def close(self) -> None:
        """End it."""


class Server(Protocol):
    """Somebody who answers."""

    def ask(self, step: Step, target: str, body: str | None) -> Answer: ...
    def watch(self, step: Step, target: str) -> Answer | OpenWatch: ...
    def pause(self) -> bool:
        """Give controllers the time to act; whether they may have."""

    def now(self) -> float: ...


def play(conversation: Conversation, server: Server, namespace: str) -> list[Answer]:
    """Every step's answer, and at last whatever the watches have that was not read."""
    context = Context(namespace)
    watches: dict[str, OpenWatch] = {}
    answers = [_answer(step, server, context, watches) for step in conversation.steps]
    return [*answers, *(Answer(0, watch.rest(), server.now()) for watch in watches.values())]


def _answer(step: Step, server: Server, context: Context, watches: dict[str, OpenWatch]) -> Answer:
    if step.method == "READ":
        answer = Answer(0, _read(step, watches), server.now())
    elif step.method == "WATCH":
        target = context.filled(step.target)
        reply = server.watch(step, target + ("&" if "?" in target else "?") + "watch=true")
        if not isinstance(reply, Answer):
            watches[step.label] = reply
            return Answer(200, "a watch", server.now())
        answer = reply
    else:
        answer = _ask(step, server, context)
    if step.label:
        context.answers[step.label] = answer.body
    return answer


def _read(step: Step, watches: dict[str, OpenWatch]) -> Value:
    watch = watches.get(step.target)
    if watch is None:
        return "no watch"
    if not step.last:
        return watch.read(step.count)
    events = list[Json]()
    while (events_read := watch.read(1)) and at_path(events_read[0], "object.metadata.name") != step.last:
        events += events_read
    watches.pop(step.target).close()
    return events


def _ask(step: Step, server: Server, context: Context) -> Answer:
    target = context.filled(step.target)
    body = None if step.body is None else context.filled(step.body)
    end = time.monotonic() + _PATIENCE
    answer = server.ask(step, target, body)
    while step.until and not _is_reached(answer, step.until) and time.monotonic() < end and server.pause():
        answer = server.ask(step, target, body)
    return answer


def _is_reached(answer: Answer, until: str) -> bool:
    path, is_field, value = until.partition("=")
    return str(at_path(answer.body, path)) == value if is_field else answer.code == int(until)


class RealServer:
    """A kube-apiserver, as its administrator."""

    def __init__(self, access: Access) -> None:
        self._address = urlsplit(access.server).netloc
        self._token = access.token
        self._tls = access.trust()
        self._connection = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._connection.close()

    def ask(self, step: Step, target: str, body: str | None) -> Answer:
        answer = self._reply(step, target, body)
        while answer.code == 429 and at_path(answer.body, "message") == _OPENING and self.pause():
            answer = self._reply(step, target, body)
        return answer

    def _reply(self, step: Step, target: str, body: str | None) -> Answer:
        try:
            response = self._send(self._connection, step, target, body)
        except http.client.RemoteDisconnected:  # the server had closed an idle connection, and read nothing of this
            self._connection.close()
            try:
                response = self._send(self._connection, step, target, body)
            except http.client.RemoteDisconnected:  # its handler broke off, as those of a CRD that has just changed may
                self._connection.close()
                return Answer(0, "no reply", time.time())
        return _whole(response)

    def watch(self, step: Step, target: str) -> "Answer | OpenWatch":
        connection = self._connect()
        response = self._send(connection, step, target, None)
        is_stream = response.status == 200 and response.getheader("Content-Length") is None
        if is_stream:
            return _RealWatch(connection, response)
        answer = _whole(response)
        connection.close()
        return answer

    def pause(self) -> bool:
        time.sleep(0.1)
        return True

    def now(self) -> float:
        return time.time()

    def make_namespaces(self, names: Iterable[str]) -> None:
        """Some in which pods can be created: with service account, and the authority's certificate."""
        names = list(names)
        for name in names:
            self._simple("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for path in (f"{name}/{resource}" for name in names for resource in _OF_EACH_NAMESPACE):
            self._wait_for(f"/api/v1/namespaces/{path}")

    def install(self, crds: Iterable[Json]) -> None:
        """Make sure of these kinds."""
        for crd in crds:
            self._simple("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            spec = crd["spec"]
            served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
            self._wait_for(served)

    def _wait_for(self, path: str) -> None:
        end = time.monotonic() + _PATIENCE
        while self._simple("GET", path) != 200 and time.monotonic() < end:
            time.sleep(0.05)

    def _simple(self, method: str, path: str, body: Json | None = None) -> int:
        step = Step("", "", "", method, path)
        return self.ask(step, path, None if body is None else json.dumps(body)).code

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, timeout=_PATIENCE, context=self._tls)

    def _send(
        self, connection: http.client.HTTPSConnection, step: Step, target: str, body: str | None
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": step.accept, "User-Agent": "parity"}
        headers |= {"Content-Type": step.content_type} if body is not None else {}
        method = "GET" if step.method == "WATCH" else step.method
        data = None if body is None else encoded(body, step.content_type)
        connection.request(method, target.replace(" ", "%20"), data, headers)
        return connection.getresponse()


class _RealWatch:
    def __init__(self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._socket = connection.sock
        self._response = response

    def read(self, count: int) -> list[Json]:
        return [event for _, event in zip(range(count), self._events(5.0), strict=False)]

    def rest(self) -> list[Json]:
        events = list(self._events(_QUIET))
        self.close()
        return events

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def _events(self, patience: float) -> Iterator[Json]:
        try:
            self._socket.settimeout(patience)
            while data := self._next():
                yield event(data)
        except OSError:
            return

    def _next(self) -> bytes:
        if self._response.getheader("Content-Type") == "application/json":
            return self._response.readline()
        length = self._response.read(4)
        return length + self._response.read(int.from_bytes(length)) if length else b""


def _whole(response: http.client.HTTPResponse) -> Answer:
    return Answer(
        response.status,
        decoded(response.read()),
        time.time(),
        compared_headers(dict(response.headers), response.headers.get_all("Warning") or []),
    )


def encoded(body: str, content_type: str) -> bytes:
    """A body as it is sent: those in protobuf are written as JSON here."""
    is_object = content_type == PROTOBUF and body.startswith("{")
    return protobuf.enveloped(json.loads(body)) if is_object else body.encode()


def decoded(data: bytes) -> Value:
    """JSON, protobuf, YAML, or the text."""
    if data.startswith(b"k8s\0"):
        return json.loads(protobuf.to_json(data))
    try:
        return json.loads(data)
    except ValueError:
        text = data.decode(errors="replace")
        return yaml.safe_load(text) if text.startswith("apiVersion: ") else text


def event(data: bytes) -> Json:
    """One event of a watch: a line of JSON, or a message with its length."""
    if data.startswith(b"{"):
        line: Json = json.loads(data)
        return line
    message = protobuf_messages.parse("apis.meta.v1.WatchEvent", data[4:])
    return {"type": message.type, "object": json.loads(protobuf.to_json(message.object.raw))}


def compared_headers(headers: Json, warnings: list[str]) -> Json:
    """The headers that are compared: warnings, and a content type that is not plain JSON."""
    kind = {name.lower(): value for name, value in headers.items()}.get("content-type", "")
    headers_left: Json = {"warnings": sorted(warnings)} if warnings else {}
    return headers_left if kind == "application/json" else headers_left | {"type": kind}
