"""Delays that grow, and tokens that run out, on a fake clock."""

import asyncio
import math
import random

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.ratelimit import Backoff, ExponentialBackoff, TokenBucket

# --- ExponentialBackoff -----------------------------------------------------------------------------------


def test_each_failure_doubles_the_delay_of_its_key_and_of_no_other():
    """client-go: TestItemExponentialFailureRateLimiter."""
    limiter = ExponentialBackoff[str](base=0.001, cap=1)

    assert [limiter.delay("one") for _ in range(5)] == [0.001, 0.002, 0.004, 0.008, 0.016]
    assert limiter.retries("one") == 5
    assert [limiter.delay("two") for _ in range(2)] == [0.001, 0.002]
    assert limiter.retries("two") == 2


def test_a_forgotten_key_starts_at_the_base_again():
    limiter = ExponentialBackoff[str](base=1, cap=60)
    limiter.delay("one")
    limiter.delay("one")

    limiter.forget("one")

    assert limiter.retries("one") == 0
    assert limiter.delay("one") == 1


@pytest.mark.parametrize(
    ("base", "cap", "failures", "then"),
    [
        pytest.param(0.001, 1000, 5, 0.032, id="milliseconds, below the cap"),
        pytest.param(0.001, 1000, 1000, 1000, id="milliseconds, a thousand failures"),
        pytest.param(60, 3_600_000, 2, 240, id="minutes, below the cap"),
        pytest.param(60, 3_600_000, 1000, 3_600_000, id="minutes, a thousand failures"),
        pytest.param(0.001, 1000, 5000, 1000, id="past the largest float"),
        pytest.param(90, 60, 0, 60, id="a base above the cap"),
    ],
)
def test_the_delay_stops_at_the_cap_and_never_overflows(base, cap, failures, then):
    """client-go: TestItemExponentialFailureRateLimiterOverFlow."""
    limiter = ExponentialBackoff[str](base=base, cap=cap)
    for _ in range(failures):
        limiter.delay("one")

    assert limiter.delay("one") == pytest.approx(then)
    assert limiter.retries("one") == failures + 1


# --- TokenBucket ------------------------------------------------------------------------------------------


async def test_a_bucket_grants_its_burst_at_once_and_then_one_per_interval(clock):
    bucket = TokenBucket(clock, qps=2, burst=3)
    assert [bucket.try_acquire() for _ in range(5)] == [True, True, True, False, False]

    await clock.advance(0.5)
    assert [bucket.try_acquire() for _ in range(2)] == [True, False]


async def test_tokens_that_are_reserved_are_there_one_after_the_other(clock):
    bucket = TokenBucket(clock, qps=2, burst=2)
    assert [bucket.reserve() for _ in range(4)] == [0, 0, 0.5, 1]

    await clock.advance(1)
    assert not bucket.try_acquire()
    assert bucket.reserve() == 0.5


@pytest.mark.parametrize("qps", [10, 11, 0.3])
async def test_rounding_takes_no_token_away(clock, qps):
    bucket = TokenBucket(clock, qps=qps, burst=10)
    assert sum(bucket.try_acquire() for _ in range(20)) == 10

    await clock.advance(7 / qps)
    assert sum(bucket.try_acquire() for _ in range(20)) == 7


def test_a_bucket_without_a_limit_grants_everything_at_once():
    bucket = TokenBucket(FakeClock(), qps=math.inf, burst=1)

    assert all(bucket.try_acquire() for _ in range(1000))


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_that_could_never_grant_anything_is_refused(qps, burst):
    with pytest.raises(ValueError, match="no call would ever pass"):
        TokenBucket(FakeClock(), qps=qps, burst=burst)


def start_waiters(clock, bucket, count):
    """Tasks that wait for a token each, and the list of those that got one, and when."""
    granted = []

    async def waiter(number):
        await bucket.wait()
        granted.append((number, round(clock.monotonic() - 1000, 6)))

    return [asyncio.ensure_future(waiter(number)) for number in range(count)], granted


async def test_waiters_are_served_in_the_order_they_came_one_per_interval_after_the_burst(clock):
    _, granted = start_waiters(clock, TokenBucket(clock, qps=10, burst=2), 5)

    await clock.advance(1)

    assert granted == [(0, 0), (1, 0), (2, 0.1), (3, 0.2), (4, 0.3)]
    assert clock.pending == 0


@pytest.mark.parametrize("cancelled", [1, 2, 4], ids=["the first", "one in the middle", "the last"])
async def test_a_cancelled_waiter_costs_no_token_and_those_behind_it_move_up(cancelled, clock):
    waiters, granted = start_waiters(clock, TokenBucket(clock, qps=10, burst=1), 5)
    await clock.advance(0.05)

    waiters[cancelled].cancel()
    await clock.advance(1)

    assert [number for number, _ in granted] == [number for number in range(5) if number != cancelled]
    assert [moment for _, moment in granted] == [0, 0.1, 0.2, 0.3]
    assert clock.pending == 0


async def test_a_new_caller_does_not_overtake_those_that_wait(clock):
    bucket = TokenBucket(clock, qps=10, burst=1)
    _, granted = start_waiters(clock, bucket, 3)
    await clock.advance(0.1)  # the second one is served now, and the third one is next

    late = asyncio.ensure_future(bucket.wait())
    await clock.advance(0.1)

    assert [number for number, _ in granted] == [0, 1, 2]
    assert not late.done()
    await clock.advance(0.1)
    assert late.done()


# --- Backoff ----------------------------------------------------------------------------------------------


def make_backoff(clock, chance=lambda: 1.0):
    return Backoff(clock, base=0.8, cap=30, quiet=120, chance=chance)


async def test_an_actor_waits_twice_as_long_after_each_failure_up_to_the_cap(clock):
    """client-go: TestReflectorListAndWatchInitConnBackoff (its growth)."""
    backoff = make_backoff(clock)
    waits = []
    for _ in range(8):
        waits.append(backoff.delay())
        await clock.advance(waits[-1])

    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_a_wait_is_drawn_evenly_from_zero_to_the_bound():
    dice = random.Random(7)
    waits = [make_backoff(FakeClock(), dice.random).delay() for _ in range(2000)]

    assert 0 <= min(waits) < 0.01
    assert 0.79 < max(waits) < 0.8
    assert sum(waits) / len(waits) == pytest.approx(0.4, rel=0.05)


async def test_the_growth_starts_again_after_a_quiet_time_that_begins_when_the_wait_is_over(clock):
    backoff = make_backoff(clock)
    for _ in range(7):
        backoff.delay()

    await clock.advance(30 + 119)
    assert backoff.delay() == pytest.approx(30)
    await clock.advance(30 + 120)
    assert backoff.delay() == pytest.approx(0.8)
