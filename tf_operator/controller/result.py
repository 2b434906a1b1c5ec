"""What is to follow a reconcile, as data."""

from datetime import timedelta
from enum import Enum, auto
from math import inf
from typing import Final, Self

import msgspec


class Turn(Enum):
    """Where the job stands among those that wait."""

    ITS_OWN = auto()
    """Among the others."""
    GIVES_WAY = auto()
    """Behind the others: it stopped for them, with more to do, or with nothing left that anybody waits for."""
    UNCHANGED = auto()
    """Where it stood before: nothing was done."""


class Result(msgspec.Struct, frozen=True):
    after: float | None = None
    """In how many seconds to reconcile again, if nothing happens until then; ``None`` for not at all."""
    turn: Turn = Turn.ITS_OWN

    @classmethod
    def of(cls, wait: timedelta | None) -> Self:
        return cls(None if wait is None else wait.total_seconds())

    def or_earlier(self, other: Self) -> Self:
        """Whichever of the two comes first."""
        return min(self, other, key=lambda result: inf if result.after is None else result.after)


DONE: Final = Result()
"""Nothing more, until something happens."""
NOW: Final = Result(0.0)
