"""The client of the operator, over a server in the same process."""

import asyncio

import msgspec
import pytest

from support.embedded.scripted_transport import client_of
from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import TOYS
from tf_operator.local.apiserver.in_process import Edge, InProcess
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


async def test_garbage_is_collected_soon_after_the_write_that_left_it(client, clock):
    car = await client.create(TOYS, "team", {"metadata": {"name": "car"}})
    owner = {"apiVersion": "toys.io/v1", "kind": "Toy", "name": "car", "uid": car["metadata"]["uid"]}
    await client.create(TOYS, "team", {"metadata": {"name": "wheel", "ownerReferences": [owner]}})
    await client.delete(TOYS, CAR, uid=car["metadata"]["uid"])
    await clock.idle()
    with pytest.raises(errors.NotFound):
        await client.get(TOYS, ObjectKey("team", "wheel"))


class Weather(Edge):
    """Loses the replies of writes, delays requests, and cuts a watch after its first event."""

    def __init__(self, clock):
        self._clock = clock

    async def on_request(self, _request):
        await self._clock.sleep(5)

    async def on_reply(self, request, answer):
        if request.method != "GET":
            raise errors.ReplyLost("lost")
        return answer

    async def on_lines(self, _request, lines):
        raise errors.ReplyLost(f"cut before {len(lines)}")


async def test_faults_are_injected_between_client_and_server(clock):
    client = client_of(InProcess(toy_kinds.server(clock), clock, edge=Weather(clock)), clock)

    async def after(seconds, call):
        task = asyncio.ensure_future(call)
        await clock.advance(seconds - 1)
        assert not task.done()
        await clock.advance(1)
        return await task

    with pytest.raises(errors.ReplyLost):
        await after(5, client.create(TOYS, "team", {"metadata": {"name": "car"}}))
    assert (await after(5, client.get(TOYS, CAR)))["metadata"]["name"] == "car", "it was carried out"

    async def watch():
        request = requests.watch(TOYS, Scope("team"), resource_version="1", timeout_seconds=100)
        async with client.stream(request) as chunks:
            return [chunk async for chunk in chunks]

    with pytest.raises(errors.ReplyLost, match="cut before 1"):
        await after(5, watch())


async def test_a_watch_wakes_with_each_change_and_ends_in_time(client, clock):
    types = []

    async def read():
        request = requests.watch(TOYS, Scope("team"), resource_version="1", timeout_seconds=100)
        async with client.stream(request) as chunks:
            async for chunk in chunks:
                types.extend(msgspec.json.decode(line)["type"] for line in chunk.splitlines())

    reading = asyncio.ensure_future(read())
    await clock.idle()
    await client.create(TOYS, "team", {"metadata": {"name": "car"}})
    await clock.idle()
    assert types == ["ADDED"]
    await clock.advance(99)
    assert types == ["ADDED", "BOOKMARK"]
    assert not reading.done()
    await clock.advance(1)
    assert reading.done()


async def test_a_watch_can_be_given_lines_and_breaks_off_when_another_server_goes_on(clock):
    transport = InProcess(toy_kinds.server(clock), clock)
    lines = []

    async def read():
        request = requests.watch(TOYS, Scope("team"), resource_version="1", timeout_seconds=100)
        async with client_of(transport, clock).stream(request) as chunks:
            async for chunk in chunks:
                lines.extend(chunk.splitlines())

    reading = asyncio.ensure_future(read())
    await clock.idle()
    transport.watches[0].inject(b"noise\n")
    await clock.idle()
    transport.go_on_with(toy_kinds.server(clock))
    await clock.idle()

    assert (lines, transport.watches) == ([b"noise"], ())
    with pytest.raises(errors.ReplyLost, match="restarted"):
        await reading
