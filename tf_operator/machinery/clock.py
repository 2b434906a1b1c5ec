"""The Clock: the only source of time for everything that waits.

Asynchronous code takes a ``Clock`` instead of calling ``asyncio.sleep`` or ``datetime.now``, so that tests
put a fake one in its place and live through a day in a second (``test/support/fake_clock.py``). ruff bans
the direct calls everywhere else; planning does not even get a clock, but ``now`` as a value.

Two kinds of time, never mixed: ``now`` is the wall clock, for what is written into objects and read by
people; ``monotonic`` only ever grows, and is what durations, deadlines and leases are measured by: the
wall clock may jump an hour in either direction and no timer notices.
"""

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has already run."""


class Clock(ABC):
    """Time, as three primitives; sleeping and timeouts are built from them and alike on every clock."""

    @abstractmethod
    def now(self) -> datetime:
        """The wall clock, in UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back, unmoved by changes of the wall clock."""

    @abstractmethod
    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run ``callback`` on the event loop once ``monotonic()`` has reached ``when``."""

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less gives the other tasks one turn, as ``asyncio.sleep(0)`` does."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wakeup = asyncio.Event()
        timer = self.call_at(self.monotonic() + seconds, wakeup.set)
        try:
            await wakeup.wait()
        finally:
            timer.cancel()

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` in the body after ``seconds``; ``None`` never does.

        A cancellation from outside stays a cancellation.
        """
        return _Timeout(self, math.inf if seconds is None else self.monotonic() + seconds)

    def timeout_at(self, due: Callable[[], float]) -> AbstractAsyncContextManager[object]:
        """Raise ``TimeoutError`` in the body at a moment that may move on, as for what must not be silent for long.

        Where it has moved to is asked for only when it would have come: that costs one timer, however often it moves.
        """
        return _Timeout(self, due(), due)


class _Timeout:
    """What ``asyncio.timeout`` does, by the timers of a clock.

    At its end the task is cancelled. That was we, and nobody from outside, if it has no more cancellations than when
    the body began. Python 3.11.2, which Debian 12 has, does not count those: what a task still has to do that is being
    cancelled, such as to drain, would end in another ``CancelledError``.
    """

    __slots__ = ("_cancellations", "_clock", "_is_over", "_moment", "_moved_to", "_task", "_timer")

    def __init__(self, clock: Clock, moment: float, moved_to: Callable[[], float] | None = None) -> None:
        """``moved_to``: to which moment that has moved on by then, if it can."""
        self._clock = clock
        self._moment = moment
        self._moved_to = moved_to
        self._is_over = False
        self._timer: Timer | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only what a task does has a time limit")
        self._task, self._cancellations = task, task.cancelling()
        if self._moment < math.inf:
            self._timer = self._clock.call_at(self._moment, self._look)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_over and self._task.uncancel() <= self._cancellations and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _look(self) -> None:
        if self._moved_to:
            self._moment = self._moved_to()
        if self._clock.monotonic() < self._moment:
            self._timer = self._clock.call_at(self._moment, self._look)
        else:
            self._is_over = True
            self._task.cancel()


class SystemClock(Clock):
    """Real time: the wall clock of the machine and the timers of the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
    """The machine's monotonic clock, which is also the event loop's."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run ``callback`` on the running event loop at ``when``."""
        # The delay, not the absolute time: an event loop may count from another moment than this clock.
        return asyncio.get_running_loop().call_later(max(0.0, when - time.monotonic()), callback)
