"""How long a start takes: what was reached, with the milliseconds since the process began. For ``-v``."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

from tf_operator.local import process_identity
from tf_operator.machinery.clock import SystemClock

PROCESS_STARTED: Final = "process started"
_IMPORTED_AT: Final = SystemClock().monotonic()


class Milestones:
    """Reports each milestone once."""

    def __init__(self, say: Callable[[str], object], *, is_on: bool) -> None:
        self._say = say
        self._is_on = is_on
        self._reached = set[str]()
        self.has_process = asyncio.Event()
        """The first program runs."""

    def reached(self, milestone: str) -> None:
        """Report a milestone, such as ``pod created``, the first time."""
        if self._is_on and milestone not in self._reached:
            self._say(f"{process_age() * 1000:6.0f} ms  {milestone}")
        self._reached.add(milestone)
        if milestone == PROCESS_STARTED:
            self.has_process.set()


def process_age() -> float:
    """Seconds since the process was started; where the system does not say, since this module was imported."""
    ticks = process_identity.start_time(os.getpid())
    if ticks.isdecimal():
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return SystemClock().monotonic() - _IMPORTED_AT
