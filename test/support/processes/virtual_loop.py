"""An event loop in virtual time: when no task is ready, the time of its FakeClock goes on to the next timer.

    clock = FakeClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(...)             # a minute on this clock takes as long as what happens in it

There is no I/O, so whatever runs here goes the same way each time. A loop in which nothing can happen any more is a
``Stuck``.
"""

import asyncio

from support.fake_clock import FakeClock


class Stuck(Exception):
    """Every task waits, and no timer is left."""


class VirtualLoop(asyncio.BaseEventLoop):
    """``time()`` is that of the clock. Timers of asyncio's own do not exist here: everybody has the clock's."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._selector = _Time(clock)
        self.time = clock.monotonic  # type: ignore[method-assign]

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody waits in a selector."""


class _Time:
    """What asyncio takes for a selector: asked for events when no callback is ready, it lets time pass."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def select(self, timeout: float | None) -> list[object]:
        if timeout != 0:
            if self._clock.next_timer_in() is None:
                raise Stuck
            self._clock.fire_next()
        return []
