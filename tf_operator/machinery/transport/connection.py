"""Requests to the apiserver over one pool of connections, with credentials that stay fresh (``shared_config``).

A new CA simply starts to be used: connections under the old one finish what they are doing. A request that is answered
with 401 is sent again if there are newer credentials by then. Nothing else is sent twice here, and no redirect is
followed, because the token would go along.

Everything that can go wrong on the way is one of ``errors``.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig, ConfigSource
from tf_operator.machinery.transport.http.pool import Pool
from tf_operator.machinery.transport.http.route import HttpRoute, Way
from tf_operator.machinery.transport.http.wire import Wire
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.shared_config import SharedConfig
from tf_operator.machinery.transport.transport import no_guard
from tf_operator.text import one_line


class Connection:
    """Up to ``pool_size`` requests and watches at once; an async context manager.

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
        self._pool: Pool | None = None
        self._route: tuple[ClientConfig, HttpRoute] | None = None

    async def __aenter__(self) -> Self:
        self._host = (await self._config.first()).host
        self._pool = Pool(self._pool_size, clock=self._clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, self._pool = self._pool, None
        await self._config.finish()
        if pool is not None:
            pool.close()
            await self._clock.sleep(0)  # the sockets are closed in the next turn of the loop

    @property
    def host(self) -> str:
        return self._host

    @property
    def problem(self) -> str:
        """Why the credentials could not be read the last time; empty when they could."""
        return self._config.problem

    def send(self, request: Request, *, before_send: Callable[[], object] = no_guard) -> "Exchange":
        """Send a request with credentials, after a 401 again with newer ones if there are any.

        ``before_send`` is called when there is a connection, immediately before the request is written: what it raises
        is raised here, and nothing is sent.
        """
        return Exchange(self._config, self._start, request, before_send)

    async def _start(self, request: Request, config: ClientConfig, before_send: Callable[[], object]) -> "_Reply":
        """Send a request once, with these credentials; the reply has to be closed."""
        if self._pool is None:
            raise RuntimeError("the Connection is used outside of its 'async with'")
        route = self._route_of(config, request)
        head = route.head(request)
        reply = _Reply(self._pool, route.way, await self._pool.take(route.way))
        try:
            before_send()
            await reply.wire.send(head, request.body or b"")
        except BaseException:
            reply.close()
            raise
        return reply

    def _route_of(self, config: ClientConfig, request: Request) -> HttpRoute:
        if self._route is None or self._route[0] is not config:
            try:
                self._route = config, HttpRoute(config, user_agent=self._user_agent)
            except ValueError as error:
                raise errors.Unreachable(one_line(f"{config.host}{request.path}: {error}")) from error
        return self._route[1]


class Exchange:
    """A request, and its reply: an async context manager. A class, because it is made for every call."""

    __slots__ = ("_before_send", "_config", "_reply", "_request", "_start")

    def __init__(
        self, config: SharedConfig, start: "_Start", request: Request, before_send: Callable[[], object]
    ) -> None:
        self._config = config
        self._start = start
        self._request = request
        self._before_send = before_send
        self._reply: _Reply | None = None

    async def __aenter__(self) -> "_Reply":
        config = await self._config.get()
        reply = await self._start(self._request, config, self._before_send)
        if reply.status == 401:
            try:
                new_config = await self._config.renewed(config)
            except BaseException:
                reply.close()
                raise
            if new_config is not config:
                reply.close()
                reply = await self._start(self._request, new_config, self._before_send)
        self._reply = reply
        return reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reply is not None:
            self._reply.close()


class _Reply:
    """The head of a reply; the body is read in one piece, or piece by piece by iterating."""

    __slots__ = ("_pool", "_way", "wire")

    def __init__(self, pool: Pool, way: Way, wire: Wire) -> None:
        self._pool = pool
        self._way = way
        self.wire = wire

    @property
    def status(self) -> int:
        return self.wire.status

    def header(self, name: str) -> str | None:
        """A header, by its name in any spelling."""
        return self.wire.header(name)

    async def read(self) -> bytes:
        return await self.wire.read()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self.wire.read_piece()
        if not piece:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        """Give the connection back; if the reply was not read to its end, it is cut."""
        self._pool.give_back(self._way, self.wire)


_Start = Callable[[Request, ClientConfig, Callable[[], object]], Awaitable[_Reply]]
