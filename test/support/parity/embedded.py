"""The embedded API server as somebody who answers conversations, without sockets."""

import json
from collections.abc import Iterable
from urllib.parse import unquote

from support.fake_clock import FakeClock
from support.parity.players import Answer, OpenWatch, compared_headers, decoded, encoded, event
from support.parity.script import Step
from support.resources import Json
from tf_operator.app import local
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import JSON, Request


class EmbeddedServer:
    """One server of its own, with the kinds of these CRDs."""

    def __init__(self, crds: Iterable[Json]) -> None:
        self._clock = FakeClock()
        self._server = ApiServer(self._clock, kinds=catalog.KINDS)
        for crd in crds:
            self._create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for body in local.FIRST:
            local.install(self._server, body)
        self.make_namespaces([])

    def make_namespaces(self, names: Iterable[str]) -> None:
        """Some in which pods can be created."""
        for name in names:
            self._create("/api/v1/namespaces", {"metadata": {"name": name}})
        while self._server.collect():
            pass

    def _create(self, path: str, body: Json) -> None:
        answer = self._server.handle(Request("", "POST", path, body=json.dumps(body).encode()))
        assert answer.code == 201, answer

    def ask(self, step: Step, target: str, body: str | None) -> Answer:
        response = self._server.handle(self._request(step, target, body))
        if isinstance(response, Response):
            return self._whole(response)
        lines = [event(line) for line in response.news()]
        response.close()
        return Answer(200, lines, self.now())

    def watch(self, step: Step, target: str) -> "Answer | OpenWatch":
        response = self._server.handle(self._request(step, target, None))
        return self._whole(response) if isinstance(response, Response) else _EmbeddedWatch(response)

    def pause(self) -> bool:
        return self._server.collect()

    def now(self) -> float:
        return self._clock.now().timestamp()

    def _request(self, step: Step, target: str, body: str | None) -> Request:
        path, _, query = target.partition("?")
        pairs = [part.partition("=") for part in query.split("&") if part]
        return Request(
            "",
            "GET" if step.method == "WATCH" else step.method,
            path,
            {name: unquote(value) for name, _, value in pairs},
            None if body is None else encoded(body, step.content_type),
            step.content_type if body is not None else JSON,
            accept=step.accept,
        )

    def _whole(self, response: Response) -> Answer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        warnings = [text for text in headers.get("warning", "").split(", 299 - ") if text]
        warnings = [text if text.startswith("299 - ") else f"299 - {text}" for text in warnings]
        return Answer(
            response.code,
            decoded(response.body),
            self.now(),
            compared_headers({"content-type": response.content_type}, warnings),
        )


class _EmbeddedWatch:
    def __init__(self, stream: WatchStream) -> None:
        self._stream = stream
        self._events: list[Json] = []

    def read(self, count: int) -> list[Json]:
        self._events += [event(line) for line in self._stream.news()]
        events, self._events = self._events[:count], self._events[count:]
        return events

    def rest(self) -> list[Json]:
        events = self.read(1_000_000)
        self.close()
        return events

    def close(self) -> None:
        self._stream.close()
