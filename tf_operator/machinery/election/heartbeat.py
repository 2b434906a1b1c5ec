"""The heartbeat of an event loop: how long ago it last ran a timer.

A loop that is blocked, by a computation or by a call that waits, looks from the inside like one in which nothing
happens. From another thread it shows: its heartbeat gets old. The elector looks at it before each renewal, so that
a process whose work hangs does not hold the Lease for ever; a probe can read it, too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tf_operator.machinery.clock import Clock

EVERY = 1.0


class Heartbeat:
    """Beaten by the loop that is watched, read from any thread: both touch one attribute, so no lock is needed."""

    def __init__(self, clock: Clock, *, every: float = EVERY) -> None:
        self._clock = clock
        self._every = every
        self._last = clock.monotonic()
        self._cancel: Callable[[], object] = lambda: None

    def age(self) -> float:
        """Seconds since the last beat: about ``every`` at most while the loop is well."""
        return self._clock.monotonic() - self._last

    def beat(self) -> None:
        self._last = self._clock.monotonic()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat on the running loop, now and then every ``every`` seconds."""
        self._beat_on()
        try:
            yield
        finally:
            self._cancel()

    def _beat_on(self) -> None:
        self.beat()
        self._cancel = self._clock.call_at(self._clock.monotonic() + self._every, self._beat_on).cancel
