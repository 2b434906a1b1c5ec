"""The command ``hack/render-dashboards``: a picture of each dashboard by matplotlib, each panel where Grafana has it.

Numbers are text, times are lines, histograms are shades. Run with the Python of ``hack/environment pictures``.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, FuncFormatter
from PIL import Image

from rendering import queries
from rendering.queries import Answered, Body, Line, Prometheus, QueryError, Span

FOLDER: Final = Path(__file__).resolve().parents[2] / "charts/tf-operator/dashboards"
_COLUMNS: Final = 24
_INCHES_PER_ROW: Final = 0.38
_WIDTH: Final = 16.0
_HEAD: Final = 0.45
"""Inches of the line with title, choices and times."""
_MOST_NAMES: Final = 8
_MOST_ROWS: Final = 12
_MOST_TIMES: Final = 5
_LEGEND_ROWS: Final = 2
_LETTERS_PER_INCH: Final = 15
"""Of a legend."""
_UNITS: Final = {"s": "s", "bytes": "B", "Bps": "B/s"}
_TIMES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_POINTS: Final = 240
_PALETTE: Final = ("#1f78c1", "#6d1f62", "#0a437c", "#58140c", "#447ebc", "#890f02", "#508642", "#c15c17")
"""Of lines without a colour of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw; 1 when a query cannot be answered."""
    options = _parser().parse_args(arguments)
    prometheus = Prometheus(options.prometheus.rstrip("/"))
    step = max(options.scrape_interval, float(round(options.range / _POINTS)), 1.0)
    try:
        span = queries.recent(prometheus, options.range, step=step)
        for path in options.dashboard or sorted(FOLDER.glob("*.json")):
            body = json.loads(path.read_text(encoding="utf-8"))
            wishes, scrape = dict(options.set), options.scrape_interval
            panels = queries.ask(body, prometheus, span, scrape_seconds=scrape, wishes=wishes)
            target = options.output / f"{path.stem}.png"
            save(picture(body, panels, span, wishes), target)
            empty = [panel.title for panel in panels if not panel.lines]
            print(
                f"hack/render-dashboards: wrote {target}", f"; no data for: {', '.join(empty)}" if empty else "", sep=""
            )
    except QueryError as error:
        print(f"hack/render-dashboards: {error}", file=sys.stderr)
        return 1
    return 0


def picture(body: Body, panels: Sequence[Answered], span: Span, wishes: Mapping[str, str]) -> Figure:
    """All panels of a dashboard, where ``gridPos`` says. Its layouts let panels collapse: places are computed."""
    sheet = Sheet(max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in body["panels"]))
    sheet.write(body["title"], 0.1, -_HEAD + 0.1, size=13)
    times = "to".join(f" {datetime.fromtimestamp(at, UTC):%H:%M} " for at in (span.start, span.end))
    sheet.write(f"{'    '.join(_choices(body, wishes))}   {times}UTC", _WIDTH - 0.1, -_HEAD + 0.1, size=9, ha="right")
    for row in (panel for panel in body["panels"] if panel["type"] == "row"):
        sheet.write(row["title"], 0.1, row["gridPos"]["y"] * _INCHES_PER_ROW + 0.1, size=11)
    for panel in panels:
        axes = sheet.card(panel)
        if not panel.lines:
            _text(axes, ["no data"])
        elif panel.panel["type"] == "timeseries":
            _lines(axes, panel, span)
        elif panel.panel["type"] == "heatmap":
            _shades(axes, panel.lines, span)
        elif panel.panel["type"] == "table":
            _table(axes, panel)
        else:
            _numbers(axes, panel)
    return sheet.figure


def _choices(body: Body, wishes: Mapping[str, str]) -> Iterator[str]:
    """What is chosen in the variables of the dashboard, as Grafana shows it above the panels."""
    for variable in body["templating"]["list"]:
        if variable["type"] != "datasource":
            yield f"{variable['label']}: {wishes.get(variable['name'], 'All' if variable.get('includeAll') else '')}"


class Sheet:
    """A picture on which things are placed in inches from its upper left corner, below a line for the title."""

    def __init__(self, rows: int) -> None:
        self._height = rows * _INCHES_PER_ROW + _HEAD
        self.figure = Figure(figsize=(_WIDTH, self._height), dpi=90, facecolor="#f4f5f5")

    def write(self, text: str, x: float, y: float, *, size: float, ha: str = "left") -> None:
        """A line of text, whose upper corner is there."""
        place = (x / _WIDTH, 1 - (y + _HEAD) / self._height)
        self.figure.text(*place, text, fontsize=size, ha=ha, va="top", weight="bold" if ha == "left" else "normal")

    def card(self, panel: Answered) -> Axes:
        """The place of a panel: a card with its title, and axes with room for what stands around them."""
        place, column = panel.panel["gridPos"], _WIDTH / _COLUMNS
        x, width = place.get("x", 0) * column + 0.04, place["w"] * column - 0.08
        y, height = place["y"] * _INCHES_PER_ROW + 0.04, place["h"] * _INCHES_PER_ROW - 0.08
        self.figure.add_artist(Rectangle(*self._box(x, y, width, height), fc="white", ec="#dcdfe3", zorder=-1))
        self.write(panel.title, x + 0.1, y + 0.08, size=9)
        has_scale = panel.lines and panel.panel["type"] in {"timeseries", "heatmap"}
        left, below = (0.65, 0.62 if panel.panel["type"] == "timeseries" else 0.3) if has_scale else (0.1, 0.05)
        corner, *size = self._box(x + left, y + 0.34, width - left - 0.15, height - 0.34 - below)
        return self.figure.add_axes((*corner, *size))

    def _box(self, x: float, y: float, width: float, height: float) -> tuple[tuple[float, float], float, float]:
        corner = (x / _WIDTH, 1 - (y + _HEAD + height) / self._height)
        return corner, width / _WIDTH, height / self._height


def save(figure: Figure, path: Path) -> None:
    """Write a PNG with a palette, which is a third of the size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(colors=128, dither=Image.Dither.NONE).save(path, optimize=True)


