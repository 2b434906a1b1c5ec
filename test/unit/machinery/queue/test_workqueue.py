"""The work queue, case by case. What holds for every order of events is in test/simulation."""

import asyncio
import gc
import weakref
from statistics import mean
from unittest.mock import Mock, call

import pytest

from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.workqueue import DelayingQueue, RateLimitedQueue, WorkQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff


@pytest.fixture
def queue(clock):
    return DelayingQueue[str](clock)


def start(coroutine):
    return asyncio.ensure_future(coroutine)


async def take_all(queue):
    """Every key in line, each done at once."""
    keys = []
    while queue.depth:
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


# --- order and collapse -----------------------------------------------------------------------------------


async def test_many_adds_while_a_key_is_in_work_are_one_reconcile_and_only_after_done(clock, queue):
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    second = start(queue.get())
    await clock.idle()
    assert not second.done()

    queue.done("a")

    assert await second == "a"
    queue.done("a")
    assert queue.depth == 0


async def test_a_key_that_is_done_is_not_kept(clock):
    """client-go: TestGarbageCollection."""

    class Key:
        pass

    queue = DelayingQueue[Key](clock)
    key = Key()
    alive = weakref.ref(key)
    queue.add_after(key, 1)
    await clock.advance(1)
    queue.done(await queue.get())

    del key
    gc.collect()

    assert alive() is None


async def test_a_second_done_is_an_error_and_changes_nothing(queue):
    queue.add("a")

    with pytest.raises(KeyError):
        queue.done("a")

    assert await take_all(queue) == ["a"]


# --- workers ----------------------------------------------------------------------------------------------


async def test_a_worker_that_never_waits_leaves_the_loop_to_others_between_two_keys(queue):
    """A reconcile that finds nothing to do awaits nothing, and there may be thousands in line."""
    for number in range(100):
        queue.add(str(number))
    queue.shut_down()
    turns = []

    async def worker():
        async for key in queue:
            with queue.done_after(key):
                turns.append("reconcile")

    async def probe():
        while queue.depth:
            turns.append("probe")
            await asyncio.sleep(0)

    await asyncio.gather(worker(), probe())

    assert turns.count("reconcile") == 100
    assert turns.count("probe") >= 100


async def test_done_after_gives_the_key_back_when_the_work_fails_or_is_cancelled(clock, queue):
    async def worker(work):
        with queue.done_after(await queue.get()):
            await work

    queue.add("a")
    with pytest.raises(ZeroDivisionError):
        await worker(failing())
    queue.add("a")
    task = start(worker(asyncio.Event().wait()))
    await clock.idle()
    queue.add("a")
    task.cancel()
    await clock.idle()

    assert await take_all(queue) == ["a"]


async def failing():
    raise ZeroDivisionError


# --- pauses -----------------------------------------------------------------------------------------------


async def test_a_pause_drops_what_waits_and_accepts_nothing_until_it_is_over(clock):
    measures = Mock(spec=QueueInstruments)
    queue = RateLimitedQueue[str](clock, ExponentialBackoff(base=1.0, cap=60.0), instruments=measures)
    queue.add("in line")
    queue.add_after("later", 5)

    queue.pause()
    assert measures.method_calls[-1] == call.depth(0)
    measures.reset_mock()
    queue.add("a")
    queue.add_after("b", 5)
    queue.add_rate_limited("c")
    queue.add_debounced("d", 5)
    await clock.advance(10)
    assert (queue.depth, queue.delayed, clock.pending, measures.method_calls) == (0, 0, 0, [])

    queue.resume()
    queue.add("e")
    assert await take_all(queue) == ["e"]


async def test_a_key_in_work_when_the_pause_begins_does_not_come_back(queue):
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add_after_work("a", 1)

    queue.pause()
    queue.resume()
    queue.done("a")

    assert await take_all(queue) == []
    assert queue.delayed == 0


# --- delays -----------------------------------------------------------------------------------------------


