"""What follows after a watch or a list has ended."""

import random

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.cache.watch_retry import WatchRetryPolicy
from tf_operator.machinery.transport import errors


def refused(code, body=b"{}", **more):
    return errors.refused(code, body, **more)


TOO_LARGE = b'{"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}'
ALMOST_ONE = 1 - 1e-9


def make_recovery(chance=ALMOST_ONE):
    clock = FakeClock()
    return clock, WatchRetryPolicy(clock, chance=lambda: chance, healthy=2.0, relist_after=30.0)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(refused(410), id="410"),
        pytest.param(refused(504, TOO_LARGE), id="a version that is yet to come"),
        pytest.param(refused(404), id="404: the CRD is gone"),
    ],
)
async def test_the_version_is_forgotten_at_once_when_it_is_worth_nothing(ending):
    _, retry = make_recovery()

    assert retry.needs_relist(ending)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(errors.Unreachable("refused"), id="no connection"),
        pytest.param(errors.ReplyLost("reset"), id="cut"),
        pytest.param(refused(429), id="429"),
        pytest.param(refused(503), id="503"),
        pytest.param(refused(401), id="401"),
        pytest.param(refused(403), id="403"),
        pytest.param(errors.Redirected("307"), id="redirected"),
    ],
)
async def test_the_version_is_kept_however_long_it_is_not_at_fault(ending):
    """client-go: TestNoRelistOnTooManyRequests."""
    clock, retry = make_recovery()

    for _ in range(100):
        assert not retry.needs_relist(ending)
        await clock.advance(30)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(refused(500, b'{"message": "etcdserver: no leader"}'), id="500"),
        pytest.param(refused(504), id="504"),
        pytest.param(errors.Garbled("not a line"), id="garbled"),
        pytest.param(refused(400), id="400"),
    ],
)
async def test_an_error_of_doubtful_origin_is_retried_for_a_while_and_then_costs_the_version(ending):
    """client-go: TestRetryInternalError."""
    clock, retry = make_recovery()

    verdicts = []
    for _ in range(4):
        verdicts.append(retry.needs_relist(ending))
        await clock.advance(10)

    assert verdicts == [False, False, False, True]
    assert not retry.needs_relist(ending), "the relist has its own time"


async def test_doubt_is_over_when_the_watch_has_brought_something():
    clock, retry = make_recovery()
    retry.needs_relist(refused(500))
    await clock.advance(29)

    retry.progressed()
    await clock.advance(29)

    assert not retry.needs_relist(refused(500))


@pytest.mark.parametrize("ending", [None, errors.ReplyLost("reset"), refused(410)], ids=["closed", "cut", "410"])
async def test_a_watch_that_has_served_is_followed_by_the_next_without_a_pause(ending):
    _, retry = make_recovery()

    assert [retry.delay(ending, served=2.0) for _ in range(5)] == [0.0] * 5


@pytest.mark.parametrize("ending", [None, errors.ReplyLost("reset"), refused(410)], ids=["closed", "cut", "410"])
async def test_pauses_grow_up_to_half_a_minute_after_watches_that_have_not(ending):
    """client-go: TestReflectorListAndWatchInitConnBackoff."""
    _, retry = make_recovery()

    pauses = [round(retry.delay(ending, served=1.9), 3) for _ in range(8)]

    assert pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


async def test_pauses_are_drawn_evenly_from_zero_up():
    clock = FakeClock()
    pauses = []
    for seed in range(500):
        retry = WatchRetryPolicy(clock, chance=random.Random(seed).random, healthy=2.0, relist_after=30.0)
        for _ in range(7):
            last = retry.delay(None, served=0)
        pauses.append(last)

    assert min(pauses) < 1
    assert 29 < max(pauses) <= 30
    assert 13.5 < sum(pauses) / len(pauses) < 16.5


async def test_the_growth_starts_again_after_two_good_minutes():
    """client-go: the reset of its backoff manager."""
    clock, retry = make_recovery()
    for _ in range(6):
        retry.delay(None, served=0)

    await clock.advance(119 + 25.6)
    assert retry.delay(None, served=0) > 25
    await clock.advance(121 + 30)

    assert retry.delay(None, served=0) == pytest.approx(0.8)


async def test_every_kind_of_ending_has_its_own_growth():
    """An apiserver that is back and says "not yet" does not have to wait out what its absence had earned."""
    _, retry = make_recovery()
    for _ in range(8):
        retry.delay(errors.Unreachable("refused"), served=0)

    assert retry.delay(refused(429), served=0) == pytest.approx(0.8)
    assert retry.delay(errors.Unreachable("refused"), served=0) == pytest.approx(30)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [pytest.param(5.0, 5.0, id="longer than ours"), pytest.param(0.0, 0.8, id="shorter than ours")],
)
async def test_the_pause_is_at_least_what_the_server_asked_for(asked, expected):
    """client-go: TestBackoffOnTooManyRequests."""
    _, retry = make_recovery()

    assert retry.delay(refused(429, retry_after=asked), served=300) == pytest.approx(expected)
