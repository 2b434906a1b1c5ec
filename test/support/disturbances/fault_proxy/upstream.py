"""The apiservers behind the fault proxy.

Nothing is tidied up on this side: no redirect is followed, no body decompressed, no timeout added, no header invented.
A bearer token goes up as the client sent it.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakSet

import aiohttp
from yarl import URL

from lab.kubeconfig import Access
from support.disturbances.fault_proxy.messages import Body, Cut, Ending, Reply, Request, end_to_end, header, with_header

_TICK = 0.005
_NEVER_INVENTED = frozenset({"User-Agent", "Accept", "Accept-Encoding", "Content-Type"})


class Upstream:
    """One apiserver. Used on the proxy's event loop only."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    @asynccontextmanager
    async def send(self, request: Request, *, is_plain: bool) -> AsyncIterator[Reply]:
        """Forward a request and give the reply as it arrives; raise Cut where there is none.

        With *is_plain* the apiserver is asked not to compress, so that lines can be read. Leaving the context
        ends the request, with its connection if the reply was not read to its end.
        """
        headers = end_to_end(request.headers)
        if is_plain:
            headers = with_header(headers, "Accept-Encoding", "identity")
        url = URL(self._access.server + request.target, encoded=True)
        try:
            response = await self._connected().request(
                request.method, url, headers=headers, data=request.body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError) as error:
            raise Cut(Ending.RST) from error
        async with response:
            yield _reply_of(request, response)

    async def close(self) -> None:
        """Close all connections, and return when they are closed."""
        if self._session:
            await self._session.close()
        # aiohttp leaves a connection that was dropped in mid-reply to its TLS goodbye, which may take 30 s.
        for open_socket in self._open_sockets():
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        while self._open_sockets():
            await asyncio.sleep(_TICK)

    def _open_sockets(self) -> list[socket.socket]:
        return [opened for opened in self._sockets if opened.fileno() != -1]

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        opened = socket.socket(family, kind, protocol)
        self._sockets.add(opened)
        return opened

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._access.trust(), limit=0, socket_factory=self._socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NEVER_INVENTED,
                auto_decompress=False,
            )
            # aiohttp would send a PUT or a DELETE a second time when the connection ends before the reply.
            self._session._retry_connection = False
        return self._session


def _reply_of(request: Request, response: aiohttp.ClientResponse) -> Reply:
    headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in response.raw_headers]
    has_body = request.method != "HEAD" and response.status not in {204, 304}
    length = header(headers, "Content-Length") if has_body else "0"
    return Reply(response.status, end_to_end(headers), _body(response), int(length) if length else None)


async def _body(response: aiohttp.ClientResponse) -> Body:
    try:
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise Cut(Ending.FIN) from error
