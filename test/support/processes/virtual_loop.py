"""An event loop in virtual time: when no task is ready, the time of its FakeClock goes on to the next timer.

    clock = FakeClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(...)             # a minute on this clock takes as long as what happens in it

There is no I/O, so whatever runs here goes the same way each time. A loop in which nothing can happen any more is a
``Stuck``.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import NoReturn

from support.fake_clock import FakeClock


class Stuck(Exception):
    """Every task waits, and no timer is left."""


class VirtualLoop(asyncio.BaseEventLoop):
    """``time()`` is that of the clock. Timers of asyncio's own do not exist here: everybody has the clock's."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._asyncgens = _Weakly()
        self.time = clock.monotonic  # type: ignore[method-assign]

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, without what that does for debug mode."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"a timer of asyncio's own, at {when}")

    def _run_once(self) -> None:
        """As asyncio's, without I/O and timers of its own: when no callback is ready, time passes."""
        ready = self._ready
        if not ready and not self._stopping:
            if self._clock.next_timer_in() is None:
                raise Stuck
            self._clock.fire_next()
        for _ in range(len(ready)):  # what these add comes in the next turn
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody waits in a selector."""


class _Weakly:
    """What asyncio takes for the ``WeakSet`` of its generators: that would be called back at the end of each."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[object]] = []

    def add(self, generator: object) -> None:
        self._references.append(weakref.ref(generator))

    def discard(self, generator: object) -> None:
        """Nothing: it is about to be gone."""

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[object]:
        return (generator for reference in self._references if (generator := reference()) is not None)

    def clear(self) -> None:
        self._references.clear()
