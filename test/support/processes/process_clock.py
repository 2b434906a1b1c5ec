"""The clock of one of several processes on one event loop: at its own rate, and silent while the process is stopped."""

import random
from collections.abc import Callable
from datetime import datetime

from support.fake_clock import FakeClock, FakeTimer
from tf_operator.machinery.clock import Clock, Timer


class _Timer(FakeTimer):
    """Waits for its process, too: an event loop does not run what was cancelled before, however late it is."""

    __slots__ = ("_clock",)

    def __init__(self, clock: "ProcessClock", callback: Callable[[], object]) -> None:
        super().__init__(callback)
        self._clock = clock

    def fire(self) -> None:
        if self._clock.is_stopped and self.is_live:
            self._clock.run(super().fire)
        else:
            super().fire()


class ProcessClock(Clock):
    """Its own rate and beginning, and no callback while the process is stopped, as by SIGSTOP."""

    def __init__(self, world: FakeClock, rate: float = 1.0) -> None:
        self._world = world
        self._rate = rate
        self._world_time = world.monotonic
        self._began = world.monotonic()
        self._held_back: list[Callable[[], object]] = []
        self.is_stopped = False

    def now(self) -> datetime:
        return self._world.now()

    def monotonic(self) -> float:
        return 5e5 + (self._world_time() - self._began) * self._rate

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        now = self._world_time()
        seconds = max(0.0, (when - (5e5 + (now - self._began) * self._rate)) / self._rate)
        timer = _Timer(self, callback)
        self._world.start(timer, now + seconds)
        return timer

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