def _lines(axes: Axes, panel: Answered, span: Span) -> None:
    defaults = panel.panel["fieldConfig"]["defaults"]
    steps = range(round((span.end - span.start) / span.step) + 1)
    times = [datetime.fromtimestamp(span.start + step * span.step, UTC) for step in steps]
    values = [_on_steps(line, span, len(steps)) for line in panel.lines]
    columns = _columns(axes, [line.name for line in panel.lines])
    legend = [line.name for line in panel.lines[: columns * _LEGEND_ROWS] if line.name]
    names = [*legend, *("_" for _ in panel.lines[len(legend) :])]
    fixed, palette = queries.colours(panel.panel), itertools.cycle(_PALETTE)
    colours = [fixed.get(line.name) or next(palette) for line in panel.lines]
    if defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal":
        stacked = [[0.0 if math.isnan(value) else value for value in row] for row in values]
        axes.stackplot(times, stacked, labels=names, colors=colours)
    else:
        for name, row, colour in zip(names, values, colours, strict=True):
            axes.plot(times, row, label=name, linewidth=1, color=colour)
    numbers = [value for row in values for value in row if not math.isnan(value)]
    axes.set_ylim(bottom=min((0.0, *numbers)), top=None if any(numbers) else 1.0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, defaults.get("unit", ""))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{datetime.fromtimestamp(at * 86400, UTC):%H:%M}"))
    axes.tick_params(labelsize=7, length=0)
    axes.grid(alpha=0.3)
    axes.spines[:].set_visible(False)
    axes.margins(x=0)
    every = 60 * math.ceil((span.end - span.start) / 60 / _MOST_TIMES)
    ticks = range(math.ceil(span.start / every) * every, math.floor(span.end) + 1, every)
    axes.set_xticks([datetime.fromtimestamp(at, UTC) for at in ticks])
    if legend:
        axes.legend(
            fontsize=7, ncols=columns, frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.12), handlelength=1
        )


def _columns(axes: Axes, names: Sequence[str]) -> int:
    """How many columns a legend below the axes has room for."""
    inches = axes.get_position().width * _WIDTH
    return max(1, min(len(names), int(inches * _LETTERS_PER_INCH / (max(map(len, names), default=0) + 4))))


