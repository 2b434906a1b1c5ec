"""Ages as ``kubectl`` prints them: two units at most, and fewer digits the older it is."""

from datetime import datetime
from typing import Final

_UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR: Final = 365 * _DAY


def age(moment: datetime | None, now: datetime) -> str:
    """The time since then."""
    return _UNKNOWN if moment is None else duration(int((now - moment).total_seconds() // 1))


def duration(seconds: int) -> str:
    """As apimachinery's ``duration.HumanDuration``."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    steps = (  # up to this many seconds: the unit, and the smaller one beside it
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    )
    for limit, unit, letter, smaller, small_letter in steps:
        if seconds < limit:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{seconds // _YEAR}y"
