"""The fake clock: what the tests that use it would not notice."""

import asyncio

import pytest

from support.fake_clock import FakeClock


async def test_timers_fire_in_order_each_at_its_own_moment_and_a_cancelled_one_never():
    clock = FakeClock()
    start = clock.monotonic()
    calls = []
    for delay in (30, 10, 20, 10):
        clock.call_at(start + delay, lambda delay=delay: calls.append((delay, clock.monotonic() - start)))
    clock.call_at(start + 15, lambda: calls.append("cancelled")).cancel()

    await clock.advance(25)

    assert calls == [(10, 10), (10, 10), (20, 20)]
    assert clock.pending == 1


async def test_two_tasks_that_wake_each_other_for_ever_end_the_test_instead_of_hanging_it(monkeypatch):
    monkeypatch.setattr("support.fake_clock._MOST_TURNS", 100)
    clock = FakeClock()

    async def spin():
        while True:
            await asyncio.sleep(0)

    task = asyncio.ensure_future(spin())
    with pytest.raises(AssertionError, match="still busy after 100 turns"):
        await clock.advance(1)
    task.cancel()
