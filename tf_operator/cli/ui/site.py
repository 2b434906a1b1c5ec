"""The pages over HTTP on loopback: files, and streams of events that keep them up to date.

    /?token=...                      exchanges the token for the cookie, and leads to the table
    PATH/                            the table of jobs
    PATH/jobs/KIND/NAMESPACE/NAME    the page of one job
    PATH/stream, PATH/stream/KIND/NAMESPACE/NAME, PATH/yaml/KIND/NAMESPACE/NAME: what they show
    PATH/change/KIND/NAMESPACE/NAME  changes the job, by POST with the token of its page

Every answer forbids the browser to run or load anything that is not this server's own.
"""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from importlib import resources
from typing import Final

from aiohttp import web

from tf_operator.cli import failures
from tf_operator.cli.ui import changes, feed, job_page
from tf_operator.cli.ui.board import Board
from tf_operator.cli.ui.feed import Cursor, Feed, SharedFeeds, TooMany
from tf_operator.cli.ui.guard import BrowserGuard, NotLetIn
from tf_operator.cli.ui.job_feed import JobCursor, JobFeed
from tf_operator.cli.ui.log_feed import LogCursor, LogFeed
from tf_operator.cli.ui.room import RoomCursor, RoomFeed
from tf_operator.client import ApiError, AsyncTFJobs, NotFound, NotPossible
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.serving.streaming import StreamingServer

MOST_STREAMS: Final = 64
"""Pages that are looked at: one that is hidden has none."""
_PACE: Final = 0.25
"""Seconds in which changes are collected, and a browser has time to show what it got."""
_BEAT: Final = 15.0
"""Seconds of silence after which a stream says that it lives."""
_ENDED_WITHIN: Final = 1.0
_BODY_WITHIN: Final = 5.0
_NO_TOKEN: Final = b'name="token" content=""'
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "tfjob",
}
_JOB: Final = r"(?P<kind>[a-z0-9.]{1,100})/(?P<namespace>[a-z0-9][-a-z0-9]{0,62})/(?P<name>[a-z0-9][-a-z0-9.]{0,252})"
_PAGE: Final = re.compile(rf"jobs/{_JOB}")
_STREAM: Final = re.compile(rf"stream/{_JOB}")
_CHANGE: Final = re.compile(rf"change/{_JOB}")
_YAML: Final = re.compile(rf"yaml/{_JOB}")
_REPLICA: Final = re.compile(r"|[a-z]{1,20}-[0-9]{1,6}")
# The page of ours from which the browser goes on: it sends no cookie with what the page of another site has led to,
# such as the link in the terminal of a notebook, nor with where that is redirected.
_ENTRANCE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>tfjob ui</title>
<link rel="icon" href="{path}static/icon.svg"><meta http-equiv="refresh" content="0;url={path}">
<p><a href="{path}">Jobs</a></p></html>"""
# What aiohttp reports are connections that broke and requests that are not HTTP.
_SILENT = logging.getLogger("tf_operator.cli.ui.aiohttp")
_SILENT.disabled = True

_log = Logger(__name__)
Connect = Callable[[str, str], AsyncTFJobs]
"""The jobs of a kind and a namespace; ``ValueError`` for a kind that is not known."""


class _Answer(Exception):
    """Not what was asked for: a status, and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@asynccontextmanager
async def serving(
    listener: socket.socket,
    *,
    guard: BrowserGuard,
    board: Board,
    connect: Connect,
    clock: Clock,
    naming: str = "",
    is_read_only: bool = False,
) -> AsyncIterator[None]:
    """Serve at a socket that listens, until the block is left; the socket is closed then.

    ``naming``: options that name the cluster in a command.
    """
    async with asyncio.TaskGroup() as tasks:
        site = Site(
            guard,
            board=board,
            connect=connect,
            feeds=SharedFeeds(tasks),
            clock=clock,
            naming=naming,
            is_read_only=is_read_only,
        )
        async with site.accepting(listener, tls=None, ends_within=_ENDED_WITHIN):
            yield


