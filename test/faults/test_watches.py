"""Faults 1 to 6, 9 to 11 and 13: events that are lost, repeated, late or old, and watches that end or fall silent."""

import re
from types import SimpleNamespace

import pytest

from lab.fault_proxy import faults
from lab.fault_proxy.trigger import opening, watch
from support import oracle
from support.scaled_clock import ScaledClock
from support.settle import eventually
from tf_operator.machinery.cache.reflector import Timing

COPIES = "configmaps"
WIDGETS = "widgets.test.tf-operator.dev"
FROM_A_VERSION = re.compile(r".*[?&]resourceVersion=\d.*")


async def test_an_event_that_is_never_seen_is_found_by_the_next_picture(proxy, field, start):
    """Fault 1: the watch ends before a deletion is told, and is answered 410 when it is opened again."""
    await field.want("w", 3)
    controller = await start()
    await field.settled(controller)

    gone = proxy.on(opening(COPIES, path=FROM_A_VERSION), do=faults.gone())
    unseen = proxy.on(watch(COPIES, event="DELETED", name="w-1"), do=faults.cut(), at_most=1)
    await field.delete_copy("w-1")
    await proxy.until(unseen.has_fired)
    await proxy.until(gone.has_fired)
    await field.settled(controller)

    assert sorted(oracle.copies_made(proxy)) == ["w-0", "w-1", "w-1", "w-2"]


async def test_an_event_that_comes_twice_is_acted_on_once(proxy, field, start):
    """Fault 2."""
    proxy.on(watch(COPIES, event="ADDED"), do=faults.duplicate(times=2))
    proxy.on(watch(WIDGETS, event="MODIFIED"), do=faults.duplicate())
    controller = await start()
    told = []
    controller.copies.add_handler(
        SimpleNamespace(
            on_add=lambda item: told.append(item.metadata.name),
            on_update=lambda old, new: told.append(new.metadata.name),
        )
    )

    await field.want("w", 5)
    await field.settled(controller)

    assert sorted(told) == [f"w-{index}" for index in range(5)]
    oracle.no_copy_twice(proxy)
    assert controller.failures == []


@pytest.mark.parametrize("late", [COPIES, WIDGETS])
async def test_nothing_is_made_twice_while_one_kind_is_late(proxy, field, start, late):
    """Fault 3: the events of one kind come three seconds after they happened."""
    controller = await start()
    await field.want("first", 1)
    await field.settled(controller)

    proxy.on(watch(late), do=faults.delay(3))
    await field.want("w", 4)
    for note in range(10):
        await field.want("w", 4, note=note)
    await field.settled(controller)

    oracle.no_copy_twice(proxy)


async def test_an_event_of_the_past_changes_nothing(proxy, field, start):
    """Fault 4: after each change of a Widget its former state is sent again."""
    controller = await start()
    await field.want("w", 6)
    await field.settled(controller)

    old = proxy.on(watch(WIDGETS, event="MODIFIED"), do=faults.replay())
    await field.want("w", 2)
    await field.settled(controller)
    await field.want("w", 5)
    await field.settled(controller)

    assert old.fired >= 2
    # Six at first, and three more at the end: none in between, when the replay asked for six.
    assert len(oracle.copies_made(proxy)) == 9


async def test_watches_that_end_at_once_are_not_opened_again_and_again(proxy, field, start):
    """Fault 5: two hundred empty watches; on the average at most one a second is opened, of each kind."""
    clock = ScaledClock(40)
    controller = await start(clock=clock)
    await field.want("w", 1)
    await field.settled(controller)

    began = clock.monotonic()
    empty = proxy.on(opening(COPIES), do=faults.empty_watch(), at_most=30)
    proxy.now(watch(COPIES), do=faults.cut())
    await proxy.until(lambda: empty.fired == 30, within=60)

    assert empty.fired / (clock.monotonic() - began) <= 1
    await field.want("w", 3)
    await field.settled(controller)


@pytest.mark.parametrize("form", [faults.gone_event(), faults.gone()], ids=["in-the-stream", "as-a-status"])
async def test_a_version_that_is_too_old_costs_one_picture(proxy, field, start, form):
    """Faults 6 and 10: 410 in both forms."""
    await field.want("w", 3)
    controller = await start()
    await field.settled(controller)
    before = oracle.pictures(proxy, COPIES)

    proxy.on(opening(COPIES), do=form, at_most=1)
    proxy.now(watch(COPIES), do=faults.cut())
    await field.want("w", 5)
    await field.settled(controller)

    assert oracle.pictures(proxy, COPIES) == before + 1
    oracle.no_copy_twice(proxy)


async def test_an_etcd_without_a_leader_costs_no_picture(proxy, field, start):
    """Fault 9: a 500 inside the stream; the watch goes on from the same version."""
    await field.want("w", 3)
    controller = await start()
    await field.settled(controller)
    before = oracle.pictures(proxy, COPIES)

    proxy.now(watch(COPIES), do=faults.error_event(500, "etcdserver: no leader"))
    await field.want("w", 5)
    await field.settled(controller)

    assert oracle.pictures(proxy, COPIES) == before


async def test_a_watch_without_bookmarks_serves_as_well(proxy, field, start):
    """Fault 11: no bookmark but the one that ends the initial list; silence means a new watch, from where we are."""
    proxy.on(watch("*", event="BOOKMARK", where=lambda body: "annotations" not in body["metadata"]), do=faults.drop(),
             at_least=0)  # fmt: skip
    controller = await start(timing=Timing(silence=1.0))
    await field.want("w", 2)
    await field.settled(controller)
    before = oracle.pictures(proxy, COPIES)

    await proxy.until(lambda: proxy.count(opening(COPIES)) >= 3, within=30)
    await field.want("w", 4)
    await field.settled(controller)

    assert oracle.pictures(proxy, COPIES) == before


async def test_a_dead_connection_is_noticed_by_its_silence(proxy, field, start):
    """Fault 13 and L4: the watch is half-open; within 90 s the cache is right again."""
    clock = ScaledClock(20)
    controller = await start(clock=clock)
    await field.want("w", 2)
    await field.settled(controller)

    proxy.now(watch(WIDGETS), do=faults.half_open())
    began = clock.monotonic()
    await field.want("w", 4)
    await field.settled(controller)

    assert clock.monotonic() - began <= 90
    oracle.no_copy_twice(proxy)


async def test_after_a_clean_end_the_cache_is_right_again_within_two_seconds(proxy, field, start):
    """L4, in real time."""
    controller = await start()
    await field.want("w", 2)
    await field.settled(controller)

    ended = proxy.on(watch(WIDGETS, event="MODIFIED"), do=faults.cut(), at_most=1)
    await field.want("w", 4)
    await proxy.until(ended.has_fired)

    await eventually(lambda: controller.widgets.store.get(field.key("w")).spec.copies == 4, within=2)
    await field.settled(controller)
