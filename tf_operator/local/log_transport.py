"""A transport that answers ``pods/log`` from the node of this process, and leaves everything else to the API server.

Over HTTP, ``apiserver.http`` does the same: no state machine can answer with what a program has yet to print.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from re import Match

import msgspec

from tf_operator.local.apiserver.http import pod_logs
from tf_operator.local.apiserver.in_process import WholeReply
from tf_operator.local.apiserver.messages import ApiFailure, Response
from tf_operator.local.log_source import LogSource
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.transport import Reply, Transport, no_guard
from tf_operator.meta import key_of


class LogTransport:
    """What clients in the process of a local server are given."""

    def __init__(self, server: Transport, logs: LogSource, clock: Clock) -> None:
        self._server = server
        self._logs = logs
        self._clock = clock
        self.host, self.problem = server.host, ""

    def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AbstractAsyncContextManager[Reply]:
        match = pod_logs.PATH.fullmatch(request.path)
        if match and request.method == "GET":
            return self._log(request, match)
        return self._server.send(request, before_send=before_send)

    @asynccontextmanager
    async def _log(self, request: Request, match: Match[str]) -> AsyncIterator[Reply]:
        async with self._server.send(Request("get", "GET", match["pod"])) as reply:
            if reply.status != 200:
                yield reply
                return
            pod = msgspec.json.decode(await reply.read())
        try:
            log_request = pod_logs.parse(request.query, pod, self._clock.now())
            pieces = log_request.read(self._logs, key_of(pod)) if log_request else None
        except ApiFailure as failure:
            yield WholeReply(Response.of(failure.status(), failure.code))
            return
        if pieces is None:
            yield WholeReply(Response(200, b"", "text/plain"))
            return
        async with aclosing(pieces):  # type: ignore[type-var] # an asynchronous generator, as its contract says
            yield _LogReply(pieces)


class _LogReply:
    status = 200

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def header(self, _name: str) -> str | None:
        return None

    async def read(self) -> bytes:
        """All of it, when it has ended."""
        return b"".join([piece async for piece in self._pieces])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces
