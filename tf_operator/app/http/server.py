"""/metrics, /healthz and /readyz, served by aiohttp on an event loop of its own in one thread.

A thread of its own, because a liveness probe has to find out whether the operator's event loop is stuck; a server on
that loop would be stuck with it. An event loop, because clients that are slow or silent then cost a socket and no
thread. A policy bounds the number of connections and their time; after a page each is closed.

    with server.serving(Endpoint(address, {path: page})): ...     # ServerError when an address cannot be had

Neighbours: ``endpoints`` says which page is where, ``health`` and ``metrics.exposition`` what they say,
``metrics_auth`` who may read them, ``certificates`` what they are served with.
"""

import asyncio
import logging
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

from aiohttp import web

from tf_operator.app.http import policies
from tf_operator.app.http.room import LARGEST, BodyRoom, NeverFits, NoRoom, Place
from tf_operator.app.options.flag_types import Address
from tf_operator.machinery import event_loop
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.serving.connections import ConnectionPolicy, Connections

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_CHUNK = 64 * 1024
_BACKLOG = 128
_LONGEST_HEADER = 32 * 1024
"""A bearer token may have 16 kB."""
_MOST_HEADERS = 32
"""So a request takes at most a megabyte; Prometheus sends ten headers."""
_AGAIN = {**_TEXT, "Retry-After": "1"}
"""An API server then sends the same again, up to ten times."""
# What aiohttp reports here are connections that broke and requests that are not HTTP: the other side's affair.
_SILENT = logging.getLogger("tf_operator.app.http.aiohttp")
_SILENT.disabled = True

_log = Logger(__name__)


class ServerError(Exception):
    """An address cannot be listened on; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=_TEXT.copy)
    is_admitted: bool = False
    """Whether the client has proved who it is: then those that have not make room before it does."""
    is_shared: bool = False
    """Whether it has proved that it brings the requests of many clients: then all others make room before it does."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    headers: Mapping[str, str] = field(default_factory=dict)
    """Their names have no case."""
    client: str = ""
    """The address that it comes from, without a port."""
    path: str = ""


Page = Callable[[PageRequest], Awaitable[HttpReply]]
"""Makes the reply to one request; runs on the server's loop."""


Answer = Callable[[PageRequest, bytes], Awaitable[HttpReply]]
"""Makes the reply to what was sent; runs on the server's loop."""


class Endpoint(NamedTuple):
    """Pages, by path, at one address."""

    address: Address
    pages: Mapping[str, Page]
    tls: Callable[[], ssl.SSLContext] | None = None
    """Called for each connection; without it there is no TLS."""
    answers: Mapping[str, Answer] = {}
    """By path, what replies to a POST; one that ends with ``/`` stands for all paths below it."""
    listener: socket.socket | None = None
    """One that listens at the address already."""
    policy: ConnectionPolicy | None = None
    """``None`` for that of pages, or of reviews."""
    longest: int = LARGEST
    """Bytes of a body."""
    on_refused: Callable[[], object] = lambda: None
    """Called for each connection for whose TLS handshake there is no time."""
    on_end: Callable[[], object] = lambda: None
    """Called on the server's loop when it ends."""


@contextmanager
def serving(*endpoints: Endpoint) -> Iterator[tuple[Address, ...]]:
    """Serve endpoints until the block is left; yields the addresses that were bound."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(endpoint.listener or _listener(endpoint.address)) for endpoint in endpoints]
        thread = _ServerThread(list(zip(endpoints, listeners, strict=True)))
        thread.start()
        stack.callback(thread.stop)
        yield tuple(Address(*listener.getsockname()[:2]) for listener in listeners)


def _listener(address: Address) -> socket.socket:
    """A socket that listens there; with an empty host on every address, of both families where there are two."""
    try:
        if not address.host and socket.has_dualstack_ipv6():
            listener = socket.create_server(
                ("", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
            )
        else:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listener = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # The system's words: Python's repeat the address. A name that is nowhere has a number below zero.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise ServerError(f"cannot listen on {address}: {reason}") from error
    listener.settimeout(0)
    return listener


class _ServerThread:
    """A thread with an event loop that serves some endpoints."""

    def __init__(self, endpoints: list[tuple[Endpoint, socket.socket]]) -> None:
        self._endpoints = endpoints
        self._started: Future[Callable[[], object]] = Future()
        """How to stop it, once it runs."""
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Return when the loop runs; ``ServerError`` when it cannot."""
        try:
            self._thread.start()
            self._started.result()
        except (OSError, RuntimeError) as error:  # no file descriptor, or no thread, is left
            places = ", ".join(str(endpoint.address) for endpoint, _ in self._endpoints)
            raise ServerError(f"the server at {places} cannot start: {error}") from error

    def stop(self) -> None:
        with suppress(RuntimeError):  # its loop has ended already
            self._started.result()()
        self._thread.join()

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                event_loop.run(self._serve())
        except Exception as error:  # noqa: BLE001 (who starts it raises it; later, the log says it)
            if not self._started.done():
                self._started.set_exception(error)
            else:
                places = [str(endpoint.address) for endpoint, _ in self._endpoints]
                _log.exception("a server has failed", addresses=places)

    async def _serve(self) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for endpoint, listener in self._endpoints:
                stack.callback(endpoint.on_end)
                tasks.create_task(_Site(endpoint, clock, tasks).open.accept(listener))


