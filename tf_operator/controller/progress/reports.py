"""The last report of each job whose program reports how far it is, and when it is to be stored.

Of a thousand jobs that report every five seconds, a write for each would be the most that the operator does. So a job
has one in 30 seconds, or in 5 minutes if its percentage has not changed, and all jobs together have ten in a second.
Lost with a restart: the next report is a moment away.

It also knows since when a program has reported nothing new, and whether it is alone with that. Programs that fall
silent together do not hang: it is the listener, or the network.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from tf_operator.job import constants, progress
from tf_operator.job.progress import Point, Progress, ProgressClock
from tf_operator.job.record import JobPhase
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.planning.snapshot import Hearing, ReportedProgress

HEARD_WITHIN: Final = 600.0
"""Seconds before a program fell silent in which another one must have reported to be compared with it."""
TURN_TAKEN: Final = 5.0
"""A report gets its turn up to so many seconds before it is due. Reports come every five seconds, so the job is
reconciled once, when its report may be stored, and not before, only to find that others come first."""
COMPARED_EVERY: Final = 1.0
"""Seconds for which all programs are compared with the same picture: each look at ten thousand jobs reads them all."""


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
    heard_at: float
    namespace: str
    moved_at: float | None = None
    """When there was progress since this process listens, and not just a report."""
    begins: bool = False
    """Whether its program was started again, so that the next report is progress, whatever it says."""
    stored: Progress | None = None
    stored_at: float = -math.inf
    due: float | None = None
    turn: float | None = None
    """From when on what is due may be stored, among the writes of all jobs."""
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=progress.POINTS))


class ProgressReports:
    """Reports by the UID of their job; of a job that is not cached nothing is kept."""

    def __init__(self, clock: Clock, phase_of: Callable[[str], str | None], pace: Pace = DEFAULT_PACE) -> None:
        """``phase_of``: where the job of this UID stands; ``None`` if there is none."""
        self._clock = clock
        self._phase_of = phase_of
        self._pace = pace
        self._writes = TokenBucket(clock, qps=pace.per_second, burst=max(1, round(pace.per_second)))
        self._entries: dict[str, _Entry] = {}
        self._listens_since = clock.monotonic()
        self._picture: tuple[float, dict[str, list[float]]] = -math.inf, {}
        """When it was taken, and when the running jobs of each namespace were heard last, the earliest first."""

    def begin_term(self) -> None:
        """What was reported to this process in an earlier term is older than what its successor has stored."""
        self._entries.clear()
        self._picture = -math.inf, {}
        self._listens_since = self._clock.monotonic()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def add(
        self,
        uid: str,
        report: Progress,
        stored: Progress | None = None,
        *,
        begins: bool = False,
        namespace: str = "",
        run: str = "",
    ) -> float | None:
        """Keep a report; the seconds after which its job is to be reconciled, ``None`` for not because of it.

        ``stored``: what was reported before, if this is the first report that is kept of the job; ``begins``: by an
        earlier run of the program, as far as is stored. ``run``: which one this is.
        """
        if self._phase_of(uid) is None:
            return None
        now, entry = self._clock.monotonic(), self._entries.get(uid)
        has_moved = begins or report.has_moved_from(entry.latest if entry else stored)
        report = report.after(entry.latest if entry else stored, run)
        if entry is None:
            entry = self._entries[uid] = _Entry(report, now, namespace)
        has_moved, entry.begins = has_moved or entry.begins, False
        silent_since = self._listens_since if entry.moved_at is None else entry.moved_at
        may_be_hung = has_moved and now - silent_since >= constants.LEAST_PROGRESS_DEADLINE
        entry.heard_at, entry.moved_at = now, now if has_moved else entry.moved_at
        entry.latest = replace(report, remaining=_remaining(entry.points, report, now))
        due = max(now, entry.stored_at + self._interval(entry))
        entry.due = due if entry.due is None else min(due, entry.due)
        return 0.0 if may_be_hung else self._wait(entry, now)

    def of(self, uid: str, now: datetime) -> ReportedProgress | None:
        """The last report of a job that is reconciled now."""
        entry = self._entries.get(uid)
        if entry is None:
            return None
        if entry.due is None:
            return ReportedProgress(entry.latest)
        wait = self._wait(entry, self._clock.monotonic())
        return ReportedProgress(entry.latest, now + timedelta(seconds=wait))

    def hearing(self, uid: str, now: datetime, deadline_seconds: float, clock: ProgressClock) -> Hearing:
        """What is known of the silence of a job's program. ``clock``: how it is stored."""
        at, entry = self._clock.monotonic(), self._entries.get(uid)
        since = now - timedelta(seconds=at - self._listens_since)
        if entry is None:
            return Hearing(since, is_doubtful=True)
        moved = None if entry.moved_at is None else now - timedelta(seconds=at - entry.moved_at)
        has_begun = clock.has_reported or (moved and clock.running_since and moved > clock.running_since)
        entry.begins = entry.begins or not has_begun
        is_silent = at - entry.heard_at >= deadline_seconds
        return Hearing(since, moved, is_doubtful=is_silent and self._is_one_of_many(entry, at))

    def _is_one_of_many(self, silent: _Entry, at: float) -> bool:
        """Whether more than half of those that reported at that time are silent since, and for half as long at least.

        That is asked of the jobs of its namespace, and of the namespaces, each of which has one voice: the silence of
        a tenant's thousand jobs must not keep those of others from being restarted. One whose job does not run now has
        reason to be silent.
        """
        earliest, silent_until = silent.heard_at - HEARD_WITHIN, (silent.heard_at + at) / 2
        namespaces, is_own_silent = [], False
        for namespace, heard in self._heard(at).items():
            begin = bisect_left(heard, earliest)
            total, silent_jobs = len(heard) - begin, bisect_right(heard, silent_until) - begin
            if total:
                namespaces.append(silent_jobs > total / 2)
            is_own_silent = is_own_silent or (namespace == silent.namespace and _are_many(silent_jobs, total))
        return is_own_silent or _are_many(sum(namespaces), len(namespaces))

    def _heard(self, at: float) -> Mapping[str, Sequence[float]]:
        if at - self._picture[0] >= COMPARED_EVERY:
            by_namespace = defaultdict[str, list[float]](list)
            for uid, entry in self._entries.items():
                if self._phase_of(uid) == JobPhase.RUNNING:
                    by_namespace[entry.namespace].append(entry.heard_at)
            self._picture = at, {namespace: sorted(heard) for namespace, heard in by_namespace.items()}
        return self._picture[1]

    def note_stored(self, uid: str, stored: Progress | None) -> None:
        """The status of the job says this from now on."""
        entry = self._entries.get(uid)
        if entry and entry.due is not None and entry.latest == stored:
            entry.stored, entry.stored_at = stored, self._clock.monotonic()
            entry.due, entry.turn = None, None

    def forget(self, uid: str) -> None:
        self._entries.pop(uid, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _wait(self, entry: _Entry, now: float) -> float:
        """Seconds until what is due may be stored.

        It gets its turn once, and is not asked for again before: of a thousand jobs that report to a new leader, each
        would be reconciled in each second until the last one is stored.
        """
        due = now if entry.due is None else entry.due
        if due <= now + TURN_TAKEN and entry.turn is None:
            entry.turn = now + self._writes.reserve()
        return max(0.0, due - now, (entry.turn or now) - now)

    def _interval(self, entry: _Entry) -> float:
        latest, stored = entry.latest, entry.stored
        if latest.wrong_start and (stored is None or stored.run != latest.run):
            return 0.0
        has_changed = stored is None or _urgent_part(latest) != _urgent_part(stored)
        # A program that reports no percentage changes in other ways.
        if has_changed or (latest.percentage is None and latest.has_moved_from(stored)):
            return max(self._pace.every, len(self._entries) / self._pace.per_second)
        return self._pace.unchanged


def _urgent_part(report: Progress) -> tuple[object, ...]:
    """What of a report must not wait for long when it changes."""
    return report.percentage, report.checkpoint, report.longest_save, report.run


def _are_many(silent: int, total: int) -> bool:
    """Whether it is more than one, and more than half."""
    return silent > max(1, total / 2)


def _remaining(points: deque[Point], report: Progress, now: float) -> int | None:
    """What the program says; else what follows from its last percentages, which this is the next of."""
    if report.percentage is None:
        return report.remaining
    if points and report.percentage < points[-1].percentage:
        points.clear()  # it has begun again
    if not points or report.percentage > points[-1].percentage:
        points.append(Point(now, report.percentage))
    return progress.remaining(points) if report.remaining is None else report.remaining
