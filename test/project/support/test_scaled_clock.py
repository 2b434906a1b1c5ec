"""A clock that runs faster than the world, in all that waits by it."""

import asyncio
import time

import pytest

from support.scaled_clock import ScaledClock


async def test_ten_minutes_of_sleep_and_of_a_timeout_take_a_second():
    clock = ScaledClock(600)
    began, scaled = time.monotonic(), clock.monotonic()

    await clock.sleep(600)
    with pytest.raises(TimeoutError):
        async with clock.timeout(600):
            await asyncio.sleep(60)

    assert clock.monotonic() - scaled >= 1200
    assert 2 <= time.monotonic() - began < 30
