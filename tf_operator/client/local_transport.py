"""A connection to a local server. A cluster comes back; a server of one's own may be gone for good.

Whoever follows a job waits for as long as the API server does not answer. Where it is a local server that does not run,
that would be for ever: after a while, in which somebody may start it again, requests fail with ``ServerGone``.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.errors import ApiError, Unreachable
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.transport import Reply, Transport, no_guard

GONE_AFTER: Final = 10.0
"""Seconds without a server."""


class ServerGone(ApiError):
    """The local server has ended, and nobody has started it again; the message says how to."""


class LocalTransport:
    """``stopped`` says that no server runs, and what starts it; nothing while one does."""

    def __init__(self, transport: Transport, stopped: Callable[[], str], clock: Clock) -> None:
        self._transport = transport
        self._stopped = stopped
        self._clock = clock
        self._gone_since: float | None = None

    @property
    def host(self) -> str:
        return self._transport.host

    @property
    def problem(self) -> str:
        return self._transport.problem

    @asynccontextmanager
    async def send(self, request: Request, *, before_send: Callable[[], object] = no_guard) -> AsyncIterator[Reply]:
        try:
            async with self._transport.send(request, before_send=before_send) as reply:
                self._gone_since = None
                yield reply
        except Unreachable as error:
            sentence, now = self._stopped(), self._clock.monotonic()
            if not sentence:
                self._gone_since = None
                raise
            self._gone_since = now if self._gone_since is None else self._gone_since
            if now - self._gone_since >= GONE_AFTER:
                raise ServerGone(sentence) from error
            raise
