"""A dashboard on a sheet: panels where ``gridPos`` says, each with its title, and above them what was chosen.

Neighbours: ``answers`` has what is to be shown; ``lines``, ``heat``, ``numbers`` and ``rows`` draw the kinds of panels.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from rendering import heat, lines, numbers, rows
from rendering.answers import Answered, Answers
from rendering.look import INK, NAMED, PALE, PALETTE, SCHEMES, Box, Sheet, heat_shades
from rendering.prometheus import Span

WIDTH: Final = 1440
_MARGIN: Final = 14
_HEAD: Final = 56
_COLUMNS: Final = 24
_UNIT: Final = 34
_GAP: Final = 8
_TITLE: Final = 30
_COLOURS: Final = 160
_SHADES: Final = 3


def draw(answers: Answers) -> Sheet:
    """The whole picture."""
    height = _HEAD + _UNIT * max(found.panel.grid.y + found.panel.grid.height for found in answers.panels) + _MARGIN
    sheet = Sheet(WIDTH, height)
    FigureCanvasAgg(sheet.figure)
    _head(sheet, answers)
    for answered in answers.panels:
        _panel(sheet, answered, answers.span)
    return sheet


def save(sheet: Sheet, path: Path) -> None:
    """Write a PNG with a palette, which is a third of the size."""
    sheet.figure.canvas.draw()
    pixels = Image.frombuffer("RGBA", (sheet.width, sheet.height), sheet.figure.canvas.buffer_rgba()).convert("RGB")
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in _palette(pixels) for part in colour])
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def _palette(pixels: Image.Image) -> list[tuple[int, int, int]]:
    """Shades of all that is drawn in, for a thin line says as much as a field; and what there is most of."""
    paints = [_shade(paint, part / _SHADES) for paint in (*NAMED.values(), *PALETTE) for part in range(1, _SHADES + 1)]
    heats = [
        tuple(round(255 * part) for part in heat_shades(scheme)(at / 7)[:3]) for scheme in SCHEMES for at in range(8)
    ]
    by_count = sorted(pixels.getcolors(pixels.width * pixels.height), reverse=True)
    return list(dict.fromkeys((*paints, *heats, *(colour for _, colour in by_count))))[:_COLOURS]


def _shade(paint: str, strength: float) -> tuple[int, int, int]:
    red, green, blue = (round(255 - strength * (255 - int(paint[at : at + 2], 16))) for at in (1, 3, 5))
    return red, green, blue


def box_of(answered: Answered) -> Box:
    """Where a panel is on the sheet."""
    grid = answered.panel.grid
    column = (WIDTH - 2 * _MARGIN + _GAP) / _COLUMNS
    return Box(
        _MARGIN + grid.x * column,
        _HEAD + grid.y * _UNIT,
        grid.width * column - _GAP,
        grid.height * _UNIT - _GAP,
    )


def _head(sheet: Sheet, answers: Answers) -> None:
    sheet.text(_MARGIN + 4, 14, answers.dashboard.title, size=14, fontweight="bold")
    start, end = (datetime.fromtimestamp(at, UTC) for at in (answers.span.start, answers.span.end))
    chosen = [f"{choice.label}: {choice.shown}" for choice in answers.choices.values()]
    text = "     ".join([*chosen, f"{start:%H:%M} to {end:%H:%M} UTC"])
    sheet.text(WIDTH - _MARGIN - 4, 19, text, size=9, colour=PALE, ha="right")


def _panel(sheet: Sheet, answered: Answered, span: Span) -> None:
    box, panel = box_of(answered), answered.panel
    if panel.kind == "row":
        sheet.text(box.x + 4, box.y + box.height / 2, f"▾  {panel.title}", size=10, va="center", fontweight="bold")
        return
    sheet.card(box)
    sheet.fit(sheet.text(box.x + 14, box.y + 10, panel.title, size=9, colour=INK, fontweight="bold"), box.width - 24)
    inner = box.inside(top=_TITLE)
    if not answered.lines:
        middle = (inner.x + inner.width / 2, inner.y + inner.height / 2)
        sheet.text(*middle, "No data", size=11, colour=PALE, ha="center", va="center")
        return
    _inside(sheet, inner, answered, span)


def _inside(sheet: Sheet, box: Box, answered: Answered, span: Span) -> None:
    match answered.panel.kind:
        case "timeseries":
            lines.draw(sheet, box, answered, span)
        case "heatmap":
            heat.draw(sheet, box, answered, span)
        case "stat":
            numbers.draw_stat(sheet, box, answered)
        case "bargauge":
            numbers.draw_bars(sheet, box, answered)
        case "table":
            rows.draw(sheet, box, answered)
