"""A model of an apiserver: objects, one history of versions, lists and watches; in memory, on a fake clock.

It is a Transport without a socket, and keeps the promises that a real apiserver keeps: versions that only grow, pages
of one moment, watches that begin after a version and end when they were asked to, bookmarks once a minute, 410 for
what has been compacted. On top of that a test can break everything that breaks in reality.
What it promises was read off a real one (test/scenarios/machinery/test_informer.py runs the same informers there).
"""

import asyncio
import copy
import itertools
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

from support.fake_clock import FakeClock
from support.resources import Json
from support.scripted_transport import InMemory, ScriptedReply, bookmark, line, mark, page
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.transport import no_guard
from tf_operator.meta import ObjectKey

BOOKMARK_EVERY = 60.0
Event = tuple[int, str, Json]


class ModelApiserver(InMemory):
    def __init__(self, clock: FakeClock, *, streams_lists: bool = True) -> None:
        self._clock = clock
        self.streams_lists = streams_lists
        self.objects: dict[ObjectKey, Json] = {}
        self.version = 100
        self.history: list[Event] = []
        self.oldest = 100
        self.down: errors.ApiError | None = None
        self.expires_in_stream = True
        self.requests: list[tuple[float, Request]] = []
        self.watches: list[Watcher] = []
        self._uids = itertools.count(1)
        self._snapshots: dict[str, tuple[int, list[Json]]] = {}

    def write(self, namespace: str, name: str, **fields: object) -> Json:
        """Create an object, or replace its fields."""
        key = ObjectKey(namespace, name)
        known = self.objects.get(key)
        uid = known["metadata"]["uid"] if known else f"uid-{next(self._uids)}"
        return self._store("MODIFIED" if known else "ADDED", key, uid, fields)

    def delete(self, namespace: str, name: str) -> Json:
        body = copy.deepcopy(self.objects.pop(ObjectKey(namespace, name)))
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self._publish("DELETED", body)
        return body

    def compact(self) -> None:
        """Forget the history; watches that are open go on."""
        self.oldest = self.version
        self._snapshots.clear()

    def cut(self, how: errors.ApiError | None = None) -> None:
        """End every watch: cleanly, or by an error."""
        for watch in list(self.watches):
            watch.end(how)

    def inject(self, chunk: bytes, *, namespace: str = "") -> None:
        """Send something to every watch (of a namespace) that is no new event."""
        for watch in self.watches:
            if not namespace or watch.covers(namespace):
                watch.send(chunk)

    def restore(self, version: int) -> None:
        """Go back to an older moment, as etcd does that is restored from a snapshot; all watches break off."""
        self.history = [event for event in self.history if event[0] <= version]
        self.objects = {}
        for _, kind, body in self.history:
            key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
            self.objects.pop(key, None)
            if kind != "DELETED":
                self.objects[key] = body
        self.version = version
        self.compact()
        self.cut(errors.ReplyLost("reset by peer"))

    @asynccontextmanager
    async def send(
        self, request: Request, *, before_send: Callable[[], object] = no_guard
    ) -> AsyncIterator[ScriptedReply]:
        """A page of a list, or a watch."""
        before_send()
        self._accept(request)
        if request.verb == "watch":
            async with self._watched(request) as chunks:
                yield ScriptedReply(chunks)
        else:
            yield ScriptedReply(await self._page(request))

    async def _page(self, request: Request) -> bytes:
        token = request.query.get("continue", "")
        if token and token not in self._snapshots:
            raise errors.refused(410, b'{"reason": "Expired", "message": "the continue token is too old"}')
        version, rest = self._snapshots.pop(token, (self.version, list(self._visible(request))))
        limit = int(request.query["limit"]) or len(rest)
        following = ""
        if rest[limit:]:
            following = f"token-{len(self.requests)}"
            self._snapshots[following] = version, rest[limit:]
        await self._clock.sleep(0)
        return page(rest[:limit], version=version, token=following)

    @asynccontextmanager
    async def _watched(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        is_list = "sendInitialEvents" in request.query
        if is_list and not self.streams_lists:
            raise errors.refused(422, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden"}')
        if not is_list and int(request.query["resourceVersion"]) < self.oldest and not self.expires_in_stream:
            raise errors.refused(410, b'{"reason": "Expired", "message": "too old resource version"}')
        watch = Watcher(self._clock, self, request)
        self.watches.append(watch)
        try:
            await self._clock.sleep(0)
            yield watch.chunks()
        finally:
            self.watches.remove(watch)

    def _accept(self, request: Request) -> None:
        self.requests.append((self._clock.monotonic(), request))
        if self.down is not None:
            raise self.down

    def _store(self, kind: str, key: ObjectKey, uid: str, fields: Json) -> Json:
        self.version += 1
        names = {"name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": str(self.version)}
        body: Json = {"metadata": names, **fields}
        self.objects[key] = body
        self._publish(kind, body)
        return body

    def _publish(self, kind: str, body: Json) -> None:
        self.history.append((self.version, kind, body))
        for watch in self.watches:
            watch.wake()

    def _visible(self, request: Request) -> Iterator[Json]:
        return (body for body in self.objects.values() if is_visible(request, body))


class Watcher:
    def __init__(self, clock: FakeClock, server: ModelApiserver, request: Request) -> None:
        self._clock = clock
        self._server = server
        self._request = request
        self._ends_at = clock.monotonic() + int(request.query["timeoutSeconds"])
        self._bookmark_at = clock.monotonic() + BOOKMARK_EVERY
        self._outbox: list[bytes] = []
        self._woken = asyncio.Event()
        self._is_over = False
        self._error: errors.ApiError | None = None
        self.position = int(request.query.get("resourceVersion", "0"))

    def covers(self, namespace: str) -> bool:
        return _covers(self._request, namespace)

    def wake(self) -> None:
        self._woken.set()

    def send(self, chunk: bytes) -> None:
        self._outbox.append(chunk)
        self.wake()

    def end(self, how: errors.ApiError | None) -> None:
        self._is_over, self._error = True, how
        self.wake()

    async def chunks(self) -> AsyncIterator[bytes]:
        if "sendInitialEvents" in self._request.query:
            for chunk in self._list():
                yield chunk
        elif self.position < self._server.oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            yield line("ERROR", status)
            return
        while not self._is_over and self._clock.monotonic() < self._ends_at:
            self._woken.clear()
            for chunk in self._news():
                yield chunk
            with suppress(TimeoutError):
                async with self._clock.timeout(min(self._ends_at, self._bookmark_at) - self._clock.monotonic()):
                    await self._woken.wait()
        if self._error is not None:
            raise self._error

    def _list(self) -> Iterator[bytes]:
        self.position = self._server.version
        for body in list(self._server._visible(self._request)):
            yield line("ADDED", body)
        yield mark(self.position)

    def _news(self) -> Iterator[bytes]:
        start = bisect_right(self._server.history, self.position, key=lambda event: event[0])
        for version, kind, body in self._server.history[start:]:
            self.position = version
            if is_visible(self._request, body):
                yield line(kind, body)
        while self._outbox:
            yield self._outbox.pop(0)
        if self._clock.monotonic() >= self._bookmark_at:
            self._bookmark_at += BOOKMARK_EVERY
            yield bookmark(self._server.version)


def is_visible(request: Request, body: Json) -> bool:
    """Whether an object is in the namespace that a request is about."""
    return _covers(request, body["metadata"]["namespace"])


def _covers(request: Request, namespace: str) -> bool:
    return "/namespaces/" not in request.path or f"/namespaces/{namespace}/" in request.path