async def test_a_debounced_key_is_reconciled_once_without_a_retry_and_not_again_while_it_is_pending(clock):
    measures = Mock(spec=QueueInstruments)
    queue = DelayingQueue[str](clock, measures)
    for _ in range(3):
        queue.add_debounced("a", 0.1)
        await clock.advance(0.03)
    assert (queue.depth, queue.delayed) == (0, 1)

    await clock.advance(0.02)
    queue.add_debounced("a", 0.1)
    assert (queue.depth, queue.delayed) == (1, 0), "the next reconcile will see it"
    assert await take_all(queue) == ["a"]
    measures.retried.assert_not_called()


async def test_a_key_that_is_added_after_its_work_waits_from_the_end_of_it(clock, queue):
    queue.add("a")
    assert await queue.get() == "a"
    for seconds in (2, 1, 3):
        queue.add_after_work("a", seconds)
    await clock.advance(5)
    assert (queue.depth, queue.delayed) == (0, 0), "the work goes on"

    queue.done("a")
    await clock.advance(0.9)
    assert (queue.depth, queue.delayed) == (0, 1)
    await clock.advance(0.1)
    assert await take_all(queue) == ["a"]
    assert queue.delayed == 0, "once"


async def test_a_key_that_is_not_in_work_is_added_after_its_work_as_if_that_had_just_ended(clock, queue):
    queue.add_after_work("a", 1)

    await clock.advance(1)

    assert await take_all(queue) == ["a"]


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_delay_is_an_add(clock, queue, seconds):
    queue.add_after("a", seconds)

    assert (queue.depth, queue.delayed, clock.pending) == (1, 0, 0)


async def test_a_key_that_is_retried_often_before_a_far_deadline_leaves_no_trace(clock, queue):
    """A heap with tombstones would hold a thousand entries here."""
    deadline = clock.monotonic() + 7 * 86_400
    for _ in range(1000):
        queue.add_after("a", deadline - clock.monotonic())
        queue.add_after("a", 60)
        await clock.advance(60)
        await take_all(queue)

    assert (queue.delayed, len(queue._entries), clock.pending) == (0, 0, 0)


async def test_a_timer_that_fires_early_is_set_again(clock, queue):
    queue.add_after("a", 5)

    queue._timer.fire()  # an event loop may be a clock tick early

    assert (queue.depth, queue.delayed, clock.pending) == (0, 1, 1)
    await clock.advance(5)
    assert queue.depth == 1


async def test_keys_need_no_order_of_their_own(clock):
    queue = DelayingQueue[complex](clock)
    for key in (2j, 1j, 3j):
        queue.add_after(key, 1)
    queue.add_after(3j, 0.5)

    await clock.advance(1)

    assert await take_all(queue) == [3j, 2j, 1j]


# --- fairness ---------------------------------------------------------------------------------------------


async def test_no_key_waits_long_beside_a_noisy_key_and_a_huge_namespace(clock):
    """One job's events never stop, and its namespace fills most of the line."""
    measures = Mock(spec=QueueInstruments)
    queue = WorkQueue[tuple[str, int]](clock, measures)

    async def worker():
        async for key in queue:
            with queue.done_after(key):
                queue.add(("crowded", 0))  # an event of the noisy job during each reconcile, also during its own
                await clock.sleep(0.01)

    for number in range(900):
        queue.add(("crowded", number))
    for number in range(100):
        queue.add((f"quiet-{number}", 0))
    workers = [start(worker()) for _ in range(8)]
    await clock.advance(2)

    waits = [entry.args[0] for entry in measures.waited.call_args_list]
    assert len(waits) >= 1000
    assert queue.depth <= 1  # the noisy key; every other one was reconciled
    assert max(waits[:1000]) <= 10 * mean(waits[:1000])
    assert max(waits) <= 1000 / 8 * 0.01 + 0.02  # no longer than it takes to process the whole line once
    for task in workers:
        task.cancel()


@pytest.mark.parametrize("is_low", [False, True], ids=["normal", "low priority"])
async def test_flows_take_turns_and_each_keeps_its_order(clock, is_low):
    queue = WorkQueue[str](clock, flow=lambda key: key[0])
    keys = ["a1", "a2", "a3", "b1", "c1", "b2"]
    for key in keys if is_low else ():
        queue.lower_priority(key)
    for key in keys:
        queue.add(key)

    assert await take_all(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
