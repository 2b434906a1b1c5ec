"""The time that reviews may take, whoever sends them, and in which order.

Decoding holds the interpreter's lock, and meanwhile nothing is reconciled: so all reviews have a quarter of the time.
Small ones have a part of it that no large one takes, and a lane of their own. In each lane one review is answered after
the other, by the rule of fair queueing: a client, which is an address, pays for each review with its size, and next is
whoever has paid least, the new review included. So of clients that have sent nothing the cheapest review comes first,
and what one client sends without end waits for the others.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from tf_operator.app.http.room import SMALL
from tf_operator.machinery.clock import Clock, Timer

ALL: Final = 0.25
FOR_SMALL: Final = 0.1
WITHOUT_PAUSE: Final = 1.0
"""Seconds of work after a time without any."""
MOST_CLIENTS: Final = 1000
"""More are remembered only if they have paid more than the others."""


class TimeShare:
    """Has reviews wait for their turns."""

    def __init__(self, clock: Clock, cpu_time: Callable[[], float] = time.thread_time) -> None:
        """``cpu_time``: the seconds that this thread has worked for."""
        self._cpu_time = cpu_time
        every, small = _Account(clock, ALL), _Account(clock, FOR_SMALL)
        self._large = _Lane(clock, every.pause), [every]
        self._small = _Lane(clock, lambda: min(every.pause(), small.pause())), [every, small]

    async def take(self, work: Coroutine[Any, Any, bytes], *, client: str, size: int) -> bytes:
        """Do this when it is its turn; its client pays ``size`` for it."""
        lane, accounts = self._small if size <= SMALL else self._large
        measured = _Measured(work, self._cpu_time)
        try:
            async with lane.turn(client, size):
                try:
                    return await measured
                finally:
                    for account in accounts:
                        account.pay(measured.seconds)
        finally:
            work.close()  # its turn may never have come


class _Account:
    """How much of a share of the time has been used."""

    def __init__(self, clock: Clock, share: float) -> None:
        self._clock = clock
        self._share = share
        self._paid_until = clock.monotonic()
        """When the time that was taken so far will be no more than the share of all time."""

    def pause(self) -> float:
        """Seconds until the next work may begin."""
        return max(0.0, self._paid_until - self._clock.monotonic() - WITHOUT_PAUSE / self._share)

    def pay(self, seconds: float) -> None:
        self._paid_until = max(self._paid_until, self._clock.monotonic() - seconds) + seconds / self._share


class _Lane:
    """One at a time, in the order of what the clients have paid."""

    def __init__(self, clock: Clock, pause: Callable[[], float]) -> None:
        self._clock = clock
        self._pause = pause
        self._timer: Timer | None = None
        self._is_taken = False
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._paid: dict[str, float] = {}
        """By client, while anybody waits."""
        self._reached = 0.0
        """What the last one had paid whose turn it was: nobody who comes later pays less."""

    @asynccontextmanager
    async def turn(self, client: str, cost: int) -> AsyncIterator[None]:
        """The body runs when it is its turn."""
        paid = self._paid[client] = max(self._reached, self._paid.get(client, 0.0)) + cost
        granted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (paid, next(self._numbers), granted))
        self._next()
        try:
            await granted
            yield
        finally:
            if granted.done() and not granted.cancelled():
                self._is_taken = False
            self._next()

    def _next(self) -> None:
        if self._is_taken or self._timer:
            return
        while self._waiting and self._waiting[0][2].cancelled():
            heapq.heappop(self._waiting)
        if not self._waiting:
            self._paid, self._reached = {}, 0.0
        elif pause := self._pause():
            self._timer = self._clock.call_at(self._clock.monotonic() + pause, self._resume)
        else:
            self._reached, _, granted = heapq.heappop(self._waiting)
            self._is_taken = True
            if len(self._paid) > MOST_CLIENTS:
                self._paid = {client: paid for client, paid in self._paid.items() if paid > self._reached}
            granted.set_result(None)

    def _resume(self) -> None:
        self._timer = None
        self._next()


class _Measured:
    """A coroutine, and the seconds for which it has worked: not those in which others did while it waited."""

    def __init__(self, work: Coroutine[Any, Any, bytes], cpu_time: Callable[[], float]) -> None:
        self._work = work
        self._cpu_time = cpu_time
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, None, bytes]:
        step: Callable[[], object] = partial(self._work.send, None)
        while True:
            began = self._cpu_time()
            try:
                awaited = step()
            except StopIteration as end:
                result: bytes = end.value
                return result
            finally:
                self.seconds += self._cpu_time() - began
            try:
                yield awaited
                step = partial(self._work.send, None)
            except BaseException as error:  # noqa: BLE001 (it is the coroutine's: a cancellation)
                step = partial(self._work.throw, error)