def _shades(axes: Axes, lines: Sequence[Line], span: Span) -> None:
    """The buckets of a histogram, each with what it has of its own: those of Prometheus include the lower ones."""
    steps = round((span.end - span.start) / span.step) + 1
    buckets = sorted(lines, key=lambda line: float(line.labels.get("le", "inf")))
    below, cells = [0.0] * steps, []
    for line in buckets:
        upto = [0.0 if math.isnan(value) else value for value in _on_steps(line, span, steps)]
        cells.append([max(0.0, value - lower) for value, lower in zip(upto, below, strict=True)])
        below = upto
    axes.pcolormesh(cells, cmap="Blues")
    axes.set_xticks([])
    every = math.ceil(len(buckets) / _MOST_NAMES)
    axes.set_yticks(range(0, len(buckets), every), [line.labels.get("le", "") for line in buckets[::every]], fontsize=7)
    axes.spines[:].set_visible(False)


def _numbers(axes: Axes, panel: Answered) -> None:
    unit = panel.panel["fieldConfig"]["defaults"].get("unit", "")
    texts = [f"{written(line.points[-1][1], unit)}  {line.name}" for line in panel.lines]
    if panel.panel["type"] == "stat":
        texts = [line.name if unit == "string" else written(line.points[-1][1], unit) for line in panel.lines]
    _text(axes, texts)


def _table(axes: Axes, panel: Answered) -> None:
    """A row for each value of the label that the first column shows, a column for each query."""
    unit = panel.panel["fieldConfig"]["defaults"].get("unit", "")
    options = next(entry["options"] for entry in panel.panel["transformations"] if entry["id"] == "organize")
    titles = options["renameByName"]
    key, *values = sorted(titles, key=options["indexByName"].__getitem__)
    by_cell = {(line.labels.get(key, ""), f"Value #{line.letter}"): line.points[-1][1] for line in panel.lines}
    rows = sorted({row for row, _ in by_cell})[:_MOST_ROWS]
    cells = [[row, *(written(by_cell.get((row, value), 0.0), unit) for value in values)] for row in rows]
    axes.set_axis_off()
    table = axes.table(
        cells, colLabels=[titles[name] for name in (key, *values)], loc="upper center", edges="horizontal"
    )
    table.auto_set_font_size(value=False)
    table.set_fontsize(8)


def _text(axes: Axes, lines: Sequence[str]) -> None:
    axes.set_axis_off()
    texts = [*lines[:_MOST_ROWS], *([f"and {len(lines) - _MOST_ROWS} more"] if len(lines) > _MOST_ROWS else ())]
    size, x, ha = (20, 0.5, "center") if len(texts) == 1 else (9, 0.02, "left")
    axes.text(x, 0.5, "\n".join(texts), fontsize=size, va="center", ha=ha, transform=axes.transAxes, clip_on=True)


def written(value: float, unit: str) -> str:
    """A value with its unit, in few digits."""
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if math.isnan(value) or math.isinf(value):
        return "no value"
    name = unit.removeprefix("suffix:") if unit.startswith("suffix:") else _UNITS.get(unit, "")
    return str(EngFormatter(unit=name)(float(f"{value:.3g}")))


def _on_steps(line: Line, span: Span, steps: int) -> list[float]:
    by_step = {round((at - span.start) / span.step): value for at, value in line.points}
    return [by_step.get(step, math.nan) for step in range(steps)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/render-dashboards", description="Draws the dashboards without Grafana.")
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="the folder (default: %(default)s)")
    parser.add_argument("--range", type=_seconds, default=3600.0, help="how far back to look, as 15m (default: 1h)")
    parser.add_argument(
        "--scrape-interval", type=_seconds, default=30.0, metavar="TIME", help="of Prometheus (default: 30s)"
    )
    parser.add_argument(
        "--set", type=_wish, action="append", default=[], metavar="NAME=VALUE", help="choose a variable"
    )
    parser.add_argument("dashboard", type=Path, nargs="*", help="files to draw (default: all of the chart's)")
    return parser


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in _TIMES or not number.isdecimal() or number == "0":
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 30s, 15m, 6h or 2d")
    return float(number) * _TIMES[unit]


def _wish(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
