"""How far a training is, as its program says: what of it is news, how long the rest may take, and whether it hangs.

A program that is started again goes on from its last checkpoint. If it does not, its volume is not the one of before,
or it looks in another folder; nobody else notices. So the first report of each run that says where it begins is
compared with the last checkpoint that was reported before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

POINTS: Final = 10
"""So many rises of the percentage are looked at to work out how long the rest takes."""
_FEWEST_POINTS: Final = 5
_LEAST_PERCENTAGE: Final = 1
_NEXT_IS_KNOWN: Final = "+"
"""At the end of the name of a run; in the order of text it is before all times."""
MOST_REMAINING: Final = 10 * 365 * 24 * 3600
"""Seconds. Of a longer time nothing is said."""
LONGEST_SAVE: Final = 24 * 3600
"""Seconds."""


class Metric(NamedTuple):
    name: str
    value: str
    """As the program has written it: nothing is calculated with it."""


class Checkpoint(NamedTuple):
    """What a program has saved, as it says. Nobody opens it."""

    step: int
    time: datetime | None = None
    """By the program's clock."""
    path: str = ""


class WrongStart(NamedTuple):
    """Of a run that has gone on from a step before the last checkpoint."""

    step: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of a program, with what still holds of those before: at most 2 kB of metrics, and 500 bytes."""

    percentage: int | None = None
    remaining: int | None = None
    """Seconds."""
    step: int | None = None
    metrics: tuple[Metric, ...] = ()
    time: datetime | None = None
    """When it was received, by the operator's clock: those of programs may be wrong."""
    checkpoint: Checkpoint | None = None
    """The last one that was reported, by whichever run of the program."""
    resumed_from: int | None = None
    """The step from which this run of the program has gone on, if it says so."""
    longest_save: int | None = None
    """How many seconds a checkpoint took at most, of those for which any run of the program said it."""
    run: str = ""
    """Which run of the program has said where it begins: its pod, and after a ``/`` when the run before in it ended.

    With a ``+`` at its end, the next one in this pod has said so, too, before its kubelet has reported the restart.
    """
    wrong_start: WrongStart | None = None

    @property
    def begin(self) -> int | None:
        """Where a run begins whose first report this is, if it says so: there, or a little later."""
        if self.resumed_from is not None:
            return self.resumed_from
        return self.step if self.step is not None or self.checkpoint is None else self.checkpoint.step

    def after(self, earlier: "Progress | None", run: str) -> "Progress":
        """This report of a run, with what still holds of the one before."""
        if earlier is None:
            return replace(self, run=run)
        return replace(self._compared(earlier, run), longest_save=self._longest_save(earlier))

    def _compared(self, earlier: "Progress", run: str) -> "Progress":
        """This report with the checkpoint and the run that hold from now on, and whether that has begun too early."""
        checkpoint = self.checkpoint or earlier.checkpoint
        resumed_from = earlier.resumed_from if self.resumed_from is None else self.resumed_from
        has_begun = _has_begun_after(earlier.run, run)
        if not has_begun or _is_next(earlier.run, run):
            run, start = (run, None) if has_begun else (earlier.run or run, earlier.wrong_start)
            if run and self._goes_on_from(earlier):
                run, start = _with_next(run), None
            return replace(self, checkpoint=checkpoint, resumed_from=resumed_from, run=run, wrong_start=start)
        if self.begin is None:
            return replace(self, checkpoint=checkpoint, run=earlier.run, wrong_start=earlier.wrong_start)
        checkpoint_before = earlier.checkpoint
        start = (
            WrongStart(self.begin, checkpoint_before)
            if checkpoint_before and self.begin < checkpoint_before.step
            else None
        )
        return replace(self, checkpoint=checkpoint, run=run, wrong_start=start)

    def _longest_save(self, earlier: "Progress") -> int | None:
        saves = (save for save in (self.longest_save, earlier.longest_save) if save is not None)
        return max(saves, default=None)

    def _goes_on_from(self, earlier: "Progress") -> bool:
        """Whether this says that it has gone on from the last checkpoint, as it would after a restart, and not before.

        A kubelet reports a restart a moment late, and by then the program may have saved again.
        """
        step, checkpoint = self.resumed_from, earlier.checkpoint
        return step is not None and step != earlier.resumed_from and (checkpoint is None or step >= checkpoint.step)

    @property
    def position(self) -> "Position":
        return Position(self.step, self.percentage)

    def has_moved_from(self, earlier: "Progress | None") -> bool:
        """Whether it is progress, and not the heartbeat of a thread that repeats itself."""
        if earlier is None:
            return True
        return (self.percentage, self.step, self.metrics) != (earlier.percentage, earlier.step, earlier.metrics)


def _with_next(run: str) -> str:
    pod, _, end = run.partition("/")
    return f"{pod}/{end.removesuffix(_NEXT_IS_KNOWN)}{_NEXT_IS_KNOWN}"


def _is_next(earlier: str, run: str) -> bool:
    """Whether this run was known to begin well before it was known at all."""
    return earlier.endswith(_NEXT_IS_KNOWN) and run.partition("/")[0] == earlier.partition("/")[0]


def _has_begun_after(earlier: str, run: str) -> bool:
    """Whether it is another run, of another pod or after a later end in the same one.

    Nobody knows it of a program whose pod is not there. Caches may be older than a status, and a kubelet may forget how
    a container ended.
    """
    (pod_before, _, end_before), (pod, _, end) = earlier.partition("/"), run.partition("/")
    return bool(earlier and run) and (pod != pod_before or end > end_before)


class HangAction(StrEnum):
    """What is done about a program that makes no progress."""

    REPORT = "Report"
    RESTART = "Restart"
    FAIL = "Fail"


class ProgressPolicy(msgspec.Struct, frozen=True):
    """Whether a program reports how far it is, and for how long it may make no progress."""

    reports: bool = False
    """Whether it may report, where the operator listens."""
    deadline_seconds: int | None = None
    """``None``: for as long as it likes."""
    action: HangAction = HangAction.REPORT


NO_PROGRESS_POLICY: Final = ProgressPolicy()


class Position(NamedTuple):
    """Where a program is."""

    step: int | None = None
    percentage: int | None = None

    @property
    def is_known(self) -> bool:
        return self != Position()

    def __str__(self) -> str:
        step = "" if self.step is None else f"step {self.step}"
        return ", ".join(filter(None, (step, "" if self.percentage is None else f"{self.percentage} %")))


NOWHERE: Final = Position()


class ProgressClock(msgspec.Struct, frozen=True):
    """What is remembered of a job whose program has a deadline for progress: at most 150 bytes of a status."""

    running_since: datetime | None = None
    """Since when all replicas run without a break; ``None`` while one is waited for."""
    has_reported: bool = False
    """Whether the program has reported since it was last started: before that it does not hang."""
    is_hung: bool = False
    last_hang: Position = NOWHERE
    """Where it was when it was last restarted because of this."""


NO_CLOCK: Final = ProgressClock()


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
