"""What follows after a watch or a list has ended: keep the version or not, and how long to wait.

The one place for this policy of the reflector, as two tables: ``needs_relist`` (is the version still worth anything?)
and ``delay``. Every kind of ending has a growth of its own: an apiserver that was unreachable for minutes and
now says "not yet" is news, and does not have to wait out the half minute that the silence had earned.
"""

from collections.abc import Callable

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import Backoff
from tf_operator.machinery.transport import errors

BASE = 0.8
CAP = 30.0
QUIET = 120.0
"""client-go's: the first pause is up to 0.8 s, the longest up to 30 s, and after two good minutes all is forgotten."""
SHORTEST = 0.1
"""Full jitter may draw nothing; then this, so that no loop is ever tight."""


class WatchRetryPolicy:
    """The memory of one reflector's misfortunes."""

    def __init__(self, clock: Clock, *, chance: Callable[[], float], healthy: float, relist_after: float) -> None:
        """``healthy`` and ``relist_after`` are explained in ``reflector.Timing``."""
        self._clock = clock
        self._chance = chance
        self._healthy = healthy
        self._relist_after = relist_after
        self._backoffs: dict[str, Backoff] = {}
        self._doubted_since: float | None = None

    def progressed(self) -> None:
        """The watch has brought something: the version is good."""
        self._doubted_since = None

    def needs_relist(self, ending: errors.ApiError) -> bool:
        """Whether going on from the version is hopeless, and only a relist helps."""
        match ending:
            case errors.Expired() | errors.ResourceVersionTooLarge() | errors.NotFound():
                return True
            case errors.NoReply() | errors.Redirected() | errors.Unavailable() | errors.Throttled():
                return False  # nothing is wrong with the version
            case errors.Unauthorized() | errors.Forbidden():
                return False  # nor here: it is we who are not let in
            case _:
                return self._has_doubted_long()

    def delay(self, ending: errors.ApiError | None, *, served_seconds: float) -> float:
        """Seconds before the next try: none after a watch that has served, else more and more."""
        if served_seconds >= self._healthy and isinstance(ending, None | errors.ReplyLost | errors.Expired):
            return 0.0
        kind = ending.name if ending is not None else "closed"
        retry_after = ending.retry_after if ending is not None else None
        return max(self._backoff_of(kind).delay(), retry_after or 0.0, SHORTEST)

    def _backoff_of(self, kind: str) -> Backoff:
        """As many as there are kinds of errors, made when they are needed."""
        if kind not in self._backoffs:
            self._backoffs[kind] = Backoff(self._clock, base=BASE, cap=CAP, quiet=QUIET, chance=self._chance)
        return self._backoffs[kind]

    def _has_doubted_long(self) -> bool:
        now = self._clock.monotonic()
        if self._doubted_since is None:
            self._doubted_since = now
        if now - self._doubted_since < self._relist_after:
            return False
        self._doubted_since = None
        return True
