"""The embedded API server over HTTPS on loopback, for kubectl and every other client.

    connection --> guard --> a Request value --> the state machine --> Response, or WatchStream line by line
                                            +--> pods/log: the node's log source

What HTTP adds to the state machine is here: who is let in, limits of sizes and times, chunks, and an end that loses
nothing. Every refusal is a Status. There is no compression: on loopback it would cost both sides more than it saves.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol
from urllib.parse import parse_qsl

import msgspec
from aiohttp import HttpVersion11, web

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.http import pod_logs
from tf_operator.local.apiserver.http.guard import Guard
from tf_operator.local.apiserver.messages import JSON, ApiFailure, Parts, Response
from tf_operator.local.log_source import LogSource
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.serving.streaming import StreamingServer
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import key_of

BODY_WITHIN: Final = 30.0
"""Seconds for the body of a request."""
IDLE: Final = 120.0
"""Seconds between two requests. Go's clients close a connection after 90 s: none sends when it is closed here."""
ENDED_WITHIN: Final = 2.0
"""Seconds that requests have when the server ends."""
LINGER: Final = 2.0
"""Seconds for which the rest of a body is read that was refused: otherwise the client might not see the answer."""
_MOST_PARAMETERS: Final = 100
_LONGEST_LINE: Final = 64 * 1024
"""A selector may be long."""
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
# What aiohttp reports are connections that broke and requests that are not HTTP.
_SILENT = logging.getLogger("tf_operator.local.apiserver.aiohttp")
_SILENT.disabled = True

_log = Logger(__name__)


class Watching(Protocol):
    """A watch, as the state machine answers it: a cursor over history, which never holds anything back."""

    @property
    def content_type(self) -> str:
        """Of the lines."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Beside the content type."""

    @property
    def wakes_at(self) -> float:
        """When there may be news without a change, by the monotonic clock."""

    @property
    def is_ended(self) -> bool:
        """Whether no more lines will come."""

    def news(self) -> list[bytes]:
        """The next lines; empty when there are none now."""

    def on_news(self, callback: Callable[[], object]) -> None:
        """Whom to call when there are some."""

    def close(self) -> None:
        """Nobody reads any more."""


Handle = Callable[[Request], Response | Watching | Parts]


@asynccontextmanager
async def serving(
    handle: Handle, listener: socket.socket, *, guard: Guard, tls: ssl.SSLContext, logs: LogSource, clock: Clock
) -> AsyncIterator[None]:
    site = _Site(handle, guard=guard, logs=logs, clock=clock)
    async with site.accepting(listener, tls=tls, ends_within=ENDED_WITHIN):
        yield


def listen(port: int = 0) -> socket.socket:
    """A socket on loopback: at this port if it is free, otherwise at another one."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError):
        return socket.create_server(("127.0.0.1", 0))


class _Protocol(web.RequestHandler):
    """aiohttp's protocol, which answers what is no HTTP with a Status, too."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,  # noqa: ARG002 (aiohttp's signature)
        message: str | None = None,  # noqa: ARG002 (as above)
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer has been sent")
        failure = ApiFailure(status, "BadRequest" if status < 500 else "InternalError", "the request is not valid HTTP")
        response = web.Response(status=status, body=msgspec.json.encode(failure.status()), content_type=JSON)
        response.force_close()
        return response


