"""The fence: until when this process may start a write, as a moment on its own clock.

A Lease does not stop anybody. Between a write and the apiserver stands only the writer's own judgement, and
client-go leaves it there: its election "does not guarantee that only one client is acting as a leader (a.k.a.
fencing)". Here every write asks the fence, last immediately before its first byte is written: the client for
writes is ``ApiClient(..., guard=fence.check)``. The elector moves the fence ahead
with each renewal that the apiserver has confirmed, to the renew deadline counted from *before* that renewal was
sent; nothing has to happen for it to close. So a renewal that hangs, a stalled thread, or a process that is stopped
(SIGSTOP) and continued finds it closed, while others wait for the longer lease duration before they take over.

One thread writes, the elector's; any thread may read: a read is one attribute, so no lock is needed.

What remains: a request that has been handed to the kernel is not called back, and a hypervisor that pauses a whole
machine may stop all of its clocks. Against both, writes carry a resourceVersion or a UID (``docs/adr/0003``).
"""

import time

from tf_operator.machinery.clock import Clock, SystemClock


class NotLeading(Exception):
    """No write may start now: this process does not hold the Lease, or cannot be sure that it still does.

    No ``ApiError``, because nothing was sent and nobody failed: it must be neither counted, nor reported as an event,
    nor repeated. A worker's loop catches it beside ``ApiError`` and puts the key back. The term is over or about to be,
    and the next one begins with all keys and with caches that have been refreshed (``SharedInformerFactory.refresh``).
    """


class LeaseClock(SystemClock):
    """The system's clock, whose ``monotonic`` also counts the time in which the machine was asleep.

    CLOCK_MONOTONIC runs on while a process is stopped, but not while the machine is suspended; another machine would
    see our lease run out while we, awake again, still felt sure of it. Timers are relative, and as on any clock
    they count waking time only. Where there is no CLOCK_BOOTTIME (only Linux has it) this is the monotonic clock.
    """

    _suspend_aware = getattr(time, "CLOCK_BOOTTIME", None)

    def monotonic(self) -> float:
        """Seconds since the machine was started, asleep or awake."""
        if self._suspend_aware is None:
            return super().monotonic()
        return time.clock_gettime(self._suspend_aware)


class Fence:
    """Closed at first; open up to a moment that only a confirmed renewal moves ahead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self.remaining() > 0

    def remaining(self) -> float:
        """For how many seconds writes may start; zero or less when they may not."""
        return self._until - self._clock.monotonic()

    def check(self) -> None:
        """Raise ``NotLeading`` unless a write may start now. What follows must not wait for anything."""
        if not self.is_open:
            raise NotLeading("the Lease is not held, or may have expired")

    def open_until(self, moment: float) -> None:
        """Let writes start before ``moment``. It never moves back: replies may overtake each other."""
        self._until = max(self._until, moment)

    def close(self) -> None:
        self._until = float("-inf")
