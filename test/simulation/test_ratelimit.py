"""Any rate and any pauses of ``machinery/ratelimit.py``: no window of time sees too many."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from support.fake_clock import FakeClock
from tf_operator.machinery.ratelimit import TokenBucket


@settings(derandomize=True, database=None)
@given(qps=st.integers(1, 50), burst=st.integers(1, 20), pauses=st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_no_window_of_time_sees_more_grants_than_burst_and_rate_allow(qps, burst, pauses):
    async def grants():
        clock = FakeClock()
        bucket = TokenBucket(clock, qps=qps, burst=burst)
        moments = []
        for pause in pauses:
            await clock.advance(pause)
            while bucket.try_acquire():
                moments.append(clock.monotonic())
        return moments

    moments = asyncio.run(grants())

    for first, start in enumerate(moments):
        for last in range(first, len(moments)):
            assert last - first + 1 <= burst + qps * (moments[last] - start) + 1e-6