class _Site(StreamingServer):
    def __init__(self, handle: Handle, *, guard: Guard, logs: LogSource, clock: Clock) -> None:
        super().__init__(self._answer, clock)
        self._handle_request = handle
        self._guard = guard
        self._logs = logs
        self._clock = clock

    def __call__(self) -> _Protocol:
        return _Protocol(
            self,
            loop=asyncio.get_running_loop(),
            logger=_SILENT,
            access_log=None,  # type: ignore[arg-type] # None is allowed: there is no log of requests then
            lingering_time=LINGER,
            auto_decompress=False,
            keepalive_timeout=IDLE,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE // 2,
            max_headers=64,
        )

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            self._guard.check(http.headers)
            self.admit(http)
            return await self._dispatch(http)
        except ApiFailure as failure:
            return await self._send(http, Response.of(failure.status(), failure.code), closes=failure.code == 413)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 (the client gets a Status, and the log says why)
            _log.exception("a request failed", method=http.method, path=http.path)
            unknown = ApiFailure(500, "InternalError", "an internal error occurred; the server's log says which")
            return await self._send(http, Response.of(unknown.status(), 500), closes=True)

    async def _dispatch(self, http: web.BaseRequest) -> web.StreamResponse:
        if http.path in _HEALTH and http.method in ("GET", "HEAD"):
            return await self._send(http, Response(200, b"ok", "text/plain; charset=utf-8"))
        request = await self._received(http)
        match = pod_logs.PATH.fullmatch(request.path)
        if match and request.method == "GET":
            return await self._log(http, request, match)
        answer = self._handle_request(request)
        if isinstance(answer, Generator):
            answer = await self._whole(answer)
        if isinstance(answer, Response):
            return await self._send(http, answer)
        return await self._watch(http, answer)

    async def _whole(self, parts: Parts) -> Response:
        """Other requests have their turn between two parts."""
        while True:
            try:
                next(parts)
            except StopIteration as end:
                response: Response = end.value
                return response
            await self._clock.sleep(0)

    async def _received(self, http: web.BaseRequest) -> Request:
        """The request as a value; ``ApiFailure`` if it is too large or none."""
        path, _, query = http.raw_path.partition("?")
        try:
            parameters = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError as error:
            raise failures.bad_request(f"more than {_MOST_PARAMETERS} parameters") from error
        if http.headers.get("Content-Encoding", "identity") != "identity":
            raise ApiFailure(415, "UnsupportedMediaType", "the body has to be sent without Content-Encoding")
        body, media = await self._body(http), http.headers.get("Content-Type", JSON)
        return Request(
            verb=http.method.lower(),
            method="GET" if http.method == "HEAD" else http.method,
            path=path,
            query=dict(reversed(parameters)),  # the first one counts
            body=body or None,
            content_type=media,
            accept=http.headers.get("Accept", JSON),
        )

    async def _body(self, http: web.BaseRequest) -> bytes:
        too_large = failures.too_large()
        if (http.content_length or 0) > failures.LONGEST_BODY:
            raise too_large
        if http.headers.get("Expect", "").lower() == "100-continue":
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            http.writer.output_size = 0
        body = bytearray()
        try:
            async with self._clock.timeout(BODY_WITHIN):
                async for piece in http.content.iter_any():
                    body += piece
                    if len(body) > failures.LONGEST_BODY:
                        raise too_large
        except TimeoutError as error:
            raise ApiFailure(408, "Timeout", f"the body has not come within {BODY_WITHIN:.0f} s") from error
        except web.RequestPayloadError as error:
            raise failures.bad_request("the body is not what its headers say") from error
        return bytes(body)

    async def _send(self, http: web.BaseRequest, answer: Response, *, closes: bool = False) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.code, headers=_headers(answer.content_type, answer.headers))
        response.content_length = len(answer.body)
        # Whoever is not let in, has no claim to a connection; a body that was not read is not a request to come.
        if closes or answer.code in (401, 403) or self.is_ending or not http.content.is_eof():
            response.force_close()
        await response.prepare(http)
        if http.method != "HEAD":
            await self.write(http, response, answer.body)
        return response

    async def _watch(self, http: web.BaseRequest, watch: Watching) -> web.StreamResponse:
        wakeup = asyncio.Event()
        watch.on_news(wakeup.set)
        self.streams.add(wakeup)
        try:
            response = await self._stream(http, watch.content_type, watch.headers)
            while not (watch.is_ended or self.is_ending or http.method == "HEAD"):
                wakeup.clear()
                if lines := watch.news():
                    await self.write(http, response, b"".join(lines))
                elif not watch.is_ended:
                    await self._wait(wakeup, until=watch.wakes_at)
        finally:
            self.streams.discard(wakeup)
            watch.close()
        return response

    async def _stream(
        self, http: web.BaseRequest, content_type: str, others: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """The head of an answer of unknown length: one without chunks ends with the connection."""
        response = web.StreamResponse(headers=_headers(content_type, others))
        if http.version >= HttpVersion11 and http.method != "HEAD":
            response.enable_chunked_encoding()
        else:
            response.force_close()
        await response.prepare(http)
        return response

    async def _wait(self, wakeup: asyncio.Event, *, until: float) -> None:
        timer = self._clock.call_at(until, wakeup.set)
        try:
            await wakeup.wait()
        finally:
            timer.cancel()

    async def _log(self, http: web.BaseRequest, request: Request, where: re.Match[str]) -> web.StreamResponse:
        answer = self._handle_request(Request("get", "GET", where["pod"]))
        if not isinstance(answer, Response) or answer.code != 200:
            return await self._send(http, answer if isinstance(answer, Response) else Response(404, b""))
        pod = msgspec.json.decode(answer.body)
        log_request = pod_logs.parse(request.query, pod, self._clock.now())
        pieces = log_request.read(self._logs, key_of(pod)) if log_request else None
        response = await self._stream(http, "text/plain")
        if pieces:
            async for piece in pieces:
                await self.write(http, response, piece)
        return response


def _headers(content_type: str, others: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"Content-Type": content_type, "Cache-Control": "no-cache, private", "Server": "tfjob", **(others or {})}
