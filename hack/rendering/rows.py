"""Panels of kind table: a row for each set of labels that the queries have in common, a column for each query."""

from rendering import units
from rendering.answers import Answered
from rendering.look import EDGE, INK, NAMED, PALE, Box, Sheet

_ROW = 27.0


def draw(sheet: Sheet, box: Box, answered: Answered) -> None:
    """Draw as many rows as there is room for."""
    panel = answered.panel
    key, *letters = panel.columns
    names = sorted({line.series.labels.get(key, "") for line in answered.lines})
    cells = {(line.series.labels.get(key, ""), f"Value #{line.letter}"): line.last for line in answered.lines}
    field = box.inside(left=16, top=4, right=16, bottom=8)
    apart = field.width / (len(letters) + 2)
    lefts = [field.x, *(field.x + apart * (index + 2) for index in range(len(letters)))]
    for left, title in zip(lefts, panel.columns.values(), strict=True):
        sheet.fit(sheet.text(left, field.y + _ROW / 2, title, size=8, colour=PALE, va="center"), apart * 0.95)
    room = int(field.height / _ROW) - 1
    for index, name in enumerate(names[:room]):
        y = field.y + _ROW * (index + 1.5)
        _rule(sheet, Box(field.x, y - _ROW / 2, field.width, 1))
        sheet.fit(sheet.text(field.x, y, name, size=9, colour=NAMED["blue"], va="center"), apart * 1.9)
        for left, letter in zip(lefts[1:], letters, strict=True):
            value = cells.get((name, letter), 0.0)
            sheet.text(left, y, units.write(value, panel.unit), size=9, colour=INK if value else PALE, va="center")
    if len(names) > room:
        text = f"and {len(names) - room} more"
        sheet.text(field.x + field.width, field.y + field.height, text, size=7.5, colour=PALE, ha="right", va="bottom")


def _rule(sheet: Sheet, box: Box) -> None:
    axes = sheet.axes(box)
    axes.set_axis_off()
    axes.axhspan(0, 1, color=EDGE)