class _Site(web.Server):
    """One endpoint: answers the requests of its connections."""

    def __init__(self, endpoint: Endpoint, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        super().__init__(
            self._handle,
            # What waits for its turn would pile up. A page is for all who ask for it, so nobody gives it up.
            handler_cancellation=bool(endpoint.answers),
            logger=_SILENT,
            access_log=None,
            lingering_time=0.0,
            auto_decompress=False,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        )
        self._pages = endpoint.pages
        self._answers = endpoint.answers
        self._allowed = ("GET", "HEAD") * bool(self._pages) + ("POST",) * bool(self._answers)
        self._room = BodyRoom(clock)
        self._longest = endpoint.longest
        policy = endpoint.policy or (policies.REVIEWS if self._answers else policies.PAGES)
        self.open = Connections(self, policy, clock, tasks=tasks, tls=endpoint.tls, on_refused=endpoint.on_refused)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.open.on_lost(handler)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, and close its connection unless it was one that others may follow."""
        self.open.on_request_begun(request.protocol)
        reply, is_kept = HttpReply(503, b"There is no room for this body now; send it again.\n", _AGAIN), False
        with self._room.place(request.remote or "") as place:  # until the reply is read: who is slow makes no room
            try:
                with place.cancelled_for_others():
                    reply, is_kept = await self._answer(request, place)
            except NoRoom:
                self._room.leave(place)
            except NeverFits as error:
                reply = HttpReply(413, f"There is room for {error.args[0]} bytes.\n".encode())
            if reply.headers is _AGAIN:
                await _drain(request)  # or the reply might be lost with the connection
            self.open.on_reply(request.protocol)
            place.make_way = partial(self.open.close, request.protocol)
            response = await self._send(request, reply, is_kept=is_kept)
        if is_kept:
            self.open.on_reply_sent(request.protocol)
        return response

    async def _answer(self, request: web.BaseRequest, place: Place) -> tuple[HttpReply, bool]:
        """The reply, and whether another request may follow."""
        has_body = request.method == "POST" and _place_in(self._answers, request.path) in self._answers
        if has_body and request.content_length is None:  # chunks cost time before anybody knows how many there are
            return HttpReply(411, b"A body needs a Content-Length, and not chunks.\n"), False
        if has_body and (request.content_length or 0) > self._longest:
            raise NeverFits(self._longest)
        # Before this counts as a request: who never sends the end of a body has no claim to a place.
        body = await _read_body(request, place.take) if has_body else b""
        place.is_complete = True
        self.open.on_request(request.protocol)
        reply = await self._reply(request, body)
        self.open.on_request(request.protocol, is_admitted=reply.is_admitted, is_shared=reply.is_shared)
        if has_body:
            place.take(max(0, len(reply.body) - len(body)))
        return reply, has_body and request.keep_alive

    async def _send(self, request: web.BaseRequest, reply: HttpReply, *, is_kept: bool) -> web.StreamResponse:
        headers = {**reply.headers, "Server": "tf-operator"}
        is_short = len(reply.body) <= _CHUNK
        response: web.StreamResponse
        if is_short:  # by one write, with its headers
            response = web.Response(status=reply.status, headers=headers, body=reply.body)
        else:
            response = web.StreamResponse(status=reply.status, headers=headers)
            response.content_length = len(reply.body)
        if not is_kept:
            response.force_close()
        with suppress(ConnectionError):  # the client has gone
            await response.prepare(request)
            # In pieces: what a slow client has not read yet must not be copied for it.
            for start in range(0, len(reply.body), _CHUNK) if not is_short and request.method != "HEAD" else ():
                await response.write(memoryview(reply.body)[start : start + _CHUNK])
            await response.write_eof()
        return response

    async def _reply(self, request: web.BaseRequest, body: bytes) -> HttpReply:
        if request.method not in self._allowed:
            text = f"Allowed here: {' and '.join(self._allowed)}.\n"
            return HttpReply(405, text.encode(), {"Allow": ", ".join(self._allowed), **_TEXT})
        handlers = self._answers if request.method == "POST" else self._pages
        if (place := _place_in(handlers, request.path)) not in handlers:
            return HttpReply(404, f"There is {' and '.join(sorted(handlers))} here.\n".encode())
        try:
            page_request = PageRequest(request.headers, request.remote or "", request.path)
            if request.method == "POST":
                return await self._answers[place](page_request, body)
            return await self._pages[place](page_request)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 (the client gets a status, and the log says why)
            _log.exception("a page could not be rendered", path=request.path)
            return HttpReply(500, b"This page could not be rendered; see the log.\n")


def _place_in(handlers: Mapping[str, object], path: str) -> str:
    """Where it stands what replies at this path: there, or for all paths of a folder."""
    return next((place for place in handlers if place.endswith("/") and path.startswith(place)), path)


async def _read_body(request: web.BaseRequest, take: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for piece in request.content.iter_any():
        take(len(piece))
        body += piece
    return bytes(body)


async def _drain(request: web.BaseRequest) -> None:
    """Read the rest of a body, and keep nothing; the policy says for how long."""
    async for _ in request.content.iter_any():
        pass
