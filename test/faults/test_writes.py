"""Faults 19 to 22: writes whose fate is unknown, that are never sent, that come late, or that meet others."""

import time

import pytest

from lab.fault_proxy import faults
from lab.fault_proxy.trigger import create, delete, patch, watch
from support import oracle

COPIES = "configmaps"
WIDGETS = "widgets.test.tf-operator.dev"
WRITES = {
    "create": create(COPIES),
    "delete": delete(COPIES),
    "status": patch("widgets.test.tf-operator.dev/status"),
}


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_whose_reply_is_lost_is_looked_for_and_not_repeated(proxy, field, start, kind):
    """Fault 19: carried out, and the reply never came, for every kind of write."""
    controller = await start()
    await field.want("w", 4)
    await field.settled(controller)

    proxy.on(WRITES[kind], do=faults.lose_reply(), at_most=2)
    for copies in (6, 2, 3):
        await field.want("w", copies)
        await field.settled(controller)

    assert controller.live_reads >= 1
    assert oracle.blind_repeats(proxy) == []
    assert len(oracle.copies_made(proxy)) == 4 + 2 + 1


async def test_a_lost_reply_is_looked_for_even_when_the_watch_is_late(proxy, field, start):
    """Faults 19 and 3: the cache cannot tell whether the copy was made, so the apiserver is asked."""
    controller = await start()
    await field.want("w", 1)
    await field.settled(controller)

    proxy.on(watch(COPIES), do=faults.delay(3))
    proxy.on(create(COPIES), do=faults.lose_reply(), at_most=2)
    await field.want("w", 4)
    await field.settled(controller)

    oracle.no_copy_twice(proxy)
    assert controller.live_reads >= 1


async def test_a_write_that_was_never_sent_is_sent_again(proxy, field, start):
    """Fault 20: every connection is refused for a while."""
    controller = await start()
    await field.want("w", 1)
    await field.settled(controller)

    with proxy.refusing():
        await field.want("w", 4)
        await field.quiet(2)
    await field.settled(controller, within=60)

    oracle.no_copy_twice(proxy)


async def test_a_reset_before_the_write_reaches_the_apiserver_does_no_harm(proxy, field, start):
    """Fault 20: whoever sent it cannot know that it was never carried out."""
    controller = await start()
    proxy.on(create(COPIES), do=faults.reset(), at_most=3)

    await field.want("w", 4)
    await field.settled(controller)

    assert oracle.blind_repeats(proxy) == []
    oracle.no_copy_twice(proxy)


async def test_a_write_that_is_carried_out_long_after_its_504_does_no_harm(proxy, field, start):
    """Fault 21: the copy that comes late has the name of the one that was made in its place."""
    controller = await start()
    late = proxy.on(create(COPIES), do=faults.late_write(seconds=3), at_most=2)

    await field.want("w", 4)
    await proxy.until(lambda: late.fired == 2)
    await field.settled(controller)
    await field.quiet(4)
    await field.settled(controller)

    assert controller.live_reads >= 1, "nobody looked for what had been answered by 504"
    assert sorted(oracle.copies_made(proxy)) == [f"w-{index}" for index in range(4)]


async def test_a_storm_of_conflicts_is_met_by_looking_again_and_not_by_force(proxy, field, start):
    """Fault 22 and L2: somebody else changes the Widget all the time; what they write is never overwritten."""
    controller = await start()
    await field.want("w", 1)
    await field.settled(controller)

    # Each report is held up for so long that the Widget has changed before it arrives.
    late = proxy.on(WRITES["status"], do=faults.delay(0.05))
    began = time.monotonic()
    for note in range(400):
        await field.want("w", 5, note=note)
    tries, seconds = late.fired, time.monotonic() - began
    late.off()
    await field.settled(controller)

    conflicts = [call for call in proxy.calls(WRITES["status"]) if call.upstream_code == 409]
    assert len(conflicts) >= 3, "there was no storm"
    assert tries / seconds <= 10
    assert (await field.admin.get(f"{field.widgets}/w"))["spec"] == {"copies": 5, "note": 399}
    oracle.no_copy_twice(proxy)
