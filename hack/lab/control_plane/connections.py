"""Connections that are all closed when their session is.

aiohttp forgets a connection as soon as it may not be used again: one of a watch that was left early, or of a
request that was cancelled. Its TLS farewell then outlives the session, and the event loop with it: the
socket is found by the garbage collector, in another test.
"""

import asyncio
import ssl
from contextlib import suppress

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


class TidyConnector(aiohttp.TCPConnector):
    """Remembers every transport; ``abort_all`` cuts those that are still open, without a farewell."""

    def __init__(self, trust: ssl.SSLContext | bool = True) -> None:
        super().__init__(ssl=trust, limit=0)
        self._transports: set[asyncio.Transport] = set()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # aiohttp's signature
    ) -> Connection:
        """Connect, or take a connection that is open; called by the session."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport:
            self._transports.add(connection.transport)
        return connection

    async def abort_all(self) -> None:
        """To be awaited after the session was closed."""
        for transport in self._transports:
            abort(transport)
        self._transports.clear()
        await asyncio.sleep(0)  # the sockets are closed in the next turn of the loop


def abort(transport: asyncio.WriteTransport) -> None:
    """Cut a connection now. Python 3.11.2 raises ``AttributeError`` of one with TLS that was lost and then closed."""
    with suppress(AttributeError):
        transport.abort()
