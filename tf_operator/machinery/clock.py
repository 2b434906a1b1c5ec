"""The Clock: the only source of time for everything that waits.

Asynchronous code takes a ``Clock`` instead of calling ``asyncio.sleep`` or ``datetime.now``, so that tests
put a fake one in its place and live through a day in a second (``test/support/fake_clock.py``). ruff bans
the direct calls everywhere else; planning does not even get a clock, but ``now`` as a value.

Two kinds of time, never mixed: ``now`` is the wall clock, for what is written into objects and read by
people; ``monotonic`` only ever grows, and is what durations, deadlines and leases are measured by: the
wall clock may jump an hour in either direction and no timer notices.
"""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Final, Protocol

_ASYNCIO_COUNTS_CANCELLATIONS: Final = sys.version_info >= (3, 11, 3)
"""Python 3.11.2, which Debian 12 has, does not: in a task that is being cancelled, ``asyncio.timeout`` ends in another
``CancelledError`` instead of a ``TimeoutError``. What such a task still has to do, such as to drain, would be left."""


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

        A cancellation from outside stays a cancellation. ``asyncio.timeout`` does the delicate part; only
        the moment is ours, so that a fake clock can bring it about.
        """
        return self._timeout(seconds)

    @asynccontextmanager
    async def timeout_at(self, due: Callable[[], float]) -> AsyncIterator[None]:
        """Raise ``TimeoutError`` in the body at a moment that may move on, as for what must not be silent for long.

        Where it has moved to is asked for only when it would have come: that costs one timer, however often it moves.
        """
        async with _timeout_scope() as scope:
            timer: Timer

            def look() -> None:
                nonlocal timer
                if self.monotonic() < (moment := due()):
                    timer = self.call_at(moment, look)
                else:
                    scope.reschedule(asyncio.get_running_loop().time())

            timer = self.call_at(due(), look)
            try:
                yield
            finally:
                timer.cancel()

    @asynccontextmanager
    async def _timeout(self, seconds: float | None) -> AsyncIterator[None]:
        if seconds is None:
            yield
            return
        moment = self.monotonic() + seconds
        async with self.timeout_at(lambda: moment):
            yield


@asynccontextmanager
async def _timeout_scope() -> AsyncIterator[asyncio.Timeout]:
    """``asyncio.timeout``, with ``_ASYNCIO_COUNTS_CANCELLATIONS`` or without."""
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0
    scope = asyncio.timeout(None)
    try:
        async with scope:
            yield scope
    except asyncio.CancelledError as cancellation:
        if scope.expired() and task and task.cancelling() <= cancellations:
            raise TimeoutError from cancellation
        raise


class SystemClock(Clock):
    """Real time: the wall clock of the machine and the timers of the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic clock, which is also the event loop's."""
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run ``callback`` on the running event loop at ``when``."""
        # The delay, not the absolute time: an event loop may count from another moment than this clock.
        return asyncio.get_running_loop().call_later(max(0.0, when - self.monotonic()), callback)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """As on every clock. In real time the moment can be left to asyncio, at half the price, for each call."""
        return asyncio.timeout(seconds) if _ASYNCIO_COUNTS_CANCELLATIONS else self._timeout(seconds)
