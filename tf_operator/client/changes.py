"""Changes of a few objects, as they happen: a list, then a watch, then whatever was missed in between.

For commands that follow one job; an operator has the informers of ``machinery.cache``.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from tf_operator.machinery.cache import pager
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, ObjectKey, key_of, resource_version_of

_WATCH_SECONDS: Final = 240
_SILENCE: Final = _WATCH_SECONDS + 30.0
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 16.0
_HEALTHY: Final = 5.0
"""Seconds; after a turn that took longer, or brought something, the next pause is short again."""
_PASSING: Final = (errors.NoReply, errors.Garbled, errors.Throttled, errors.ServerFailed)


class ObjectChange(NamedTuple):
    body: Body
    is_deleted: bool = False


class Listed(NamedTuple):
    """All objects of a scope, and the version of that moment."""

    items: list[Body]
    version: str


async def list_all(client: ApiClient, resource: Resource, scope: Scope) -> Listed:
    """All pages, which show one moment."""
    items, version = list[Body](), ""
    parts = pager.parts(pager.in_one_piece(client.send), resource, scope, clock=client.clock)
    async with aclosing(parts):
        async for part in parts:
            if part.is_first:
                items.clear()
            items += map(msgspec.json.decode, part.items)
            version = part.resource_version
    return Listed(items, version)


async def follow(
    client: ApiClient, resource: Resource, scope: Scope, clock: Clock
) -> AsyncGenerator[list[ObjectChange], None]:
    """What is there, then each change, for ever; the first list may be empty.

    Raises an ``ApiError`` when the first list fails, or when the API server says no; what passes is waited for.
    """
    objects = dict[ObjectKey, Body]()
    listed = await list_all(client, resource, scope)
    yield _difference(objects, listed.items)
    version = listed.version
    pauses = ExponentialBackoff[str](base=_PAUSE, cap=_LONGEST_PAUSE)
    while True:
        began, retry_after = clock.monotonic(), 0.0
        try:
            if not version:
                listed = await list_all(client, resource, scope)
                version = listed.version
                yield _difference(objects, listed.items)
            async with aclosing(_watch(client, resource, scope, version, clock)) as lines:
                async for line in lines:
                    pauses.forget("")
                    body = msgspec.json.decode(line.object)
                    version = resource_version_of(body)
                    if line.type != "BOOKMARK":
                        yield [_change(objects, body, is_deleted=line.type == "DELETED")]
        except errors.Expired:
            version = ""
        except _PASSING as error:
            retry_after = error.retry_after or 0.0
        if clock.monotonic() - began > _HEALTHY:
            pauses.forget("")
        # Also after a clean end: a proxy may cut every watch at once.
        await clock.sleep(max(retry_after, pauses.delay("")))


async def _watch(
    client: ApiClient, resource: Resource, scope: Scope, version: str, clock: Clock
) -> AsyncGenerator[responses.WatchLine, None]:
    request = requests.watch(resource, scope, resource_version=version, timeout_seconds=_WATCH_SECONDS)
    splitter = responses.LineSplitter()
    async with client.stream(request) as chunks:
        while True:
            try:
                async with clock.timeout(_SILENCE):
                    chunk = await anext(chunks, b"")
            except TimeoutError:
                return
            for line in splitter.feed(chunk):
                watch_line = responses.read_line(line)
                if watch_line.type == "ERROR":
                    raise responses.read_error(watch_line.object)
                yield watch_line
            if not chunk:
                return


def _difference(objects: dict[ObjectKey, Body], items: Iterable[Body]) -> list[ObjectChange]:
    now = {key_of(body): body for body in items}
    deletions = [ObjectChange(body, is_deleted=True) for key, body in objects.items() if key not in now]
    objects.clear()
    objects.update(now)
    return [*deletions, *map(ObjectChange, now.values())]


def _change(objects: dict[ObjectKey, Body], body: Body, *, is_deleted: bool) -> ObjectChange:
    if is_deleted:
        objects.pop(key_of(body), None)
    else:
        objects[key_of(body)] = body
    return ObjectChange(body, is_deleted)
