"""Curves of the metrics that a program reports, as they are known where they are collected.

What a program reports is a tenant's: how many curves and points there are is bounded, whatever their names and values.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from tf_operator import text as texts
from tf_operator.job.progress import Progress

MOST_POINTS: Final = 1000
MOST_CURVES: Final = 8
MOST_CHECKPOINTS: Final = 50
_MOST_OF_SMALL: Final = 60
_DIGITS: Final = 6
_LONGEST_NAME: Final = 64
_LARGEST: Final = 1e300

Point = tuple[float | None, ...]
"""When it was received, in seconds; the step; and the value of each metric, in the order of the names."""


class Saved(NamedTuple):
    """A checkpoint."""

    time: datetime
    step: int


class _Copy(msgspec.Struct):
    names: list[str]
    points: list[Point]
    count: int
    last: datetime | None
    checkpoints: list[Saved]


class Curves:
    """The last points of one job, of those metrics that were the first to be numbers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.points = deque[Point](maxlen=MOST_POINTS)
        self.count = 0
        """Points since the beginning."""
        self.checkpoints = deque[Saved](maxlen=MOST_CHECKPOINTS)
        self._last: datetime | None = None
        self._restored_until: datetime | None = None

    @classmethod
    def of_copy(cls, value: object) -> "Curves":
        """Those of a ``copy``, which go on here; empty ones from anything else."""
        curves = cls()
        try:
            copy = msgspec.convert(value, _Copy)
        except msgspec.ValidationError:
            return curves
        curves.names, curves.count = copy.names, max(copy.count, len(copy.points))
        curves.points.extend(copy.points)
        curves.checkpoints.extend(copy.checkpoints)
        curves._restored_until = copy.last
        return curves

    def copy(self) -> object:
        """All of it, for msgspec: few of many are ever encoded."""
        return _Copy(self.names, list(self.points), self.count, self._last, list(self.checkpoints))

    def add(self, report: Progress | None) -> bool:
        """Add the last report of a job; whether there is another point."""
        if report is None or report.time is None or report.time == self._last:
            return False
        if self._restored_until and report.time <= self._restored_until:  # it is in the copy
            return False
        self._last = report.time
        checkpoint = report.checkpoint
        if checkpoint and not (self.checkpoints and self.checkpoints[-1].step == checkpoint.step):
            self.checkpoints.append(Saved(checkpoint.time or report.time, checkpoint.step))
        values = _numbers(report)
        self.names += [name for name in values if name not in self.names][: MOST_CURVES - len(self.names)]
        values_in_order = [values.get(name) for name in self.names]
        if not any(value is not None for value in values_in_order):
            return False
        self.points.append((report.time.timestamp(), report.step, *values_in_order))
        self.count += 1
        return True

    def since(self, count: int) -> Mapping[str, object]:
        """What a page lacks that has so many of all points."""
        lacking = min(self.count - count, len(self.points))
        points = list(self.points)[len(self.points) - lacking :]
        return {"names": self.names, "points": points, "most": MOST_POINTS}


class SmallCurve:
    """The first metric of a job that is a number, in a few points that cover all its time: older ones are thinned."""

    def __init__(self) -> None:
        self.name = ""
        self.values: list[float] = []
        self._last: datetime | None = None
        self._step = 1
        """Every so many values one is kept, and the last."""
        self._since_kept = 0

    def add(self, report: Progress | None) -> None:
        if report is None or report.time is None or report.time == self._last:
            return
        self._last = report.time
        numbers = _numbers(report)
        self.name = self.name or next(iter(numbers), "")
        value = numbers.get(self.name)
        if value is None:
            return
        if self._since_kept % self._step and self.values:
            self.values[-1] = value
        else:
            self.values.append(value)
        self._since_kept += 1
        if len(self.values) > _MOST_OF_SMALL:
            self.values = self.values[::2]
            self._step *= 2
            self._since_kept = 1


def _numbers(report: Progress) -> dict[str, float]:
    """The metrics that can be drawn."""
    numbers = dict[str, float]()
    for name, text in report.metrics:
        try:
            value = float(text)
        except ValueError:
            continue
        if abs(value) < _LARGEST:  # which is no number, and no infinity; differences of such values have an end
            numbers[_shown(name)] = float(f"{value:.{_DIGITS}g}")
    return numbers


def _shown(name: str) -> str:
    return texts.shortened(texts.printable(texts.without_commands(name[: 2 * _LONGEST_NAME])), _LONGEST_NAME)
