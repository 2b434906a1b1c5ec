"""What comes between the operator and its apiserver: throttling, broken streams and replies, outages, redirects."""

import asyncio
import time
from itertools import pairwise

import pytest

from support import oracle
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import anything, create, listing, opening, watch
from support.disturbances.loopback import Loopback, reply
from support.settle import eventually
from support.stopwatch import Stopwatch

STREAMED = "*sendInitialEvents*"
SHARED_SPEED = 3
"""Of the operator that these tests share."""


@pytest.mark.parametrize("retry_after", ["1", "-5", "x", "Fri, 31 Dec 1999 23:59:59 GMT", None])
async def test_a_429_is_obeyed_and_costs_no_relist(proxy, field, operator, retry_after):
    """With every Retry-After that there is; an invalid one counts as none."""
    busy = proxy.on(opening("tfjobs"), do=faults.throttle(retry_after), at_most=2)
    proxy.now(watch("tfjobs"), do=faults.cut())
    await field.reach(operator, "w", 2)

    assert busy.fired == 2
    assert proxy.count(opening("tfjobs", path=STREAMED)) == 0
    waits = [after.at - call.at for call, after in pairwise(proxy.calls(opening("tfjobs"))) if call.code == 429]
    assert all(SHARED_SPEED * wait >= (1 if retry_after == "1" else 0) for wait in waits)


async def test_a_request_for_very_much_patience_is_capped_at_a_minute(proxy, field, start):
    operator = await start(speed=20)
    for workers, retry_after in enumerate(("30", "1000000000"), start=1):
        busy = proxy.on(opening("tfjobs"), do=faults.throttle(retry_after), at_most=1)
        proxy.now(watch("tfjobs"), do=faults.cut())
        await field.reach(operator, "w", workers)

        assert busy.fired == 1
        waits = [after.at - call.at for call, after in pairwise(proxy.calls(opening("tfjobs"))) if call.code == 429]
        assert 25 <= 20 * waits[-1] <= 60 + 60


BROKEN_STREAMS = {
    "fin-within-a-line": faults.cut(faults.FIN, where="within"),
    "rst-within-a-line": faults.cut(faults.RST, where="within"),
    "rst-before-a-line": faults.cut(faults.RST),
    "unknown-event": faults.unknown_event(),
    "cut-in-two": faults.split(),
}


@pytest.mark.parametrize("breakage", BROKEN_STREAMS)
async def test_a_stream_that_breaks_leaves_nothing_half_applied(proxy, field, operator, breakage):
    broken = proxy.on(watch("tfjobs", event="MODIFIED"), do=BROKEN_STREAMS[breakage], at_most=2)
    for workers in (3, 1):
        await field.reach(operator, "w", workers)

    assert broken.fired == 2


BROKEN_REPLIES = {
    "half-a-json": faults.truncate(),
    "short-of-its-length": faults.cut_body(),
    "a-chunk-without-end": faults.unended_chunk(),
    "bad-gzip": faults.bad_gzip(),
    "html": faults.html(),
    "plain-404": faults.plain_404(),
    "500": faults.fail(500),
    "503": faults.fail(503),
}


async def test_a_list_that_comes_broken_is_read_again(proxy, field, start):
    """In a page: nothing is deleted because of it."""
    proxy.on(opening("tfjobs", path=STREAMED), do=faults.fail(422))
    operator = await start(speed=10)
    await field.reach(operator, "w", 3)
    for name, breakage in BROKEN_REPLIES.items():
        broken = proxy.on(listing("tfjobs"), do=breakage, at_most=2)
        await field.relist("tfjobs")
        await proxy.until(lambda broken=broken: broken.fired == 2, within=30)
        await field.reach(operator, "w", 3, note=name)

    assert (await operator.caches())["deleted"] == {}
    oracle.nothing_twice(proxy)


@pytest.mark.parametrize("breakage", BROKEN_REPLIES)
async def test_a_write_whose_reply_is_broken_is_looked_for(proxy, field, operator, breakage):
    """In the reply to a create: it may have been applied, or not."""
    broken = proxy.on(create("pods"), do=BROKEN_REPLIES[breakage], at_most=2)
    proxy.on(watch("pods"), do=faults.delay(0.5))  # or the cache would tell what the reply did not
    await field.reach(operator, "w", 3)

    assert broken.fired == 2
    oracle.nothing_twice(proxy)


async def test_a_server_that_sends_a_byte_a_second_holds_up_nobody_else(proxy, field, start):
    """One watch crawls; the event loop, and whatever does not need that watch, goes on."""
    operator = await start()
    crawling = proxy.on(opening("pods"), do=faults.trickle(1), at_most=1)
    proxy.now(watch("pods"), do=faults.cut())
    await proxy.until(crawling.has_fired)
    await field.want("w", 5)
    await eventually(lambda: field.created().total() == 5)

    await field.want("other", 0)
    await eventually(lambda: is_cached(operator, "other"))
    seconds = []
    for _ in range(20):
        began = time.monotonic()
        await operator.caches()
        seconds.append(time.monotonic() - began)
    assert sorted(seconds)[10] < 1  # a loop that is held up is slow nearly always; the machine is now and then


async def is_cached(operator, job):
    return job in (await operator.caches())["jobs"]


async def test_with_every_fifth_request_failing_everything_still_gets_done(proxy, field, operator):
    proxy.on(anything(), do=faults.fail(500, 502, 503), chance=0.2)
    since = time.monotonic()
    for workers in range(3):
        await asyncio.gather(*(field.want(f"w{number}", (number + workers) % 4) for number in range(6)))
        await field.settled(operator, within=60)

    causes = {record["cause"] for record in operator.records_of("reconcile failed; retrying", since=since)}
    # A conflict with what users write meanwhile is none of the fault's.
    assert [cause for cause in causes if not cause.startswith(("Server", "Unavail", "Conflict"))] == []
    assert oracle.unexplained(proxy) == []


async def test_a_total_outage_is_met_with_a_trickle_of_requests(proxy, field, start):
    """Five minutes, on a clock that runs twenty times as fast; afterwards all is well within 35 s."""
    operator = await start(speed=20)
    await field.reach(operator, "w", 2)

    began, count = time.monotonic(), proxy.count()
    out = proxy.on(anything(), do=faults.fail(503))
    proxy.now(watch("*"), do=faults.cut())
    await field.want("w", 5)
    await asyncio.sleep(300 / 20)
    tries = proxy.count() - count
    out.off()
    seconds = 20 * (time.monotonic() - began)
    async with Stopwatch() as passed:
        await eventually(lambda: field.has_pods("w", 5), within=60)
        assert 20 * passed.seconds <= 35 + 20 * 2  # what the test's own checks take passes as fast

    assert tries / seconds <= 2
    await field.settled(operator)


async def test_the_token_does_not_follow_a_redirect(proxy, field, operator):
    """Whoever is there gets nothing, not even a request."""
    async with Loopback(reply(200, b"{}")) as elsewhere:
        proxy.on(create("pods"), do=faults.redirect(elsewhere.url), at_most=3)
        proxy.on(opening("pods"), do=faults.redirect(elsewhere.url), at_most=1)
        proxy.now(watch("pods"), do=faults.cut())
        await field.reach(operator, "w", 4)

        assert elsewhere.requests == []
