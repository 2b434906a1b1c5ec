"""An apiserver that follows a script: one reply for each request, in order. A Transport without a socket.

    server = ScriptedTransport(
        clock,
        Watch(added(thing("a", 1)), mark(5), 240.0),          # a streamed list;  then 240 s of silence; then EOF
        errors.Unreachable("refused"),                         # instead of a reply
        page([thing("a", 7)], version=8),
    )

What was asked, and when, is in ``requests`` and ``times``. When the script is over, requests hang for ever, as in a
quiet watch. The question how far it is (a list of one object) is no part of the script: ``position`` answers it.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from support.fake_clock import FakeClock
from support.resources import Json
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ATTEMPTS, ApiClient
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.responses import INITIAL_EVENTS_END
from tf_operator.machinery.transport.transport import Reply, Transport, no_guard

Step = bytes | float | Exception
"""Of a watch: a chunk, seconds of silence, or how it breaks off."""


class Watch:
    """An accepted watch: its steps, then a clean end."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps


class Hang:
    """No answer, not even a refusal. ``Watch(..., 1e9)`` hangs after it was accepted."""


Answer = Watch | Hang | bytes | Exception


class ScriptedReply:
    """A reply of 200: a body, or chunks as they come."""

    status = 200

    def __init__(self, content: bytes | AsyncIterator[bytes]) -> None:
        self._chunks = _whole(content) if isinstance(content, bytes) else content

    def header(self, _name: str) -> None:
        """There are none."""

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self._chunks])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


class InMemory:
    host = "in memory"
    problem = ""


class Routed(InMemory):
    """Several transports as one: ``of`` has them by a part of the path, or by several; ``part`` says which."""

    def __init__(self, of: Mapping[str, Transport], *, part: int | slice) -> None:
        self.of = of
        self._part = part if isinstance(part, slice) else slice(part, part + 1 or None)

    def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AbstractAsyncContextManager[Reply]:
        return self.of["/".join(request.path.split("/")[self._part])].send(request, before_send=before_send)


def client_of(transport: Transport, clock: Clock, *, attempts: int = ATTEMPTS) -> ApiClient:
    """A client that waits for nothing of its own: neither a budget nor a time limit."""
    budget = TokenBucket(clock, qps=math.inf, burst=1)
    return ApiClient(transport, clock=clock, budget=budget, reply_within=1e12, attempts=attempts)


class ScriptedTransport(InMemory):
    """Replies from a script, on a fake clock."""

    def __init__(self, clock: FakeClock, *script: Answer) -> None:
        self._clock = clock
        self._start = clock.monotonic()
        self.script = list(script)
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.open_watches = 0
        self.position: int | Exception = 10**9
        """Further than any history; set it back for one that has been restored from a snapshot."""
        self.times_asked_for_position = 0

    @property
    def queries(self) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.requests]

    @asynccontextmanager
    async def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AsyncIterator["ScriptedReply"]:
        before_send()
        if request.query.get("limit") == "1":
            self.times_asked_for_position += 1
            if isinstance(self.position, Exception):
                raise self.position
            yield ScriptedReply(page([], version=self.position))
            return
        reply = await self._next(request)
        if isinstance(reply, bytes):
            assert request.verb != "watch", f"the script has a body where {request} came"
            yield ScriptedReply(reply)
            return
        assert isinstance(reply, Watch), f"the script has {reply} where {request} came"
        assert request.verb == "watch", f"the script has a watch where {request} came"
        self.open_watches += 1
        try:
            yield ScriptedReply(self._played(reply))
        finally:
            self.open_watches -= 1

    async def _next(self, request: Request) -> Answer:
        self.requests.append(request)
        self.times.append(self._clock.monotonic() - self._start)
        reply = self.script.pop(0) if self.script else Hang()
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _played(self, watch: Watch) -> AsyncIterator[bytes]:
        for step in watch.steps:
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, Exception):
                raise step
            else:
                await self._clock.sleep(step)


def line(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def added(body: Json) -> bytes:
    return line("ADDED", body)


def modified(body: Json) -> bytes:
    return line("MODIFIED", body)


def deleted(body: Json) -> bytes:
    """A DELETED line: the body is the final state, with the version of the deletion."""
    return line("DELETED", body)


def bookmark(version: int | str) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def mark(version: int | str) -> bytes:
    """The bookmark that ends a streamed list."""
    annotations = {INITIAL_EVENTS_END: "true"}
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def failure(code: int, reason: str = "", message: str = "") -> bytes:
    """An ERROR line: a Status inside of a stream that began with 200."""
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": message})


def page(items: Iterable[Json], *, version: int | str, token: str = "") -> bytes:
    metadata = {"resourceVersion": str(version), "continue": token}
    return json.dumps({"kind": "List", "metadata": metadata, "items": list(items)}).encode()
