"""The event loop as others see it: how late it is, and what it answers to other threads."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.fake_clock import FakeClock, FakeTimer
from tf_operator.app.metrics.loop_monitor import EVERY, LoopMonitor
from tf_operator.app.metrics.process import LoopMetrics
from tf_operator.machinery.clock import SystemClock


class LateClock(FakeClock):
    """Wakes everybody 0.3 s later than asked."""

    async def sleep(self, seconds):
        self._monotonic += seconds + 0.3
        await asyncio.sleep(0)


async def test_a_loop_that_wakes_a_task_late_is_measured(registry):
    measuring = asyncio.ensure_future(LoopMonitor(LateClock(), LoopMetrics(registry)).measure())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    measuring.cancel()

    assert registry.get_sample_value("tf_operator_event_loop_lag_seconds_sum") == pytest.approx(0.3)


async def test_a_loop_that_is_on_time_is_measured_four_times_a_second(registry, clock):
    measuring = asyncio.ensure_future(LoopMonitor(clock, LoopMetrics(registry)).measure())
    await clock.advance(10)
    measuring.cancel()

    assert registry.get_sample_value("tf_operator_event_loop_lag_seconds_count") == 10 / EVERY
    assert registry.get_sample_value("tf_operator_event_loop_lag_seconds_sum") == 0


class OtherLoopsClock(FakeClock):
    """The limit of what another loop waits for ends when a test says so, whichever thread that is."""

    def __init__(self):
        super().__init__()
        self.is_over, self.end = False, lambda: None

    def call_at(self, when, callback):
        def end():
            self._monotonic = max(self._monotonic, when)
            callback()

        loop = asyncio.get_running_loop()
        self.end = lambda: loop.call_soon_threadsafe(end)
        return loop.call_soon(end) if self.is_over else FakeTimer(end)

    def end_limit(self):
        self.is_over = True
        self.end()


def from_another_loop(ask, work, *, within=5):
    """What a loop in another thread gets."""
    return asyncio.to_thread(lambda: asyncio.run(ask(work, within=within)))


async def test_another_loop_gets_what_this_one_has_done(registry):
    monitor = LoopMonitor(SystemClock(), LoopMetrics(registry))

    async def work():
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    assert await from_another_loop(monitor.run, work) is asyncio.get_running_loop()


async def test_work_that_takes_too_long_is_cancelled(registry):
    clock, begun, cancelled = OtherLoopsClock(), asyncio.Event(), asyncio.Event()
    monitor = LoopMonitor(clock, LoopMetrics(registry))

    async def work():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.ensure_future(from_another_loop(monitor.run, work))
    await begun.wait()
    clock.end_limit()

    assert await waiting is None
    await cancelled.wait()


async def test_another_loop_gets_what_a_function_returns_here(registry):
    monitor = LoopMonitor(SystemClock(), LoopMetrics(registry))

    assert await from_another_loop(monitor.call, asyncio.get_running_loop) is asyncio.get_running_loop()


async def test_another_loop_gets_the_error_of_a_function_and_this_one_goes_on(registry):
    monitor = LoopMonitor(SystemClock(), LoopMetrics(registry))

    with pytest.raises(ZeroDivisionError):
        await from_another_loop(monitor.call, lambda: 1 / 0)


@pytest.mark.parametrize("way", ["run", "call"])
async def test_work_that_a_stuck_loop_has_not_begun_in_time_is_never_done(registry, way):
    clock, begun = OtherLoopsClock(), []
    clock.end_limit()
    monitor = LoopMonitor(clock, LoopMetrics(registry))

    async def work():
        begun.append(1)

    ask, act = (monitor.run, work) if way == "run" else (monitor.call, lambda: begun.append(1))
    with ThreadPoolExecutor() as other:  # while this loop waits for it, it is stuck
        assert other.submit(lambda: asyncio.run(ask(act, within=5))).result() is None
    await clock.idle()

    assert begun == []


async def test_what_a_function_returns_too_late_is_dropped_without_a_word(registry, caplog):
    clock, called = OtherLoopsClock(), asyncio.Event()
    monitor = LoopMonitor(clock, LoopMetrics(registry))

    def end_limit():
        clock.end_limit()
        called.set()

    assert await from_another_loop(monitor.call, end_limit) is None
    assert called.is_set()
    assert not caplog.records


def test_a_loop_that_has_ended_does_nothing(registry):
    async def make_monitor():
        return LoopMonitor(SystemClock(), LoopMetrics(registry))

    async def work():
        raise AssertionError

    monitor = asyncio.run(make_monitor())
    assert asyncio.run(monitor.run(work, within=5)) is None
    assert asyncio.run(monitor.call(lambda: 1 / 0, within=5)) is None


async def test_the_age_of_the_heartbeat_is_a_metric(registry, clock):
    with LoopMonitor(clock, LoopMetrics(registry)).heartbeat.beating():
        clock._monotonic += 5

        assert registry.get_sample_value("tf_operator_event_loop_heartbeat_age_seconds") == 5
