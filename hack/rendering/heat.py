"""Panels of kind heatmap: the more there is of a time, the darker. Neighbour: ``buckets`` counts."""

import math
from typing import Final

from matplotlib.colors import PowerNorm
from matplotlib.ticker import FixedLocator, FuncFormatter

from rendering import buckets, lines, look, units
from rendering.answers import Answered
from rendering.look import GRID, Box, Sheet
from rendering.prometheus import Span

_LEFT: Final = 62.0
_MOST_LABELS: Final = 7
_WIDE_CELL: Final = 10


def draw(sheet: Sheet, box: Box, answered: Answered, span: Span) -> None:
    """Draw one."""
    edges, cells = buckets.own_counts(answered.lines, span)
    if not edges:
        return
    first, last = buckets.worth_showing(cells)
    bounds = [edges[first - 1] if first else 0.0, *edges[first : last + 1]]
    axes = sheet.axes(box.inside(left=_LEFT, top=6, right=lines.RIGHT, bottom=30))
    lines.show_time(axes, span)
    times = [span.start + (step - 0.5) * span.step for step in range(len(cells[0]) + 1)]
    shown = [[value if value > 0.001 else math.nan for value in row] for row in cells[first : last + 1]]
    highest = max((value for row in shown for value in row if not math.isnan(value)), default=1.0)
    axes.pcolormesh(
        times,
        range(len(bounds)),
        shown,
        cmap=look.heat_shades(answered.panel.scheme),
        norm=PowerNorm(0.5, vmin=0, vmax=highest),
        edgecolors="white",
        linewidth=0.4 if axes.get_window_extent().width / len(shown[0]) > _WIDE_CELL else 0,
    )
    apart = math.ceil(len(bounds) / _MOST_LABELS)
    axes.yaxis.set_major_locator(FixedLocator(range(0, len(bounds), apart)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: _bound(bounds[round(at)], answered.panel.unit)))
    axes.set_ylim(0, max(len(bounds) - 1, 1))
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _bound(value: float, unit: str) -> str:
    return "more" if math.isinf(value) else units.write(value, unit)
