"""Values as Grafana writes them, in the units of the dashboards; an unknown unit is an error, not a bare number."""

import math
from collections.abc import Callable
from typing import Final

from rendering.errors import UnknownError

_THOUSANDS: Final = ((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"))
_BINARY: Final = ((2.0**40, " TiB"), (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"))
_DECIMAL: Final = ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"))
_TIMES: Final = (
    *((86400.0, " days"), (3600.0, " hours"), (60.0, " min"), (1.0, " s")),
    *((1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")),
)
_NOTHING: Final = "no value"


def write(value: float, unit: str) -> str:
    """One value with its unit; raises UnknownError."""
    if math.isnan(value):
        return _NOTHING
    if unit.startswith("suffix:"):
        return _short(value) + unit.removeprefix("suffix:")
    if unit not in _WRITERS:
        raise UnknownError(f"unit {unit!r}: the renderer knows {', '.join(_WRITERS)} and suffixes")
    return _WRITERS[unit](value)


def step_size(most: float, unit: str) -> float:
    """What the lines of a scale up to ``most`` should be multiples of: whole minutes, whole MiB."""
    sizes = {"s": _TIMES, "bytes": _BINARY, "Bps": _DECIMAL}.get(unit, ())
    return next((size for size, _ in sizes if most >= size), 1.0)


def _short(value: float) -> str:
    return _scaled(value, _THOUSANDS, "")


def _seconds(value: float) -> str:
    return "0 s" if value == 0 else _scaled(value, _TIMES, " ns")


def _scaled(value: float, scales: tuple[tuple[float, str], ...], plain: str) -> str:
    for size, name in scales:
        # What would be rounded up to the next size is written in that one.
        if abs(value) >= size * 0.9995:
            return _digits(value / size) + name
    return _digits(value) + plain


def _digits(value: float) -> str:
    """Three digits at most that say something, and no zeros behind the point."""
    if value == 0:
        return "0"
    behind = max(0, 2 - math.floor(math.log10(abs(value)))) if abs(value) < 100 else 0
    text = f"{value:.{min(behind, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_WRITERS: Final[dict[str, Callable[[float], str]]] = {
    "short": _short,
    "s": _seconds,
    "bytes": lambda value: _scaled(value, _BINARY, " B"),
    "Bps": lambda value: _scaled(value, _DECIMAL, " B/s"),
    "percentunit": lambda value: f"{_digits(100 * value)}%",
    "string": _short,
}
