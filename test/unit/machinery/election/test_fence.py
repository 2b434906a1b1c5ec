"""The fence: when writes may start."""

import time

import pytest

from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.election.fence import Fence, LeaseClock, NotLeading


@pytest.fixture
def fence(clock):
    return Fence(clock)


def test_a_fence_is_closed_before_it_was_ever_opened(fence):
    assert not fence.is_open
    with pytest.raises(NotLeading, match="not held, or may have expired"):
        fence.check()


async def test_a_fence_closes_by_itself_at_its_moment(fence, clock):
    fence.open_until(clock.monotonic() + 10)

    await clock.advance(9.99)
    fence.check()
    await clock.advance(0.01)

    assert fence.remaining() == pytest.approx(0)
    with pytest.raises(NotLeading):
        fence.check()


def test_a_fence_does_not_move_back_when_an_older_renewal_is_confirmed_later(fence, clock):
    fence.open_until(clock.monotonic() + 10)
    fence.open_until(clock.monotonic() + 3)

    assert fence.remaining() == pytest.approx(10)
    fence.close()
    with pytest.raises(NotLeading):
        fence.check()


def test_the_clock_of_leases_counts_the_time_that_the_machine_sleeps(monkeypatch):
    asleep = {"for": 0.0}
    real = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: real(which) + asleep["for"])
    clock = LeaseClock()
    fence = Fence(clock)
    fence.open_until(clock.monotonic() + 10)

    asleep["for"] = 3600.0

    assert not fence.is_open
    assert SystemClock().monotonic() == pytest.approx(clock.monotonic() - 3600, abs=60)


def test_the_clock_of_leases_is_the_monotonic_one_where_no_other_is_known(monkeypatch):
    monkeypatch.setattr(LeaseClock, "_suspend_aware", None)

    assert LeaseClock().monotonic() == pytest.approx(SystemClock().monotonic(), abs=60)
