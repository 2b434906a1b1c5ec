"""The clock of one of several processes on one event loop: at its own rate, and silent while the process is stopped."""

import random
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from support.fake_clock import FakeClock, FakeTimer
from tf_operator.machinery.clock import Clock, Timer


class _Timers(NamedTuple):
    """Of the process and of the world: an event loop does not run what was cancelled before, however late it is."""

    own: FakeTimer
    world: FakeTimer

    def cancel(self) -> None:
        for timer in self:
            timer.cancel()


class ProcessClock(Clock):
    """Its own rate and beginning, and no callback while the process is stopped, as by SIGSTOP."""

    def __init__(self, world: FakeClock, rate: float = 1.0) -> None:
        self._world = world
        self._rate = rate
        self._began = world.monotonic()
        self._held_back: list[Callable[[], object]] = []
        self.is_stopped = False

    def now(self) -> datetime:
        return self._world.now()

    def monotonic(self) -> float:
        return 5e5 + (self._world.monotonic() - self._began) * self._rate

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        seconds = max(0.0, (when - self.monotonic()) / self._rate)
        own = FakeTimer(callback)
        return _Timers(own, self._world.call_at(self._world.monotonic() + seconds, lambda: self.run(own.fire)))

    def run(self, callback: Callable[[], object]) -> None:
        """Run something of this process now, or when it is continued."""
        if self.is_stopped:
            self._held_back.append(callback)
        else:
            callback()

    def go_on(self) -> None:
        self.is_stopped = False
        held_back, self._held_back = self._held_back, []
        # What the kernel has for a process that wakes up comes in any order.
        random.Random(len(held_back)).shuffle(held_back)
        for callback in held_back:
            callback()
