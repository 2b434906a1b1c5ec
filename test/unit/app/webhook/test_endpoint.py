"""The time that reviews may take from everything else in the process."""

import asyncio

from support.fake_clock import FakeClock
from tf_operator.app.webhook import endpoint


async def test_reviews_take_a_quarter_of_the_time_and_are_answered_one_after_the_other():
    clock, ended = FakeClock(), []
    share, start = endpoint._Share(clock, clock.monotonic), clock.monotonic()

    async def review():
        await clock.sleep(1.0)
        ended.append(clock.monotonic() - start)
        return b""

    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(share.take(review))
        await clock.advance(20)

    assert ended == [1, 2, 5, 9, 13]
