"""Panels of kinds stat and bargauge: numbers of now, or of all of the time shown."""

import math

from rendering import units
from rendering.answers import Answered
from rendering.look import GRID, INK, Box, Sheet, colour
from rendering.model import Panel


def draw_stat(sheet: Sheet, box: Box, answered: Answered) -> None:
    """One large number, or the name of the series where the unit is a text."""
    panel = answered.panel
    values = [
        (line.name if panel.unit == "string" else units.write(line.last, panel.unit), paint_of(panel, line.last))
        for line in answered.lines
    ]
    apart = box.width / max(len(values), 1)
    for index, (text, paint) in enumerate(values):
        middle = box.x + apart * (index + 0.5)
        words = sheet.text(middle, box.y + box.height / 2 - 2, text, size=25, colour=paint, ha="center", va="center")
        while sheet.width_of(words) > apart - 16 and words.get_fontsize() > 8:
            words.set_fontsize(words.get_fontsize() - 1)


def draw_bars(sheet: Sheet, box: Box, answered: Answered) -> None:
    """A bar for each value; all of them to one scale."""
    lines = answered.lines
    field = box.inside(left=14, top=10, right=14, bottom=14)
    high = field.height / max(len(lines), 1)
    names = [sheet.text(field.x, 0, line.name, size=8, va="center") for line in lines]
    values = [
        sheet.text(field.x, 0, units.write(line.last, answered.panel.unit), size=9, va="center") for line in lines
    ]
    left = max((sheet.width_of(sheet.fit(text, field.width / 2)) for text in names), default=0) + 12
    right = max(map(sheet.width_of, values), default=0) + 12
    most = max((line.last for line in lines if not math.isnan(line.last)), default=0) or 1
    room = field.width - left - right
    for index, (line, name, value) in enumerate(zip(lines, names, values, strict=True)):
        middle = field.y + high * (index + 0.5)
        name.set_position((field.x / sheet.width, 1 - middle / sheet.height))
        value.set_position(((field.x + field.width) / sheet.width, 1 - middle / sheet.height))
        value.set(ha="right", color=INK)
        thick = min(high * 0.55, 26)
        axes = sheet.axes(Box(field.x + left, middle - thick / 2, room, thick))
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.barh(0, 1, color=GRID)
        if not math.isnan(line.last):
            axes.barh(0, line.last / most, color=paint_of(answered.panel, line.last))
        axes.margins(y=0)


def paint_of(panel: Panel, value: float) -> str:
    """The colour of the highest step that a value has reached."""
    reached = [paint for step, paint in panel.steps if value >= step]
    return colour((reached or [panel.base_colour or "green"])[-1])
