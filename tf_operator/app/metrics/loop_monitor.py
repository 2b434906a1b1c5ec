"""The operator's event loop as another thread sees it: whether it runs, how late it is, and what it does when asked.

A loop that is blocked looks from the inside like one in which nothing happens. So its heartbeat is read from outside:
by ``http.health``, on the event loop of the HTTP server. What only the operator's loop may read or do for that server
(samples of the moment, reviews of tokens, reports) goes through ``run`` or ``call``, which wait for a bounded time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from tf_operator.app.metrics.process import LoopMetrics
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.heartbeat import Heartbeat

EVERY = 0.25
"""Seconds between two measurements of the lag: one stall of a second cannot hide, and a quiet process stays quiet."""

T = TypeVar("T")


class LoopMonitor:
    """Watches the event loop that it is made on."""

    def __init__(self, clock: Clock, metrics: LoopMetrics) -> None:
        self.heartbeat = Heartbeat(clock)
        self._clock = clock
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        metrics.read_age_by(self.heartbeat.age)

    async def measure(self) -> NoReturn:
        while True:
            due = self._clock.monotonic() + EVERY
            await self._clock.sleep(EVERY)
            self._metrics.lagged(max(0.0, self._clock.monotonic() - due))

    async def call(self, function: Callable[[], T], *, within: float) -> T | None:
        """From another event loop: what a function returns on this one; ``None`` when it has not done so in time.

        One that has not been called by then never is. It takes half of the CPU of ``run``.
        """
        caller = asyncio.get_running_loop()
        result: asyncio.Future[T] = caller.create_future()

        def settle(put: Callable[[], None]) -> None:
            if not result.done():
                put()

        def begin() -> None:
            if result.done():
                return
            put: Callable[[], None]
            try:
                put = partial(result.set_result, function())
            except Exception as error:  # noqa: BLE001 (the caller raises it)
                put = partial(result.set_exception, error)
            with suppress(RuntimeError):  # the caller's loop has ended
                caller.call_soon_threadsafe(settle, put)

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:  # the loop has ended
            return None
        try:
            async with self._clock.timeout(within):
                return await result
        except TimeoutError:
            return None

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], *, within: float) -> T | None:
        """The same with a coroutine, which may wait.

        One that has not begun by then never does: a loop that is stuck has nothing to catch up on.
        """
        is_awaited = True

        async def begin() -> T | None:
            return await work() if is_awaited else None

        coroutine = begin()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop has ended
            coroutine.close()
            return None
        try:
            async with self._clock.timeout(within):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            return None
        finally:
            is_awaited = False
