"""What follows from a refused create."""

from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.planning import rejections
from tf_operator.planning.snapshot import Cause, RejectedWrite

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)


def refusal(name="a", **fields):
    return RejectedWrite("x", "no", NOW, name=name, **fields)


@pytest.mark.parametrize(
    ("code", "is_final"),
    [(400, True), (413, True), (422, True), (403, False), (404, False), (409, False), (500, False)],
)
def test_what_is_wrong_with_the_object_itself_is_final(code, is_final):
    assert rejections.is_final(refusal(code=code)) is is_final


@pytest.mark.parametrize("code", [400, 403, 413, 422])
def test_what_only_stays_as_it_was_is_never_final(code):
    assert not rejections.is_final(refusal(code=code, cause=Cause.UNCHANGED))


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1_000_000, 60)])
def test_each_further_attempt_waits_twice_as_long_up_to_a_minute(attempts, seconds):
    assert rejections.retry_at(refusal(attempts=attempts)) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(("cause", "seconds"), [(Cause.NAMESPACE_ENDS, 60), (Cause.NOT_SERVED, 5)])
def test_what_does_not_depend_on_how_often_it_is_tried_waits_equally_long_each_time(cause, seconds):
    for attempts in (1, 9):
        rejection = refusal(attempts=attempts, cause=cause)
        assert rejections.retry_at(rejection) == NOW + timedelta(seconds=seconds)


def test_it_waits_until_the_moment_of_the_next_attempt():
    rejection = refusal()

    assert rejections.is_waiting(rejection, NOW)
    assert not rejections.is_waiting(rejection, NOW + timedelta(seconds=1))
    assert not rejections.is_waiting(None, NOW)


@pytest.mark.parametrize(("seconds", "waits"), [(0.5, True), (1, True), (3600, False)])
def test_it_does_not_wait_for_a_clock_that_went_back(seconds, waits):
    assert rejections.is_waiting(refusal(), NOW - timedelta(seconds=seconds)) is waits


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (refusal("a"), refusal("b"), "a"),
        (refusal("b", resource="pods"), refusal("a", resource="services"), "b"),
        (refusal("a"), refusal("b", code=422), "b"),
        (refusal("a", code=422), refusal("b", code=422), "a"),
    ],
    ids=["the first by name", "the first by kind", "the final one", "the first of several that are final"],
)
def test_of_one_attempt_the_same_is_told_whatever_the_order(one, other, told):
    for rejected, reported in ((one, other), (other, one)):
        assert (rejected if rejections.tells_more(rejected, reported) else reported).name == told
    assert not rejections.tells_more(one, one)
