"""Sleep and timeout, on the fake clock and on the real one."""

import asyncio
from datetime import UTC

import pytest

from tf_operator.machinery.clock import SystemClock


async def wait_for_ever(clock):
    async with clock.timeout(5):
        await asyncio.Event().wait()


async def test_a_timeout_raises_in_the_body_when_its_time_has_passed(clock):
    task = asyncio.ensure_future(wait_for_ever(clock))
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.1)

    with pytest.raises(TimeoutError):
        await task
    assert clock.pending == 0


async def test_a_cancellation_from_outside_is_not_turned_into_a_timeout(clock):
    task = asyncio.ensure_future(wait_for_ever(clock))
    await clock.idle()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_is_one_in_a_task_that_is_being_cancelled_too():
    """What cleans up waits for a bounded time; Python 3.11.2 by itself would end it with a cancellation."""
    ends = []

    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            try:
                async with SystemClock().timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                ends.append("in time")

    task = asyncio.ensure_future(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ends == ["in time"]


async def test_a_cancellation_stays_one_in_a_task_that_is_being_cancelled(clock):
    ends = []

    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await wait_for_ever(clock)
            except BaseException as error:
                ends.append(type(error))
                raise

    task = asyncio.ensure_future(clean_up())
    for _ in range(2):
        await clock.idle()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ends == [asyncio.CancelledError]


@pytest.mark.parametrize("seconds", [5, None])
async def test_a_timeout_that_does_not_pass_leaves_no_timer(clock, seconds):
    async with clock.timeout(seconds):
        await clock.advance(4.9 if seconds else 86_400)

    assert clock.pending == 0


async def test_a_timeout_at_a_moment_that_moves_on_comes_at_the_last_one_and_costs_one_timer(clock):
    due = clock.monotonic() + 5
    timers = []

    async def wait():
        async with clock.timeout_at(lambda: due):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    for _ in range(10):
        await clock.advance(4)
        due = clock.monotonic() + 5
        timers.append(clock.pending)
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.1)

    with pytest.raises(TimeoutError):
        await task
    assert timers == [1] * 10


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_sleep_of_no_time_yields_to_others_and_needs_no_timer(clock, seconds):
    order = []
    asyncio.get_running_loop().call_soon(order.append, "other")

    await clock.sleep(seconds)

    assert order == ["other"]
    assert clock.pending == 0


async def test_the_system_clock_is_in_utc_and_sleeps_for_real():
    clock = SystemClock()
    start = clock.monotonic()

    await clock.sleep(0.01)

    assert clock.monotonic() - start >= 0.009
    assert clock.now().tzinfo is UTC


async def test_a_timer_of_the_system_clock_can_be_cancelled():
    clock = SystemClock()
    fired = []

    clock.call_at(clock.monotonic() + 0.005, lambda: fired.append(1)).cancel()
    await clock.sleep(0.02)

    assert fired == []
