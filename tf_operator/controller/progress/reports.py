"""The last report of each job whose program reports how far it is, and when it is to be stored.

Of a thousand jobs that report every five seconds, a write for each would be the most that the operator does. So a job
has one in 30 seconds, or in 5 minutes if its percentage has not changed, and all jobs together have ten in a second.
Lost with a restart: the next report is a moment away.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tf_operator.job import progress
from tf_operator.job.progress import Point, Progress
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.planning.snapshot import ReportedProgress

PUT_OFF: float = 1.0
"""Seconds for which a write waits when there are too many of them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often progress is stored, in seconds."""

    every: float = 30.0
    unchanged: float = 300.0
    """Of a percentage that is the same as before."""
    per_second: float = 10.0
    """Writes of all jobs together."""


DEFAULT_PACE = Pace()


@dataclass(slots=True)
class _Entry:
    latest: Progress
    stored: Progress | None = None
    stored_at: float = -math.inf
    due: float | None = None
    has_turn: bool = False
    """Whether what is due has its turn among the writes of all jobs."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=progress.POINTS))


class ProgressReports:
    """Reports by the UID of their job; of a job that is not cached nothing is kept."""

    def __init__(self, clock: Clock, exists: Callable[[str], bool], pace: Pace = DEFAULT_PACE) -> None:
        """``exists``: whether there is a job of this UID."""
        self._clock = clock
        self._exists = exists
        self._pace = pace
        self._writes = TokenBucket(clock, qps=pace.per_second, burst=max(1, round(pace.per_second)))
        self._entries: dict[str, _Entry] = {}

    def begin_term(self) -> None:
        """What was reported to this process in an earlier term is older than what its successor has stored."""
        self._entries.clear()

    def add(self, uid: str, report: Progress) -> float | None:
        """Keep a report; the seconds after which its job is to be reconciled, ``None`` for not because of it."""
        if not self._exists(uid):
            return None
        now, entry = self._clock.monotonic(), self._entries.setdefault(uid, _Entry(report))
        entry.latest = replace(report, remaining=_remaining(entry.points, report, now))
        due = max(now, entry.stored_at + self._interval(entry))
        entry.due = due if entry.due is None else min(due, entry.due)
        return max(0.0, entry.due - now)

    def of(self, uid: str, now: datetime) -> ReportedProgress | None:
        """The last report of a job that is reconciled now. What is due takes its turn among the writes of all jobs."""
        entry = self._entries.get(uid)
        if entry is None:
            return None
        if entry.due is None:
            return ReportedProgress(entry.latest)
        wait = entry.due - self._clock.monotonic()
        if wait <= 0:
            entry.has_turn = entry.has_turn or self._writes.try_acquire()
            wait = 0.0 if entry.has_turn else PUT_OFF
        return ReportedProgress(entry.latest, now + timedelta(seconds=wait))

    def note_stored(self, uid: str, stored: Progress | None) -> None:
        """The status of the job says this from now on."""
        entry = self._entries.get(uid)
        if entry and entry.due is not None and entry.latest == stored:
            entry.stored, entry.stored_at = stored, self._clock.monotonic()
            entry.due, entry.has_turn = None, False

    def forget(self, uid: str) -> None:
        self._entries.pop(uid, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _interval(self, entry: _Entry) -> float:
        latest, stored = entry.latest, entry.stored
        has_changed = stored is None or latest.percentage != stored.percentage
        # A program that reports no percentage changes in other ways.
        if has_changed or (latest.percentage is None and latest.has_moved_from(stored)):
            return max(self._pace.every, len(self._entries) / self._pace.per_second)
        return self._pace.unchanged


def _remaining(points: deque[Point], report: Progress, now: float) -> int | None:
    """What the program says; else what follows from its last percentages, which this is the next of."""
    if report.percentage is None:
        return report.remaining
    if points and report.percentage < points[-1].percentage:
        points.clear()  # it has begun again
    if not points or report.percentage > points[-1].percentage:
        points.append(Point(now, report.percentage))
    return progress.remaining(points) if report.remaining is None else report.remaining