class Site(StreamingServer):
    def __init__(
        self,
        guard: BrowserGuard,
        *,
        board: Board,
        connect: Connect,
        feeds: SharedFeeds,
        clock: Clock,
        naming: str = "",
        is_read_only: bool = False,
    ) -> None:
        super().__init__(self._answer, clock)
        self._guard = guard
        self._board = board
        self._connect = connect
        self._feeds = feeds
        self._clock = clock
        self._naming = naming
        self._is_read_only = is_read_only
        self._files = _files()

    def __call__(self) -> web.RequestHandler:
        return web.RequestHandler(
            self,
            loop=asyncio.get_running_loop(),
            logger=_SILENT,
            access_log=None,  # type: ignore[arg-type] # None is allowed: there is no log of requests then
            lingering_time=0,
            max_headers=64,
        )

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._dispatch(http)
        except NotLetIn as refusal:
            answer = _Answer(403, str(refusal))
        except _Answer as other:
            answer = other
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 (the terminal says why)
            _log.exception("a request failed", path=http.path)
            answer = _Answer(500, "This cannot be shown; the terminal of tfjob ui says why.")
        response = _text(str(answer), status=answer.status)
        response.force_close()
        return response

    async def _dispatch(self, http: web.BaseRequest) -> web.StreamResponse:
        self._guard.check_address(http.headers)
        if http.method not in {"GET", "HEAD", "POST"}:
            raise _Answer(405, "Nothing can be changed so.")
        if http.path == "/":
            cookie = self._guard.redeem(http.query)
            self.admit(http)
            page = _ENTRANCE.format(path=self._guard.path)
            return web.Response(
                text=page, content_type="text/html", charset="utf-8", headers={**_HEADERS, "Set-Cookie": cookie}
            )
        self._guard.check_session(http.headers)
        self.admit(http)
        if not http.path.startswith(self._guard.path):
            raise _Answer(404, "There is no such page.")
        path = http.path.removeprefix(self._guard.path)
        if http.method != "POST":
            return await self._page(http, path)
        if self._is_read_only or not (match := _CHANGE.fullmatch(path)):
            raise _Answer(405, "Nothing can be changed here.")
        return await self._change(http, **match.groupdict())

    async def _page(self, http: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "stream":
            return await self._table_stream(http)
        if match := _STREAM.fullmatch(path):
            return await self._job_stream(http, **match.groupdict())
        if match := _YAML.fullmatch(path):
            return await self._yaml(**match.groupdict())
        if match := _PAGE.fullmatch(path):
            return self._job_page(**match.groupdict())
        name = "jobs.html" if path == "" else path.removeprefix("static/")
        if name not in self._files:
            raise _Answer(404, "There is no such page.")
        media, content = self._files[name]
        return web.Response(body=content, content_type=media, charset="utf-8", headers=_HEADERS)

    async def _table_stream(self, http: web.BaseRequest) -> web.StreamResponse:
        jobs = self._jobs(next(iter(self._board.informers)), "")
        cursor = self._board.opened()
        try:
            async with self._feeds.reading(
                "room", lambda: RoomFeed(jobs, lambda: self._board.has_queued, self._clock)
            ) as room:
                return await self._stream(http, {self._board: cursor, room: RoomCursor(room)})
        except TooMany:
            return await self._stream(http, {self._board: cursor})
        finally:
            self._board.closed(cursor)

    def _job_page(self, kind: str, namespace: str, name: str) -> web.StreamResponse:
        """With its token, in the place that the file has for it."""
        media, content = self._files["job.html"]
        token = "" if self._is_read_only else self._guard.token_of(f"{kind}/{namespace}/{name}")
        body = content.replace(_NO_TOKEN, _NO_TOKEN[:-1] + token.encode() + b'"')
        return web.Response(body=body, content_type=media, charset="utf-8", headers=_HEADERS)

    async def _change(self, http: web.BaseRequest, *, kind: str, namespace: str, name: str) -> web.StreamResponse:
        self._guard.check_change(http.headers, f"{kind}/{namespace}/{name}")
        if http.content_type != "application/json":
            raise _Answer(415, "A change is JSON.")
        try:
            order = changes.read(await self._body(http))
        except ValueError as error:
            raise _Answer(400, f"This is no change: {feed.printable(str(error))}.") from error
        try:
            text, is_done = await changes.perform(self._jobs(kind, namespace), name, order), True
        except (ApiError, NotPossible) as error:
            text, is_done = failures.sentence(error), False
        return web.json_response({"text": feed.printable(text), "isDone": is_done}, headers=_HEADERS)

    async def _body(self, http: web.BaseRequest) -> bytes:
        """All of it, if it is short, and comes soon."""
        body = b""
        try:
            async with self._clock.timeout(_BODY_WITHIN):
                while len(body) <= changes.MOST_BYTES and (part := await http.content.read(changes.MOST_BYTES)):
                    body += part
        except TimeoutError:
            raise ValueError("it does not end") from None
        except web.RequestPayloadError:
            raise ValueError("it breaks off, or is not compressed as it says") from None
        if len(body) > changes.MOST_BYTES:
            raise ValueError("it is too long")
        return body

    def _jobs(self, kind: str, namespace: str) -> AsyncTFJobs:
        try:
            return self._connect(kind, namespace)
        except ValueError as error:
            raise _Answer(404, str(error)) from error

    async def _yaml(self, kind: str, namespace: str, name: str) -> web.StreamResponse:
        try:
            job = await self._jobs(kind, namespace).get(name)
        except ApiError as error:
            status = 404 if isinstance(error, NotFound) else 502
            raise _Answer(status, feed.printable(failures.sentence(error))) from error
        return _text(job_page.manifest(job.body))

    async def _job_stream(self, http: web.BaseRequest, *, kind: str, namespace: str, name: str) -> web.StreamResponse:
        jobs, replica = self._jobs(kind, namespace), http.query.get("replica", "")
        if not _REPLICA.fullmatch(replica):
            raise _Answer(400, "A replica is named as in worker-0.")
        key = (kind, namespace, name)
        async with AsyncExitStack() as stack:
            try:
                job = await stack.enter_async_context(
                    self._feeds.reading(
                        key,
                        lambda: JobFeed(
                            jobs, name, self._clock, naming=self._naming, may_change=not self._is_read_only
                        ),
                    )
                )
                log = await stack.enter_async_context(
                    self._feeds.reading((*key, replica), lambda: LogFeed(jobs, name, replica, self._clock))
                )
            except TooMany:
                raise _Answer(503, "Too many jobs are open: close some pages.") from None
            return await self._stream(http, {job: JobCursor(job), log: LogCursor(log)})

    async def _stream(self, http: web.BaseRequest, cursors: Mapping[Feed, Cursor]) -> web.StreamResponse:
        """Send what the cursors have until the browser leaves or nothing follows."""
        if len(self.streams) >= MOST_STREAMS:
            raise _Answer(503, "Too many pages are open: close some.")
        if http.method == "HEAD":
            return web.Response(content_type="text/event-stream", headers=_HEADERS)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})
        woken = asyncio.Event()
        with ExitStack() as stack:
            for source in cursors:
                stack.enter_context(source.heard(woken.set))
            self.streams.add(woken)
            stack.callback(self.streams.discard, woken)
            await response.prepare(http)
            await self.write(http, response, b"retry: 2000\n\n")
            await self._pump(http, response, tuple(cursors.values()), woken)
        return response

    async def _pump(
        self, http: web.BaseRequest, response: web.StreamResponse, cursors: Sequence[Cursor], woken: asyncio.Event
    ) -> None:
        while not self.is_ending:
            woken.clear()
            is_ended = any(cursor.is_ended for cursor in cursors)
            if frames := [text for cursor in cursors for text in cursor.news()]:
                await self.write(http, response, b"".join(frames))
            elif is_ended:
                return
            else:
                try:
                    async with self._clock.timeout(_BEAT):
                        await woken.wait()
                except TimeoutError:
                    await self.write(http, response, b": here\n\n")
            await self._clock.sleep(_PACE)


def _text(text: str, *, status: int = 200) -> web.Response:
    """Plain text: nothing in it is markup."""
    return web.Response(text=f"{text}\n", status=status, content_type="text/plain", charset="utf-8", headers=_HEADERS)


def _files() -> dict[str, tuple[str, bytes]]:
    """The static files: what is not here, is not served, whatever a path says."""
    folder = resources.files("tf_operator.cli.ui").joinpath("static")
    entries = {entry.name: entry for entry in folder.iterdir()}
    return {
        name: (_TYPES[ending], entry.read_bytes())
        for name, entry in entries.items()
        if (ending := f".{name.rpartition('.')[2]}") in _TYPES
    }
