"""What follows the end of a watch or a list."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.machinery.cache.watch_retry import WatchRetryPolicy
from tf_operator.machinery.transport import errors


def refused(code, body=b"{}", **more):
    return errors.refused(code, body, **more)


TOO_LARGE = b'{"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}'
ALMOST_ONE = 1 - 1e-9


def make_policy(chance=ALMOST_ONE):
    clock = FakeClock()
    return clock, WatchRetryPolicy(clock, chance=lambda: chance, healthy=2.0, relist_after=30.0)


NEVER, AT_ONCE, LATER = [False] * 5, [True] * 5, [False, False, False, True, False]


@pytest.mark.parametrize(
    ("ending", "relists"),
    [
        pytest.param(refused(410), AT_ONCE, id="410"),
        pytest.param(refused(504, TOO_LARGE), AT_ONCE, id="a version of the future"),
        pytest.param(refused(404), AT_ONCE, id="404: the CRD is gone"),
        pytest.param(errors.Unreachable("refused"), NEVER, id="no connection"),
        pytest.param(errors.ReplyLost("reset"), NEVER, id="cut"),
        pytest.param(refused(429), NEVER, id="429"),
        pytest.param(refused(503), NEVER, id="503"),
        pytest.param(refused(401), NEVER, id="401"),
        pytest.param(refused(403), NEVER, id="403"),
        pytest.param(errors.Redirected("307"), NEVER, id="redirected"),
        pytest.param(refused(500, b'{"message": "etcdserver: no leader"}'), LATER, id="500"),
        pytest.param(refused(504), LATER, id="504"),
        pytest.param(errors.Garbled("not a line"), LATER, id="garbled"),
        pytest.param(refused(400), LATER, id="400"),
    ],
)
async def test_a_version_is_given_up_at_once_after_half_a_minute_or_never(ending, relists):
    """client-go: TestNoRelistOnTooManyRequests, TestRetryInternalError."""
    clock, retry = make_policy()

    decisions = []
    for _ in relists:
        decisions.append(retry.needs_relist(ending))
        await clock.advance(10)

    assert decisions == relists


async def test_an_event_of_the_watch_resets_the_time_until_a_relist():
    clock, retry = make_policy()
    retry.needs_relist(refused(500))
    await clock.advance(29)

    retry.progressed()
    await clock.advance(29)

    assert not retry.needs_relist(refused(500))


@pytest.mark.parametrize("ending", [None, errors.ReplyLost("reset"), refused(410)], ids=["closed", "cut", "410"])
async def test_a_watch_that_has_served_is_followed_by_the_next_without_a_pause(ending):
    _, retry = make_policy()

    assert [retry.delay(ending, served_seconds=2.0) for _ in range(5)] == [0.0] * 5


@pytest.mark.parametrize("ending", [None, errors.ReplyLost("reset"), refused(410)], ids=["closed", "cut", "410"])
async def test_pauses_grow_up_to_half_a_minute_after_watches_that_have_not(ending):
    """client-go: TestReflectorListAndWatchInitConnBackoff."""
    _, retry = make_policy()

    pauses = [round(retry.delay(ending, served_seconds=1.9), 3) for _ in range(8)]

    assert pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


async def test_the_pauses_start_at_the_beginning_again_after_two_good_minutes():
    """client-go: the reset of its backoff manager."""
    clock, retry = make_policy()
    for _ in range(6):
        retry.delay(None, served_seconds=0)

    await clock.advance(119 + 25.6)
    assert retry.delay(None, served_seconds=0) > 25
    await clock.advance(121 + 30)

    assert retry.delay(None, served_seconds=0) == pytest.approx(0.8)


async def test_every_kind_of_error_has_its_own_pauses():
    """A 429 of an apiserver that is back is not retried as late as the connections that it had refused."""
    _, retry = make_policy()
    for _ in range(8):
        retry.delay(errors.Unreachable("refused"), served_seconds=0)

    assert retry.delay(refused(429), served_seconds=0) == pytest.approx(0.8)
    assert retry.delay(errors.Unreachable("refused"), served_seconds=0) == pytest.approx(30)


@pytest.mark.parametrize(
    ("pause", "expected"),
    [pytest.param(5.0, 5.0, id="longer than ours"), pytest.param(0.0, 0.8, id="shorter than ours")],
)
async def test_the_pause_is_at_least_what_the_server_asked_for(pause, expected):
    """client-go: TestBackoffOnTooManyRequests."""
    _, retry = make_policy()

    assert retry.delay(refused(429, retry_after=pause), served_seconds=300) == pytest.approx(expected)
