"""What follows a job on a local server ends when that is gone, and not while somebody starts it again."""

import asyncio

import pytest

from support.embedded.scripted_transport import ScriptedTransport, Watch, client_of, modified, page
from support.fake_clock import FakeClock
from support.toys.sample_objects import THINGS, thing
from tf_operator.client import changes
from tf_operator.client.local_transport import LocalTransport, ServerGone
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Scope

REFUSED = errors.Unreachable("refused")
GONE = "the local server does not run: tfjob local up starts it"


@pytest.fixture
def clock():
    return FakeClock()


async def follow(clock, *answers, stopped):
    """What becomes of who follows: the list is answered, then these."""
    transport = ScriptedTransport(clock, page([thing("a", 3)], version=5), *answers)
    client = client_of(LocalTransport(transport, stopped, clock), clock)
    names = []

    async def read():
        async for batch in changes.follow(client, THINGS, Scope("ns"), clock):
            names.extend(change.body["metadata"]["name"] for change in batch)

    reading = asyncio.ensure_future(read())
    await clock.advance(60.0)
    return reading, names


async def test_who_follows_a_job_on_a_server_that_is_gone_is_told(clock):
    reading, names = await follow(clock, *[REFUSED] * 10, stopped=lambda: GONE)

    with pytest.raises(ServerGone, match=GONE):
        await reading
    assert names == ["a"]


async def test_who_follows_a_job_goes_on_when_the_server_is_started_again(clock):
    states = iter([GONE, GONE, "", GONE, GONE])
    answers = [*[REFUSED] * 5, Watch(modified(thing("b", 6)))]

    reading, names = await follow(clock, *answers, stopped=lambda: next(states, ""))

    assert (reading.done(), names) == (False, ["a", "b"])
    reading.cancel()
