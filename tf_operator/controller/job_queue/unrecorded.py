"""Jobs of which decisions cannot be recorded, again and again: the others are planned as if these wanted nothing.

A status that the API server refuses, or a job that changes faster than it is decided upon, would otherwise be given the
same room in each plan, and nobody would ever use it. What runs goes on. A lost reply, or a server that is overloaded,
is no fault of the job.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.responses import ObjectMeta

_log = Logger(__name__)

MOST_ATTEMPTS: Final = 5
"""Decisions in a row about one job that are not recorded; after that it is left out for a while."""
LEFT_OUT_FOR: Final = 60.0
"""Seconds. Then one more decision is tried."""


class Unrecorded:
    """The jobs that are left out, by UID."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts = Counter[str]()
        self._until: dict[str, float] = {}

    def add(self, job: ObjectMeta, error: errors.ApiError) -> None:
        if not isinstance(error, errors.Refused) or isinstance(error, errors.ServerFailed | errors.Throttled):
            return
        self._attempts[job.uid] += 1
        if self._attempts[job.uid] >= MOST_ATTEMPTS:
            self._until[job.uid] = self._clock.monotonic() + LEFT_OUT_FOR
            _log.warning(
                "decisions about a job cannot be recorded; planning without it",
                job=f"{job.namespace}/{job.name}",
                retry_after=LEFT_OUT_FOR,
                cause=error.name,
                error=str(error),
            )

    def remove(self, uid: str) -> None:
        del self._attempts[uid]
        self._until.pop(uid, None)

    def keep(self, uids: Collection[str]) -> None:
        self._attempts = Counter({uid: count for uid, count in self._attempts.items() if uid in uids})
        self._until = {uid: until for uid, until in self._until.items() if uid in uids}

    @property
    def uids(self) -> frozenset[str]:
        now = self._clock.monotonic()
        return frozenset(uid for uid, until in self._until.items() if until > now)

    @property
    def next_retry(self) -> float | None:
        """When the first of them is tried again, on the monotonic clock."""
        now = self._clock.monotonic()
        return min((until for until in self._until.values() if until > now), default=None)
