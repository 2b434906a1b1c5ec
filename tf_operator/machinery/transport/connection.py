"""HTTP: one pooled session to the apiserver, with credentials that stay fresh (``shared_config``).

The TLS context goes along with each request instead of being built into the session: a new CA simply starts to be used,
and connections under the old one finish what they are doing. A request that is answered with 401 is sent again if there
are newer credentials by then.

Everything that can go wrong on the way is one of ``errors``: callers never see aiohttp. Nothing else is sent twice
here, and no redirect is followed, because the token would go along.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from io import BytesIO
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.tracing import Trace
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig, ConfigSource
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.shared_config import SharedConfig
from tf_operator.machinery.transport.transport import Reply, no_guard
from tf_operator.text import one_line

CONNECT_WITHIN = 10.0
"""One attempt to reach one address, with the TLS handshake."""
PLACE_WITHIN = 30.0
"""Until there is a connection at all: a place in the pool, the name's addresses, and the attempts to reach them."""

LARGE = 256 * 1024


class _Reply:
    """The head of a reply; the body is read in one piece, or chunk by chunk by iterating."""

    def __init__(self, reply: aiohttp.ClientResponse) -> None:
        self._reply = reply
        self._transport = reply.connection.transport if reply.connection is not None else None

    @property
    def status(self) -> int:
        return self._reply.status

    def header(self, name: str) -> str | None:
        """A header, by its name in any spelling."""
        return self._reply.headers.get(name)

    async def read(self) -> bytes:
        try:
            return await self._reply.read()
        except _FAILURES as error:
            raise _api_error(error) from error

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._reply.content.readany()
        except _FAILURES as error:
            raise _api_error(error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def close(self) -> None:
        """Give the connection back; cut it if the body was not read to its end."""
        try:
            self._reply.release()
            await self._reply.wait_for_close()
        finally:
            _cut_off(self._transport)


_before_send: ContextVar[Callable[[], object]] = ContextVar("before_send", default=no_guard)
"""The guard of the request, for ``_Pool``, which aiohttp calls."""


class _GuardedPayload(aiohttp.payload.Payload):
    """Part of a body that asks the guard again, immediately before its first byte is written.

    Before Python 3.12 aiohttp writes a body not at once but in the next turn of the loop, which may come late: after
    much other work, or after the process was stopped and continued. If by then the caller's time limit has run out,
    too, the refusal is reported as the time limit: the request counts as one of unknown outcome, which is never wrong.
    """

    before_send: Callable[[], object] = no_guard
    refusal: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body; called by aiohttp, which takes whatever is raised here for a broken connection."""
        try:
            self.before_send()
        except Exception as refusal:
            self.refusal = refusal
            raise
        await super().write_with_length(writer, content_length)


class _BytesPayload(_GuardedPayload, aiohttp.payload.BytesPayload):
    """A body that is written at once."""


class _StreamedPayload(_GuardedPayload, aiohttp.payload.BytesIOPayload):
    """A large body, which goes piece by piece: written at once it would hold the event loop."""


class _Pool(aiohttp.TCPConnector):
    """Connections for requests; one that aiohttp will not use again is cut at once (``_cut_off``)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        self._waiting: dict[aiohttp.ClientRequest, asyncio.Transport] = {}

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 (aiohttp's signature)
    ) -> aiohttp.connector.Connection:
        """Hand out a connection of the pool, or a new one; called by the session.

        What must not be sent any more stops here, and leaves the connection to others. After this nothing waits before
        a request without a body is written; a body asks again itself.
        """
        connection = await super().connect(req, traces, timeout)
        try:
            _before_send.get()()
        except BaseException:
            connection.release()
            raise
        if connection.transport is not None:
            self._waiting[req] = connection.transport
        return connection

    async def exchange(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """A middleware: send and wait for the head of the reply; cut the connection if it cannot be used again.

        Errors are translated here, close to the wire, because aiohttp silently sends a PUT or DELETE again whose
        reply was lost, and the caller would take the second one's answer (a Conflict, a NotFound) for what became
        of the first. Errors of ours it does not know, so it leaves them alone.
        """
        try:
            return await handler(request)
        except _FAILURES as error:
            if isinstance(request.body, _GuardedPayload) and request.body.refusal:
                raise request.body.refusal from None
            raise _api_error(error) from error
        finally:
            _cut_off(self._waiting.pop(request, None))


class Connection:
    """An HTTP session for up to ``pool_size`` requests and watches at once; an async context manager.

    A place in the pool is taken for as long as a watch lasts: count the watches and the workers of all clients
    that share the connection. What must never wait for a place (the lease) gets a connection of its own.
    """

    def __init__(
        self,
        source: ConfigSource | SharedConfig,
        *,
        clock: Clock,
        user_agent: str = "tf-operator",
        pool_size: int = 100,
    ) -> None:
        """``source``: one of its own, or what several connections share."""
        self._config = source if isinstance(source, SharedConfig) else SharedConfig(source, clock=clock)
        self._clock = clock
        self._user_agent = user_agent
        self._pool_size = pool_size
        self._host = ""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._host = (await self._config.first()).host
        pool = _Pool(self._pool_size)
        self._session = aiohttp.ClientSession(
            connector=pool,
            # Other time limits are the caller's, on the Clock; a watch has none in all.
            timeout=aiohttp.ClientTimeout(total=None, connect=PLACE_WITHIN, sock_connect=CONNECT_WITHIN),
            middlewares=(pool.exchange,),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressed lists cost the apiserver and us more time than a cluster's network saves.
            headers={
                "User-Agent": self._user_agent,
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        await self._config.finish()
        if session is not None:
            await session.close()
            await self._clock.sleep(0)  # the sockets are closed in the next turn of the loop

    @property
    def host(self) -> str:
        return self._host

    @property
    def problem(self) -> str:
        """Why the credentials could not be read the last time; empty when they could."""
        return self._config.problem

    @asynccontextmanager
    async def send(self, request: Request, *, before_send: Callable[[], object] = no_guard) -> AsyncIterator[Reply]:
        """Send a request with credentials, after a 401 again with newer ones if there are any.

        ``before_send`` is called when there is a connection, and immediately before the request is written: what it
        raises is raised here, and nothing is sent.
        """
        config = await self._config.get()
        reply = await self._reply_to(request, config, before_send)
        try:
            if reply.status == 401 and (fresh := await self._config.renewed(config)) is not config:
                await reply.close()
                reply = await self._reply_to(request, fresh, before_send)
            yield reply
        finally:
            await reply.close()

    async def _reply_to(self, request: Request, config: ClientConfig, before_send: Callable[[], object]) -> _Reply:
        """Send a request once, with these credentials; the reply has to be closed."""
        if self._session is None:
            raise RuntimeError("the Connection is used outside of its 'async with'")
        headers = {"Authorization": config.authorization} if config.authorization else {}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        _before_send.set(before_send)
        try:
            reply = await self._session.request(
                request.method,
                # As it is: yarl would undo some of the quoting, and walk along dots.
                URL(f"{config.host}{request.path}", encoded=True),
                params=request.query,
                data=_payload(request.body, before_send),
                headers=headers,
                ssl=config.tls,
                server_hostname=config.server_name,
                proxy=config.proxy,
                allow_redirects=False,
            )
        except _FAILURES as error:
            raise _api_error(error) from error
        return _Reply(reply)


def _cut_off(transport: asyncio.Transport | None) -> None:
    """Cut a connection that aiohttp is closing: that of a watch, of a request that was given up, or half sent.

    aiohttp closes politely: TLS sends a close and waits half a minute for that of the other side, which may be
    dead, while the session, and even its end, knows no more about it.
    """
    if transport is not None and transport.is_closing():
        sockets.abort(transport)


def _payload(body: bytes | None, before_send: Callable[[], object]) -> _GuardedPayload | None:
    """A body that asks before it is written."""
    if body is None:
        return None
    payload = _StreamedPayload(BytesIO(body)) if len(body) > LARGE else _BytesPayload(body)
    payload.before_send = before_send
    return payload


_UNREACHABLE = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.NonHttpUrlClientError,
    ValueError,  # an invalid address
)
_FAILURES = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError, ValueError)
"""Whatever aiohttp raises of a request that did not end well."""


def _api_error(error: Exception) -> errors.ApiError:
    """What it means: what matters is whether the request was sent, and whether a reply is one."""
    if isinstance(error, _UNREACHABLE):
        return errors.Unreachable(_describe(error))
    if isinstance(error, aiohttp.ClientResponseError):
        # It shows what was sent, with the token, and where: for a proxy with the password.
        error.request_info = aiohttp.RequestInfo(URL(), "", CIMultiDictProxy(CIMultiDict()), URL())
        error.args = ()
        is_of_proxy = isinstance(error, aiohttp.ClientHttpProxyError)
        return (errors.Unreachable if is_of_proxy else errors.Garbled)(_describe(error))
    if isinstance(error, aiohttp.http.HttpProcessingError):
        return errors.Garbled(_describe(error))
    if isinstance(error, aiohttp.ClientPayloadError) and isinstance(error.__cause__, ContentEncodingError):
        return errors.Garbled(_describe(error))
    return errors.ReplyLost(_describe(error))


def _describe(error: Exception) -> str:
    """What happened, on one line. Without addresses of TLS contexts and passwords of proxies, which aiohttp adds."""
    if isinstance(error, aiohttp.ClientResponseError):
        return one_line(f"{type(error).__name__}: {error.status} {error.message}")
    cause = error.__cause__ if isinstance(error, aiohttp.ClientConnectorError) else None
    where = f" {error.host}:{error.port}" if isinstance(error, aiohttp.ClientConnectorError) else ""
    return one_line(f"{type(error).__name__}{where}: {cause or error}").removesuffix(": ")
