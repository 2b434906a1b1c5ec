"""Changes of a few objects, through everything that ends a watch."""

import asyncio

import pytest

from support.embedded.scripted_transport import (
    Hang,
    ScriptedTransport,
    Watch,
    added,
    bookmark,
    client_of,
    failure,
    modified,
    page,
)
from support.fake_clock import FakeClock
from support.toys.sample_objects import THINGS, thing
from tf_operator.client import changes
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Scope

EXPIRED = errors.from_status(errors.Status(code=410, reason="Expired", message="too old"))


def names(batch):
    return [("-" if change.is_deleted else "") + change.body["metadata"]["name"] for change in batch]


async def follow(*script, seconds=10.0):
    """What is seen, and what was asked."""
    clock = FakeClock()
    transport = ScriptedTransport(clock, *script)
    batches = []

    async def read():
        async for batch in changes.follow(client_of(transport, clock), THINGS, Scope("ns"), clock):
            batches.append(names(batch))  # noqa: PERF401 (it never ends)

    reading = asyncio.ensure_future(read())
    await clock.advance(seconds)
    if reading.done():
        await reading
    reading.cancel()
    return batches, [query.get("resourceVersion", "list") for query in transport.queries]


ENDS = {
    "a clean end": (Watch(modified(thing("a", 6)), bookmark(8)), ["list", "5", "8"]),
    "a broken connection": (Watch(modified(thing("a", 6)), errors.ReplyLost("cut")), ["list", "5", "6"]),
    "half a line": (Watch(modified(thing("a", 6)), b'{"type":'), ["list", "5", "6"]),
    "a server that restarts": (Watch(modified(thing("a", 6)), errors.Unreachable("refused")), ["list", "5", "6"]),
}


@pytest.mark.parametrize(("watch", "expected"), ENDS.values(), ids=ENDS.keys())
async def test_a_watch_that_ends_goes_on_from_its_last_version(watch, expected):
    first = page([thing("a", 3)], version=5)

    batches, versions = await follow(first, watch, Watch(added(thing("b", 9)), 1e9))

    assert batches == [["a"], ["a"], ["b"]]
    assert versions == expected


async def test_silence_for_longer_than_a_watch_lasts_ends_it():
    batches, versions = await follow(page([], version=5), Watch(1e9), Watch(added(thing("b", 9)), 1e9), seconds=300)

    assert (batches, versions) == ([[], ["b"]], ["list", "5", "5"])


@pytest.mark.parametrize("end", [Watch(failure(410, "Expired")), EXPIRED], ids=["in the stream", "as a reply"])
async def test_after_an_expired_version_what_was_deleted_meanwhile_is_reported(end):
    lists = [page([thing("a", 3), thing("b", 4)], version=5), page([thing("b", 4), thing("c", 9)], version=12)]

    batches, versions = await follow(lists[0], end, lists[1], Hang())

    assert batches == [["a", "b"], ["-a", "b", "c"]]
    assert versions == ["list", "5", "list", "12"]


async def test_a_server_that_is_gone_when_a_version_expires_is_waited_for():
    gone = [errors.Unreachable("refused")] * 20
    lists = [page([thing("a", 3)], version=5), page([thing("b", 9)], version=12)]

    batches, _ = await follow(lists[0], EXPIRED, *gone, lists[1], Hang(), seconds=300)

    assert batches == [["a"], ["-a", "b"]]


async def test_a_list_has_all_pages_and_begins_again_once_when_it_expires():
    pages = [page([thing("a", 3)], version=5, token="t"), EXPIRED, page([thing("b", 3)], version=7)]

    assert (await follow(*pages, Hang()))[0] == [["b"]]
    with pytest.raises(errors.Forbidden):
        await follow(errors.Forbidden(403, errors.Status(message="no")))


async def test_a_list_of_large_objects_comes_in_small_pages():
    """A page of 500 may have 750 MB."""
    clock = FakeClock()
    large = [thing(f"o{number}", number + 1) | {"x": "x" * 1_000_000} for number in range(20)]
    pages = [page(large[:10], version=30, token="t"), page(large[10:], version=30)]
    transport = ScriptedTransport(clock, *pages)

    result = await changes.list_all(client_of(transport, clock), THINGS, Scope("ns"))

    assert (len(result.items), result.version) == (20, "30")
    assert [query["limit"] for query in transport.queries] == ["10", "16"]


async def test_a_server_that_fails_is_asked_less_and_less_often():
    lists, gone = page([], version=5), errors.Unreachable("refused")
    later = errors.Throttled(429, errors.Status(), retry_after=40.0)

    _, versions = await follow(lists, *[gone] * 20, seconds=60)
    assert len(versions) == 8
    _, versions = await follow(lists, later, Hang(), seconds=39)
    assert versions == ["list", "5"]
    _, versions = await follow(lists, *[gone] * 4, Watch(added(thing("b", 9))), Hang(), seconds=17)
    assert versions == ["list", *["5"] * 5, "9"]
