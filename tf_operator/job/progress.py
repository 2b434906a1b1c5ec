"""How far a training is, as its program says: a value, what of it is news, and how long the rest may take."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

POINTS: Final = 10
"""So many rises of the percentage are looked at to work out how long the rest takes."""
_FEWEST_POINTS: Final = 5
_LEAST_PERCENTAGE: Final = 1
MOST_REMAINING: Final = 10 * 365 * 24 * 3600
"""Seconds. Of a longer time nothing is said."""


class Metric(NamedTuple):
    name: str
    value: str
    """As the program has written it: nothing is calculated with it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of a program: at most 2 kB of metrics, and 100 bytes."""

    percentage: int | None = None
    remaining: int | None = None
    """Seconds."""
    step: int | None = None
    metrics: tuple[Metric, ...] = ()
    time: datetime | None = None
    """When it was received, by the operator's clock: those of programs may be wrong."""

    def has_moved_from(self, earlier: "Progress | None") -> bool:
        """Whether it is progress, and not the heartbeat of a thread that repeats itself."""
        if earlier is None:
            return True
        return (self.percentage, self.step, self.metrics) != (earlier.percentage, earlier.step, earlier.metrics)


class Point(NamedTuple):
    """A percentage, and when it was first reported, in seconds of any clock."""

    seconds: float
    percentage: int


def remaining(points: Sequence[Point]) -> int | None:
    """How long the rest takes at the mean rate of these points, in seconds; ``None`` where that would be a guess."""
    if len(points) < _FEWEST_POINTS:
        return None
    first, last = points[0], points[-1]
    if last.percentage <= max(first.percentage, _LEAST_PERCENTAGE):
        return None
    rest = (100 - last.percentage) * (last.seconds - first.seconds) / (last.percentage - first.percentage)
    return round(rest) if rest <= MOST_REMAINING else None
