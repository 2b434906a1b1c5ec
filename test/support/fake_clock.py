"""A Clock whose time passes only when a test says so.

``await clock.advance(60)`` lives through a minute: every timer that falls due in it fires at its own moment, in order,
and after each one all tasks run until they wait again, so that a task woken at second 10 which sleeps 10 more is woken
again at second 20. Real I/O knows nothing of this clock: a test that mixes both lets the I/O finish first.
"""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

from tf_operator.machinery.clock import Clock

_MOST_TURNS = 100_000
"""Turns of the loop without an end of the work in sight: then two tasks are waking each other for ever."""


class FakeTimer:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    @property
    def is_live(self) -> bool:
        return self._callback is not None

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class FakeClock(Clock):
    """Virtual time: starts at a fixed moment and moves only by ``advance`` and ``set_wall``."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._monotonic = 1000.0  # not zero: a deadline of 0 must not look like one that is due
        self._wall_at_zero = start - timedelta(seconds=self._monotonic)
        self._read_at, self._read = 0.0, start
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = count()

    def now(self) -> datetime:
        # Read several times in most moments.
        if self._read_at != self._monotonic:
            self._read_at, self._read = self._monotonic, self._wall_at_zero + timedelta(seconds=self._monotonic)
        return self._read

    def monotonic(self) -> float:
        return self._monotonic

    def call_at(self, when: float, callback: Callable[[], object]) -> FakeTimer:
        """Run ``callback`` when an ``advance`` reaches ``when``; what is past runs at the next one."""
        timer = FakeTimer(callback)
        self.start(timer, when)
        return timer

    def start(self, timer: FakeTimer, when: float) -> None:
        """As ``call_at``, for a timer that somebody else has made."""
        heapq.heappush(self._timers, (when, next(self._order), timer))

    def set_wall(self, moment: datetime) -> None:
        """Jump the wall clock, as an administrator or a resumed machine does; monotonic time stays."""
        self._wall_at_zero = moment - timedelta(seconds=self._monotonic)
        self._read_at = 0.0

    @property
    def pending(self) -> int:
        """How many timers wait. A test that ends with some has leaked them."""
        return sum(timer.is_live for _, _, timer in self._timers)

    def next_timer_in(self) -> float | None:
        while self._timers and not self._timers[0][2].is_live:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - self._monotonic) if self._timers else None

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass: fire what falls due, each at its moment, and let all tasks run in between."""
        end = self._monotonic + seconds
        await self.idle()
        while (wait := self.next_timer_in()) is not None and self._monotonic + wait <= end:
            self.fire_next()
            await self.idle()
        self._monotonic = end

    def fire_next(self) -> None:
        """Go to the moment of the next timer, and fire it; ``IndexError`` without one."""
        due, _, timer = heapq.heappop(self._timers)
        self._monotonic = max(self._monotonic, due)
        timer.fire()

    async def idle(self) -> None:
        """Let every task run until none is ready: each waits for a timer, for I/O or for another task."""
        loop = asyncio.get_running_loop()
        for _ in range(_MOST_TURNS):
            await asyncio.sleep(0)
            # The loop's queue of ready callbacks: there is no public way to ask whether it is empty.
            if not loop._ready:  # type: ignore[attr-defined]
                return
        raise AssertionError(f"the event loop was still busy after {_MOST_TURNS} turns in one virtual instant")
