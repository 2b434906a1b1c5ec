"""Panels of kind timeseries: lines, or bands that lie on each other, with the names of the series below."""

import math
from datetime import UTC, datetime
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from rendering import units
from rendering.answers import Answered, Line
from rendering.look import GRID, INK, PALE, PALETTE, Box, Sheet, colour
from rendering.prometheus import Span

_LEFT: Final = 62.0
RIGHT: Final = 26.0
_LEGEND_LINE: Final = 17.0
_LEGEND_LINES: Final = 2
_MOST_FILLED: Final = 4
_TIME_WIDTH: Final = 46.0
_NICE_SECONDS: Final = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def draw(sheet: Sheet, box: Box, answered: Answered, span: Span) -> None:
    """Draw one."""
    lines = [line for line in answered.lines if line.series.points]
    paints = _paints(answered, lines)
    below = _legend(sheet, box, lines, paints)
    axes = sheet.axes(box.inside(left=_LEFT, top=6, right=RIGHT, bottom=below + 20))
    _frame(axes, answered, span)
    if answered.panel.is_stacked:
        _stack(axes, lines, paints, span)
    else:
        for line, paint in zip(lines, paints, strict=True):
            _line(axes, line, paint, span, is_filled=len(lines) <= _MOST_FILLED)
    _scale(axes, answered)


def show_time(axes: Axes, span: Span) -> None:
    """Times below the field, in UTC, at round numbers."""
    room = max(2.0, axes.get_window_extent().width / _TIME_WIDTH)
    apart = next((seconds for seconds in _NICE_SECONDS if span.seconds / seconds <= room), 86400)
    first = math.ceil(span.start / apart) * apart
    places = [first + apart * count for count in range(int((span.end - first) // apart) + 1)]
    form = "%H:%M" if apart >= 60 else "%H:%M:%S"
    axes.set_xlim(span.start, span.end)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: datetime.fromtimestamp(at, UTC).strftime(form)))


def _frame(axes: Axes, answered: Answered, span: Span) -> None:
    show_time(axes, span)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.write(value, answered.panel.unit)))


def _scale(axes: Axes, answered: Answered) -> None:
    most = answered.panel.most
    values = [value for line in answered.lines for _, value in line.series.points if not math.isnan(value)]
    highest = most or max(1.06 * axes.dataLim.y1 if any(values) else 1.0, 1e-9)
    size = units.step_size(highest, answered.panel.unit)
    places = MaxNLocator(nbins=4, min_n_ticks=3, steps=[1, 2, 2.5, 3, 5, 10]).tick_values(0, highest / size)
    axes.yaxis.set_major_locator(FixedLocator([size * place for place in places]))
    axes.set_ylim(0, highest)


def _paints(answered: Answered, lines: list[Line]) -> list[str]:
    """Colours that mean something stay; the others take turns."""
    known = answered.panel.colours
    free = [
        paint for paint in PALETTE if paint not in {colour(known[line.name]) for line in lines if line.name in known}
    ]
    unknown = [line.name for line in lines if line.name not in known]
    return [
        colour(known[line.name]) if line.name in known else free[unknown.index(line.name) % len(free)] for line in lines
    ]


def _line(axes: Axes, line: Line, paint: str, span: Span, *, is_filled: bool) -> None:
    times, values = _with_gaps(line, span)
    axes.plot(times, values, color=paint, linewidth=1.4, solid_capstyle="round")
    if is_filled:
        axes.fill_between(times, values, color=paint, alpha=0.07, linewidth=0)


def _with_gaps(line: Line, span: Span) -> tuple[list[float], list[float]]:
    """Where points are missing, something that is not a number, so that no line is drawn across."""
    known = {round((at - span.start) / span.step): value for at, value in line.series.points}
    steps = range(round(span.seconds / span.step) + 1)
    return [span.start + step * span.step for step in steps], [known.get(step, math.nan) for step in steps]


def _stack(axes: Axes, lines: list[Line], paints: list[str], span: Span) -> None:
    if not lines:
        return
    bands = [_with_gaps(line, span) for line in lines]
    heights = [[0.0 if math.isnan(value) else value for value in values] for _, values in bands]
    axes.stackplot(bands[0][0], heights, colors=paints, alpha=0.75, linewidth=0)


def _legend(sheet: Sheet, box: Box, lines: list[Line], paints: list[str]) -> float:
    """The names of the series, in as many lines as they need; how high they are."""
    entries = [(line.name or "value", paint) for line, paint in zip(lines, paints, strict=True)]
    room = box.width - 28
    placed, x, row = [], 0.0, 0
    for name, paint in entries:
        words = sheet.text(0, 0, name, size=7.5, colour=INK, va="center")
        wide = 20 + sheet.width_of(sheet.fit(words, room - 30)) + 12
        if x and x + wide > room:
            x, row = 0.0, row + 1
        placed.append((words, paint, x, row))
        x += wide
    rows = min(row + 1, _LEGEND_LINES)
    top = box.y + box.height - 8 - rows * _LEGEND_LINE
    for words, paint, left, line in placed:
        if line >= rows:
            words.remove()
            continue
        y = top + (line + 0.5) * _LEGEND_LINE
        sheet.text(box.x + 14 + left, y, "▬", size=7.5, colour=paint, va="center")
        words.set_position(((box.x + 14 + left + 16) / sheet.width, 1 - y / sheet.height))
    if row + 1 > rows:
        sheet.text(
            box.x + box.width - 14, top + rows * _LEGEND_LINE, "…", size=7.5, colour=PALE, ha="right", va="bottom"
        )
    return rows * _LEGEND_LINE + 8
