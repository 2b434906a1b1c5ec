"""Events that are lost, repeated, late or old, and watches that end or fall silent."""

import re
import time

import pytest

from support import oracle
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import opening, watch
from support.settle import eventually
from support.stopwatch import Stopwatch

FROM_A_VERSION = re.compile(r".*[?&]resourceVersion=\d.*")


async def test_an_event_that_is_never_seen_is_found_by_the_relist(proxy, field, operator):
    """The watch ends before a deletion arrives, and is answered 410 when it is opened again."""
    await field.reach(operator, "w", 3)

    gone = proxy.on(opening("pods", path=FROM_A_VERSION), do=faults.gone(), at_most=1)
    unseen = proxy.on(watch("pods", event="DELETED", name=field.pod("w", 1)), do=faults.cut(), at_most=1)
    await field.delete_pod("w", 1)
    await proxy.until(unseen.has_fired)
    await proxy.until(gone.has_fired)
    await field.settled(operator)

    assert field.created() == {"w-0": 1, "w-1": 2, "w-2": 1}


async def test_an_event_that_comes_twice_is_acted_on_once(proxy, field, operator):
    proxy.on(watch("pods", event="ADDED"), do=faults.duplicate(times=2))
    proxy.on(watch("tfjobs", event="MODIFIED"), do=faults.duplicate())

    await field.reach(operator, "w", 5)

    oracle.nothing_twice(proxy)


@pytest.mark.parametrize("late", ["pods", "services", "tfjobs"])
async def test_nothing_is_created_twice_while_one_kind_is_late(proxy, field, operator, late):
    """The events of one kind come two seconds after they happened."""
    proxy.on(watch(late), do=faults.delay(2))
    await field.want("w", 4)
    for note in range(10):
        await field.want("w", 4, note=note)
    await field.settled(operator)

    oracle.nothing_twice(proxy)


async def test_an_event_of_the_past_changes_nothing(proxy, field, operator):
    """After each change of a job its former state is sent again."""
    await field.reach(operator, "w", 6)

    old = proxy.on(watch("tfjobs", event="MODIFIED"), do=faults.replay())
    for workers in (2, 5):
        await field.reach(operator, "w", workers)

    assert old.fired >= 2
    # Six at first, and three more at the end: none in between, when the replay wanted six.
    assert field.created().total() == 9


async def test_watches_that_end_at_once_are_not_opened_again_and_again(proxy, field, start):
    """Twenty empty watches; on the average at most one is opened in a second, of each kind."""
    operator = await start(speed=40)
    await field.reach(operator, "w", 1)

    began = time.monotonic()
    empty = proxy.on(opening("pods"), do=faults.empty_watch(), at_most=20)
    proxy.now(watch("pods"), do=faults.cut())
    await proxy.until(lambda: empty.fired == 20, within=60)

    assert empty.fired / (40 * (time.monotonic() - began)) <= 1
    await field.reach(operator, "w", 3)


@pytest.mark.parametrize("form", [faults.gone_event(), faults.gone()], ids=["in-the-stream", "as-a-status"])
async def test_a_version_that_is_too_old_costs_one_relist(proxy, field, operator, form):
    """410 in both forms."""
    proxy.on(opening("pods"), do=form, at_most=1)
    proxy.now(watch("pods"), do=faults.cut())
    await field.reach(operator, "w", 5)

    assert oracle.lists(proxy, "pods") == 1
    oracle.nothing_twice(proxy)


async def test_an_etcd_without_a_leader_costs_no_relist(proxy, field, operator):
    """A 500 inside the stream; the watch resumes from the same version."""
    proxy.now(watch("pods"), do=faults.error_event(500, "etcdserver: no leader"))
    await field.reach(operator, "w", 5)

    assert oracle.lists(proxy, "pods") == 0


async def test_a_watch_without_bookmarks_serves_as_well(proxy, field, start):
    """No bookmark but the one that ends the first list; silence means a new watch, from where it was."""
    ordinary = watch("*", event="BOOKMARK", where=lambda body: "annotations" not in body["metadata"])
    proxy.on(ordinary, do=faults.drop(), at_least=0)
    operator = await start(speed=60)
    await field.reach(operator, "w", 2)
    lists, opened = oracle.lists(proxy, "pods"), proxy.count(opening("pods"))

    await proxy.until(lambda: proxy.count(opening("pods")) >= opened + 2, within=30)
    await field.reach(operator, "w", 4)

    assert oracle.lists(proxy, "pods") == lists


async def test_a_dead_connection_is_noticed_by_its_silence(proxy, field, start):
    """The watch is half-open; within 90 s the cache is correct again."""
    operator = await start(speed=20)
    await field.reach(operator, "w", 2)

    proxy.now(watch("tfjobs"), do=faults.half_open())
    async with Stopwatch() as passed:
        await field.want("w", 4)
        await eventually(lambda: field.has_pods("w", 4), within=60)
        assert 20 * passed.seconds <= 90 + 20
    await field.settled(operator)
    oracle.nothing_twice(proxy)


async def test_after_a_clean_end_the_cache_is_correct_again_within_two_seconds(proxy, field, start):
    operator = await start()
    await field.reach(operator, "w", 2)

    ended = proxy.on(watch("tfjobs", event="MODIFIED"), do=faults.cut(), at_most=1)
    await field.want("w", 4)
    await proxy.until(ended.has_fired)

    async with Stopwatch() as passed:
        await eventually(lambda: field.has_pods("w", 4), within=30)
        assert passed.seconds <= 2
    await field.settled(operator)
