"""A consistent list, page by page: how a list is read from an apiserver that does not stream it.

All pages show the same moment, that of the first one. When the apiserver forgets that moment before the last page
has been fetched (compaction, 410), the list begins again, with pages four times as large; what was read before is then
worth nothing, and the first part after it says so.

A page is meant to have so many bytes, not so many objects: a few hundred large jobs would take a gigabyte here, and
more in the apiserver. How large the objects are is known from the page before. Where that is misleading, ``ListBody``
keeps what is held within bounds.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass

import msgspec

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.list_body import ListBody
from tf_operator.machinery.transport.requests import Request, Resource, Scope

MOST_OBJECTS = 500
FIRST = 10
"""Objects of the first page, whose size nobody knows yet."""
GROWTH = 10
"""How many times as many objects a page may have as the one before."""
TARGET = 16 * 1024 * 1024
"""Bytes of a page."""
PAGE_WITHIN = 40.0
"""Seconds for a page, as for any other reply; one that is larger than meant has them for each ``TARGET`` bytes."""

Open = Callable[[Request], AbstractAsyncContextManager[AsyncIterator[bytes]]]
"""Sends a request and hands out the chunks of the reply, as ``ApiClient.stream`` does."""


@dataclass(frozen=True, slots=True)
class ListedPart:
    """Some objects, and whether a list begins with them. The version comes with the last ones of a page."""

    items: list[msgspec.Raw]
    is_first: bool
    resource_version: str = ""


async def current_resource_version(
    send: Callable[[Request], Awaitable[bytes]], resource: Resource, scope: Scope
) -> str:
    """How far the apiserver is now, for certain: the version of a consistent list, of which one object is read."""
    return responses.read_page(await send(requests.list_page(resource, scope, limit=1))).resource_version


async def parts(
    open_page: Open, resource: Resource, scope: Scope, *, clock: Clock, first: int = FIRST
) -> AsyncGenerator[ListedPart, None]:
    """All objects, up to ``first`` in the first page. Ends with those of a complete list, or by an ``ApiError``."""
    token, is_first, factor, limit = "", True, 1, first
    while True:
        body = ListBody()
        request = requests.list_page(resource, scope, limit=limit, token=token)
        try:
            async with open_page(request) as chunks, aclosing(_within_time(chunks, clock)) as pieces:
                async for chunk in pieces:
                    if items := body.feed(chunk):
                        yield ListedPart(items, is_first)
                        is_first = False
        except errors.Expired:
            if not token:
                raise
            token, is_first, factor = "", True, 4 * factor
            continue
        page = body.finish()
        yield ListedPart(page.items, is_first, page.resource_version)
        if not page.token:
            return
        if page.token == token:
            raise errors.Garbled("a page of a list that leads to itself")
        token, is_first, limit = page.token, False, _limit(body, limit, factor)


def in_one_piece(send: Callable[[Request], Awaitable[bytes]]) -> Open:
    """Pages that are read in one piece, so that ``send`` can repeat them."""

    @asynccontextmanager
    async def open_page(request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        body = await send(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield body

        yield chunks()

    return open_page


def _limit(body: ListBody, limit: int, factor: int) -> int:
    """How many objects the next page may have; not one, which asks how far the apiserver is."""
    most = min(GROWTH * limit, factor * MOST_OBJECTS)
    return max(2, min(most, factor * TARGET * body.count // body.size) if body.count else most)


async def _within_time(chunks: AsyncIterator[bytes], clock: Clock) -> AsyncGenerator[bytes, None]:
    """The chunks, as long as waiting for them takes no longer than it may. What the reader does does not count."""
    seconds, size = PAGE_WITHIN, 0
    while True:
        began = clock.monotonic()
        try:
            async with clock.timeout(seconds):
                chunk = await anext(chunks, None)
        except TimeoutError as error:
            raise errors.ReplyLost(f"no complete page within {PAGE_WITHIN:g} s") from error
        if chunk is None:
            return
        seconds, size = max(seconds - (clock.monotonic() - began), 0.0), size + len(chunk)
        if size >= TARGET:
            seconds, size = PAGE_WITHIN, 0
        yield chunk
