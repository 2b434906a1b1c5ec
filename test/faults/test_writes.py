"""Writes whose fate is unknown, that are never sent, that come late, or that meet others."""

import time
from itertools import count

import pytest

from support import oracle
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import create, delete, patch, watch

WRITES = {
    "pod": create("pods"),
    "service": create("services"),
    "delete": delete("pods"),
    "status": patch("tfjobs/status"),
}


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_whose_reply_is_lost_is_looked_for_and_not_repeated(proxy, field, operator, kind):
    """Applied, and the reply never came, for every kind of write."""
    await field.reach(operator, "w", 4)

    proxy.on(WRITES[kind], do=faults.lose_reply(), at_most=2)
    for workers in (6, 2, 3):
        await field.reach(operator, "w", workers)

    assert oracle.live_reads(proxy) >= 1
    assert oracle.blind_repeats(proxy) == []
    assert field.created().total() == 4 + 2 + 1


async def test_a_lost_reply_is_looked_for_even_when_the_watch_is_late(proxy, field, operator):
    """The cache cannot tell whether the pod was created, so the apiserver is asked."""
    proxy.on(watch("pods"), do=faults.delay(2))
    proxy.on(create("pods"), do=faults.lose_reply(), at_most=2)
    await field.reach(operator, "w", 4)

    oracle.nothing_twice(proxy)
    assert oracle.live_reads(proxy) >= 1


async def test_a_write_that_was_never_sent_is_sent_again(proxy, field, operator):
    """Every connection is refused for a while."""
    await field.reach(operator, "w", 1)

    with proxy.refusing():
        await field.want("w", 4)
        await field.quiet(1)
    await field.settled(operator)

    oracle.nothing_twice(proxy)


async def test_a_reset_before_the_write_reaches_the_apiserver_does_no_harm(proxy, field, operator):
    """Whoever sent it cannot know that it was never applied."""
    proxy.on(create("pods"), do=faults.reset(), at_most=3)

    await field.reach(operator, "w", 4)

    assert oracle.blind_repeats(proxy) == []
    oracle.nothing_twice(proxy)


async def test_a_write_that_is_applied_long_after_its_504_does_no_harm(proxy, field, operator):
    """The pod that comes late has the name of the one that was created in its place."""
    late = proxy.on(create("pods"), do=faults.late_write(seconds=2), at_most=2)

    await field.want("w", 4)
    await proxy.until(lambda: late.fired == 2)
    await field.settled(operator)
    await field.quiet(3)
    await field.settled(operator)

    assert oracle.live_reads(proxy) >= 1, "nobody looked for what had been answered by 504"
    assert field.created() == {f"w-{index}": 1 for index in range(4)}


async def test_a_storm_of_conflicts_is_met_by_reading_again_and_not_by_force(proxy, field, start):
    """Another client changes the job all the time; what it writes is never overwritten."""
    operator = await start()
    await field.reach(operator, "w", 1)

    admin, notes, began = field.plane.admin, count(1), time.monotonic()

    def change() -> None:
        """Before each status arrives: one that gets through is the last, because only notes change after it."""
        time.sleep(0.3)
        admin.patch(field.path("w"), {"metadata": {"annotations": {"note": str(next(notes))}}})

    late = proxy.on(WRITES["status"], do=faults.call(change))
    await field.want("w", 5)
    await proxy.until(lambda: late.fired >= 4, within=60)
    tries, seconds = late.fired, time.monotonic() - began
    late.off()
    await field.settled(operator)

    conflicts = [call for call in proxy.calls(WRITES["status"]) if call.upstream_code == 409]
    assert len(conflicts) >= 3, "there was no storm"
    assert tries / seconds <= 10
    job = await field.job("w")
    assert job["metadata"]["annotations"]["note"] == str(late.fired)
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 5
    oracle.nothing_twice(proxy)
