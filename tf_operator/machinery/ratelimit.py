"""How long until the next try, and how many calls a second.

Three small things, each with one question to answer. ``ExponentialBackoff``: how long does this key wait after
its n-th failure? ``TokenBucket``: may one more call start now?
``Backoff``: the same growth for a single actor (a reflector, an elector), jittered and self-resetting.

``ExponentialBackoff`` is a ``RateLimiter``, which is all that ``workqueue.RateLimitedQueue`` knows of it; the bucket
paces the API client. Nothing here reads a clock or rolls a die of its own: both are passed in, so every sequence of
delays is a test's to choose.
"""

import asyncio
import math
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from tf_operator.machinery.clock import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

_MOST_DOUBLINGS = 64
"""Leads from a nanosecond past five centuries; ``2.0 ** 1024`` would raise ``OverflowError``."""


def _double(base: float, cap: float, *, times: int) -> float:
    """``base`` doubled ``times`` times, but at most ``cap``, however often it has been."""
    return min(cap, base * 2.0 ** min(times, _MOST_DOUBLINGS))


class RateLimiter(Protocol[K_contra]):
    """Decides when a key may be tried again; the calls of client-go's ``TypedRateLimiter``."""

    def delay(self, key: K_contra, /) -> float:
        """Seconds until the key may be tried again. Asking counts as one more failure."""

    def forget(self, key: K_contra, /) -> None:
        """Start again with this key: it succeeded, or is given up."""

    def retries(self, key: K_contra, /) -> int:
        """How many delays were asked for since the key was last forgotten."""


class ExponentialBackoff(Generic[K]):
    """Per key: ``base``, twice that, four times ... up to ``cap`` seconds.

    Holds one number for each key that has failed and was not forgotten since: a caller that asks for delays must
    ``forget`` in the end, or the numbers of deleted objects pile up.
    """

    def __init__(self, *, base: float, cap: float) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[K, int] = {}

    def delay(self, key: K, /) -> float:
        """Seconds until the key may be tried again; the next answer is twice as long."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return _double(self._base, self._cap, times=failures)

    def forget(self, key: K, /) -> None:
        """Start at ``base`` again; a key that never failed is fine."""
        self._failures.pop(key, None)

    def retries(self, key: K, /) -> int:
        """How often the key has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class TokenBucket:
    """On average ``qps`` grants a second, up to ``burst`` at once after a quiet time.

    All state is one moment: when the bucket will be full again. A grant moves it one interval on, and a token
    is there as long as it lies less than ``burst`` intervals ahead. So nothing runs in the background, and in
    any ``t`` seconds there are at most ``burst + qps * t`` grants.

    ``qps=math.inf`` grants everything at once.
    """

    def __init__(self, clock: Clock, *, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"no call would ever pass {qps} tokens a second with a burst of {burst}")
        self._clock = clock
        self._interval = 1 / qps
        self._slack = (burst - 1) * self._interval
        self._full_at = clock.monotonic()
        self._turnstile = asyncio.Lock()
        self._in_line = 0
        """How many have come and have no token yet."""

    async def wait(self) -> None:
        """Wait for a token and take it. First come, first served.

        The token is taken when the wait is over, so a cancelled waiter has taken none, and those behind it
        move up at once. client-go (``rate.Limiter.WaitN``) reserves first, and a cancelled waiter with others
        behind it gives nothing back. The turnstile lets only the first in line sleep: one timer, however many
        wait. Should that one be woken late, the tokens of the meantime have gathered for the next ones.
        """
        if not self._in_line and self._seconds_to_token() <= 0:
            # The rule. To pass the turnstile takes a turn of the event loop, a seventh of what a call costs.
            self._take()
            return
        self._in_line += 1
        try:
            async with self._turnstile:
                await self._clock.sleep(self._seconds_to_token())
                self._take()
        finally:
            self._in_line -= 1

    def try_acquire(self) -> bool:
        """Take a token if there is one now; whether there was. For callers that reject instead of waiting."""
        if self._seconds_to_token() > 0:
            return False
        self._take()
        return True

    def reserve(self) -> float:
        """Take a token that will be there; the seconds until then. For callers that come back at their time."""
        wait = self._seconds_to_token()
        self._take()
        return wait

    def _seconds_to_token(self) -> float:
        # In nanoseconds: of a burst of ten, rounding in binary would leave nine.
        return max(0.0, round(self._full_at - self._slack - self._clock.monotonic(), 9))

    def _take(self) -> None:
        self._full_at = max(self._full_at, self._clock.monotonic()) + self._interval


class Backoff:
    """Growing waits for a single actor: exponential, fully jittered, capped, forgotten after a quiet time.

    Each wait is drawn evenly from zero up to the exponential bound. client-go adds its jitter on top of the
    bound, which makes a cap of 30 s one of 60; here no wait is longer than ``cap``, and a thousand actors
    cut off in the same moment still come back spread out.

    The actor need not report success: when ``quiet`` seconds have passed since the last wait ended and no new
    one was asked for, the growth starts again. So ``quiet`` must be longer than the slowest failure takes, or
    a call that hangs until its timeout looks like peace.
    """

    def __init__(self, clock: Clock, *, base: float, cap: float, quiet: float, chance: Callable[[], float]) -> None:
        """``chance`` is the random source: evenly from [0, 1), as ``random.Random().random``."""
        self._clock = clock
        self._base = base
        self._cap = cap
        self._quiet = quiet
        self._chance = chance
        self._failures = 0
        self._calm_at = math.inf

    def delay(self) -> float:
        """Seconds to wait before the next try. Asking counts as one more failure."""
        now = self._clock.monotonic()
        if now >= self._calm_at:
            self._failures = 0
        seconds = self._chance() * _double(self._base, self._cap, times=self._failures)
        self._failures += 1
        self._calm_at = now + seconds + self._quiet
        return seconds
