"""The time that reviews may take from everything else in the process, and from each other."""

import asyncio

import pytest

from support.fake_clock import FakeClock
from tf_operator.app.http.room import SMALL
from tf_operator.app.webhook.share import TimeShare

LARGE = SMALL * 10


class Reviews:
    """What is sent, and when it was answered."""

    def __init__(self):
        self.clock, self.ended, self.spent = FakeClock(), [], 0.0
        self._share, self.tasks = TimeShare(self.clock, lambda: self.spent), []
        self._start = self.clock.monotonic()

    def send(self, name, client, size, seconds):
        async def work():
            self.spent += seconds
            await self.clock.sleep(seconds)
            self.ended.append((name, round(self.clock.monotonic() - self._start, 3)))
            return b""

        self.tasks.append(asyncio.create_task(self._share.take(work(), client=client, size=size)))
        return self.tasks[-1]

    @property
    def order(self):
        return [name for name, _ in self.ended]


@pytest.fixture
async def reviews():
    own_reviews = Reviews()
    yield own_reviews
    for task in own_reviews.tasks:
        task.cancel()
    await asyncio.gather(*own_reviews.tasks, return_exceptions=True)


async def test_reviews_take_a_quarter_of_the_time_and_are_answered_one_after_the_other(reviews):
    for number in range(5):
        reviews.send(number, "a", LARGE, seconds=1.0)
    await reviews.clock.advance(20)

    assert reviews.ended == [(0, 1), (1, 2), (2, 5), (3, 9), (4, 13)]


async def test_small_reviews_have_a_part_that_no_large_one_takes(reviews):
    for number in range(10):
        reviews.send(number, "a", LARGE, seconds=1.0)
    await reviews.clock.advance(6)
    reviews.send("small", "a", SMALL, seconds=0.1)
    await reviews.clock.advance(0.1)
    assert reviews.ended[-1] == ("small", 6.1)

    await reviews.clock.advance(60)


async def test_a_client_that_sends_without_end_waits_for_the_others(reviews):
    for number in range(6):
        reviews.send(f"g{number}", "a", LARGE, seconds=0.1)
    await reviews.clock.idle()
    for number in range(2):
        reviews.send(f"m{number}", "b", LARGE, seconds=0.1)
    await reviews.clock.advance(20)

    assert reviews.order == ["g0", "g1", "m0", "g2", "m1", "g3", "g4", "g5"]


async def test_the_cheapest_comes_first(reviews):
    for size in (3, 1, 5, 2):
        reviews.send(size, f"client {size}", size * LARGE, seconds=0.1)
    await reviews.clock.advance(20)

    assert reviews.order == [3, 1, 2, 5]


async def test_the_turn_of_one_that_has_gone_is_the_turn_of_the_next(reviews):
    first, second = (reviews.send(number, "a", LARGE, seconds=0.1) for number in range(2))
    await reviews.clock.idle()
    reviews.send("third", "a", LARGE, seconds=0.1)
    await reviews.clock.idle()
    second.cancel()
    first.cancel()
    await reviews.clock.advance(20)

    assert reviews.order == ["third"]


async def test_only_the_time_in_which_a_review_itself_works_is_paid_for(reviews):
    large = reviews.send("large", "a", LARGE, seconds=3.0)
    await reviews.clock.idle()
    for number in range(3):
        reviews.send(number, "b", SMALL, seconds=0.001)
    await reviews.clock.advance(1)

    assert reviews.order == [0, 1, 2]
    await reviews.clock.advance(10)
    assert large.done()
