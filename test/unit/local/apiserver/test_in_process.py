"""The client of the operator, over a server in the same process."""

import asyncio

import msgspec
import pytest

from support import toy_kinds
from support.fake_clock import FakeClock
from support.scripted_transport import client_of
from support.toy_kinds import TOYS
from tf_operator.local.apiserver.in_process import InProcess
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import ObjectKey

CAR = ObjectKey("team", "car")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def client(clock):
    return client_of(InProcess(toy_kinds.server(clock), clock), clock)


async def test_the_client_writes_and_reads(client):
    created = await client.create(TOYS, "team", {"metadata": {"name": "car"}, "spec": {"wheels": 4}})
    patched = await client.merge_patch(TOYS, CAR, {"spec": {"wheels": 3}})
    assert await client.get(TOYS, CAR) == patched
    with pytest.raises(errors.Conflict):
        await client.update(TOYS, CAR, created)
    await client.delete(TOYS, CAR, uid=patched["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.get(TOYS, CAR)


async def test_a_watch_wakes_with_each_change_and_ends_in_time(client, clock):
    seen = []

    async def read():
        request = requests.watch(TOYS, Scope("team"), resource_version="1", timeout_seconds=100)
        async with client.stream(request) as chunks:
            async for chunk in chunks:
                seen.extend(msgspec.json.decode(line)["type"] for line in chunk.splitlines())

    reading = asyncio.ensure_future(read())
    await clock.idle()
    await client.create(TOYS, "team", {"metadata": {"name": "car"}})
    await clock.idle()
    assert seen == ["ADDED"]
    await clock.advance(99)
    assert seen == ["ADDED", "BOOKMARK"]
    assert not reading.done()
    await clock.advance(1)
    assert reading.done()
