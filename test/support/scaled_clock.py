"""A Clock that runs faster than the world: for faults whose rule names minutes, against a server that is real.

With a factor of 20, five minutes of back-off pass in fifteen seconds, and a limit of 90 s is 4.5 s of waiting. What
the server does at its own pace (a bookmark a minute) looks that much slower; a test has to bear that in mind.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from tf_operator.machinery.clock import Clock, Timer


class ScaledClock(Clock):
    """Monotonic time and timers run ``factor`` times as fast; the wall clock is the machine's."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._began = time.monotonic()

    def now(self) -> datetime:
        """The wall clock of this machine, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since this clock was made, as this clock counts them."""
        return (time.monotonic() - self._began) * self._factor

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Run ``callback`` on the running event loop at ``when``."""
        seconds = max(0.0, when - self.monotonic()) / self._factor
        return asyncio.get_running_loop().call_later(seconds, callback)
