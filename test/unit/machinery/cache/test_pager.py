"""A consistent list, page by page."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from support.embedded.scripted_transport import page
from support.fake_clock import FakeClock
from support.toys.sample_objects import THINGS, thing
from tf_operator.machinery.cache import pager
from tf_operator.machinery.transport import errors, list_body
from tf_operator.machinery.transport.requests import EVERYWHERE, Scope

EXPIRED = errors.refused(410, b'{"reason": "Expired"}')
MEGABYTE = 1_000_000


class Script:
    def __init__(self, *replies):
        self.replies = list(replies)
        self.queries = []

    async def send(self, request):
        self.queries.append(dict(request.query))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def limits(self):
        return [int(query["limit"]) for query in self.queries]


def parts(script, scope=EVERYWHERE):
    return aclosing(pager.parts(pager.in_one_piece(script.send), THINGS, scope, clock=FakeClock()))


async def read(script, scope=EVERYWHERE):
    async with parts(script, scope) as stream:
        return [(part.is_first, len(part.items), part.resource_version) async for part in stream]


async def test_a_list_is_read_in_pages_of_one_moment_and_never_from_a_stale_cache():
    script = Script(
        page([thing("a", 1), thing("b", 2)], version=9, token="one"),
        page([thing("c", 3)], version=9, token="two"),
        page([], version=9),
    )

    assert await read(script, Scope("ns", "job=x", "status.phase=Running")) == [
        (True, 2, "9"),
        (False, 1, "9"),
        (False, 0, "9"),
    ]
    selectors = {"labelSelector": "job=x", "fieldSelector": "status.phase=Running"}
    assert script.queries == [
        selectors | {"limit": "10"},
        selectors | {"limit": "100", "continue": "one"},
        selectors | {"limit": "500", "continue": "two"},
    ]
    assert not any("resourceVersion" in query for query in script.queries), "0 would be whatever a cache has"


class Server(Script):
    """Has objects of some sizes, and gives as many as it is asked for; a token expires after so many pages."""

    def __init__(self, sizes, *, expires_after=()):
        super().__init__()
        self.sizes = sizes
        self.expires_after = list(expires_after)
        self.bodies = []

    async def send(self, request):
        self.queries.append(dict(request.query))
        start = int(request.query.get("continue", "0"))
        if start and self.expires_after and self.expires_after[0] == 0:
            self.expires_after.pop(0)
            raise EXPIRED
        if start and self.expires_after:
            self.expires_after[0] -= 1
        end = start + int(request.query["limit"])
        items = [thing(f"o{number}", number + 1) | {"x": "x" * self.sizes[number]} for number in range(len(self.sizes))]
        body = page(items[start:end], version=9, token=str(end) if end < len(items) else "")
        self.bodies.append(len(body))
        return body


async def test_pages_are_of_so_many_bytes_and_of_no_more_than_500_objects():
    small, large = Server([10] * 1700), Server([MEGABYTE] * 60)

    assert sum(count for _, count, _ in await read(small)) == 1700
    assert small.limits == [10, 100, 500, 500, 500, 500]
    assert sum(count for _, count, _ in await read(large)) == 60
    assert large.limits == [10, 16, 16, 16, 16]
    assert max(large.bodies) < 1.1 * pager.TARGET


async def test_objects_that_are_larger_than_those_before_make_the_next_page_smaller():
    server = Server([10] * 20 + [MEGABYTE] * 60)

    assert sum(count for _, count, _ in await read(server)) == 80
    assert server.limits[:2] == [10, 100]
    assert 10 <= server.limits[-1] <= 100


async def test_a_body_that_is_larger_than_meant_comes_in_parts_of_one_list(monkeypatch):
    monkeypatch.setattr(list_body, "MOST_HELD", 1000)
    script = Script(page([thing(f"o{number}", number + 1) for number in range(50)], version=9))

    summary = await read(script)

    assert [(is_first, version) for is_first, _, version in summary] == [(True, ""), (False, "9")]
    assert sum(count for _, count, _ in summary) == 50


async def test_the_list_begins_again_with_larger_pages_when_its_token_has_expired():
    """client-go: TestReflectorFullListIfExpired, for a continue token. In one piece it might have any size."""
    server = Server([10] * 5000, expires_after=[2, 1])

    summary = await read(server)

    begins = [at for at, (is_first, _, _) in enumerate(summary) if is_first]
    assert sum(count for _, count, _ in summary[begins[-1] :]) == 5000
    assert (len(begins), server.limits) == (3, [10, 100, 500, 500, 500, 2000, 2000, 2000, 8000])


async def crawl(clock, body, *, size, pause):
    """Read a page that comes in chunks of a size, with a pause after each."""

    @asynccontextmanager
    async def open_page(_request):
        async def chunks():
            for at in range(0, len(body), size):
                yield body[at : at + size]
                await clock.sleep(pause)

        yield chunks()

    async with aclosing(pager.parts(open_page, THINGS, EVERYWHERE, clock=clock)) as stream:
        return [part async for part in stream]


@pytest.mark.parametrize("pause", [1e9, 1.0], ids=["silent", "a byte a second"])
async def test_a_page_that_does_not_come_to_its_end_in_time_is_lost(clock, pause):
    task = asyncio.get_running_loop().create_task(crawl(clock, page([thing("a", 1)], version=9), size=1, pause=pause))
    await clock.advance(pager.PAGE_WITHIN - 1)
    assert not task.done()
    await clock.advance(2)
    with pytest.raises(errors.ReplyLost, match="no complete page within 40 s"):
        await task


async def test_a_page_that_is_larger_than_meant_gets_more_time(clock, monkeypatch):
    monkeypatch.setattr(pager, "TARGET", 100)
    whole = page([thing("a", number + 1) for number in range(10)], version=9)

    task = asyncio.get_running_loop().create_task(crawl(clock, whole, size=50, pause=12.0))
    await clock.advance(12 * len(whole) / 50 + 12)

    assert len(whole) > 500
    assert [len(part.items) for part in await task] == [10]


PAGE = page([], version=9, token="one")


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        pytest.param([EXPIRED], errors.Expired, id="on the first page"),
        pytest.param([PAGE, errors.refused(500, b"")], errors.ServerFailed, id="on a later page"),
        pytest.param([PAGE, EXPIRED, EXPIRED], errors.Expired, id="on the first page of the second try"),
        pytest.param([PAGE] * 3, errors.Garbled, id="a page that leads to itself"),
        pytest.param([b"<html>"], errors.Garbled, id="HTML"),
    ],
)
async def test_an_error_is_the_callers(replies, error):
    with pytest.raises(error):
        await read(Script(*replies))
