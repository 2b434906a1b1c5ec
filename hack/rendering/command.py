"""The command line of ``hack/render-dashboards``."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rendering import answers, model, page
from rendering.answers import Answers
from rendering.errors import RenderError
from rendering.model import Dashboard
from rendering.prometheus import Prometheus, Span

FOLDER: Final = Path("charts/tf-operator/dashboards")
DESCRIPTION: Final = """\
Draws the dashboards in charts/tf-operator/dashboards without Grafana: fills in their variables, asks a real Prometheus,
and writes a PNG for each."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_POINTS: Final = 240


def main(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/render-dashboards``; the exit status."""
    options = _parser().parse_args(arguments)
    paths = options.dashboard or sorted((root / FOLDER).glob("*.json"))
    try:
        prometheus = Prometheus(options.prometheus)
        dashboards = [_read(path) for path in paths]
        wishes = _known(dict(options.set or ()), dashboards)
        span = _span(prometheus.now(), options.range, options.scrape_interval)
        for dashboard in dashboards:
            found = answers.ask(dashboard, prometheus, span, scrape_seconds=options.scrape_interval, wishes=wishes)
            _save(found, options.output / f"{dashboard.name}.png")
    except RenderError as error:
        print(f"hack/render-dashboards: {error}", file=sys.stderr)
        return 1
    return 0


def _read(path: Path) -> Dashboard:
    try:
        return model.read(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RenderError(f"{path} is no dashboard: {error!r}") from None


def _known(wishes: Mapping[str, str], dashboards: Sequence[Dashboard]) -> Mapping[str, str]:
    """Wishes for variables that there are; a misspelt one would be a picture of something else."""
    names = {variable.name for dashboard in dashboards for variable in dashboard.variables}
    for name in wishes.keys() - names:
        raise RenderError(f"--set {name}=...: no dashboard has this variable; there are {', '.join(sorted(names))}")
    return wishes


def _save(found: Answers, target: Path) -> None:
    page.save(page.draw(found), target)
    empty = [entry.panel.title for entry in found.panels if entry.panel.kind != "row" and not entry.lines]
    said = f"; no data for: {', '.join(empty)}" if empty else ""
    print(f"hack/render-dashboards: wrote {target}{said}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/render-dashboards", description=DESCRIPTION)
    parser.add_argument("--prometheus", required=True, metavar="URL", help="the address of a Prometheus")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="the folder (default: %(default)s)")
    parser.add_argument(
        "--range", type=_seconds, default="1h", help="how far back to look, as 15m (default: %(default)s)"
    )
    parser.add_argument(
        "--scrape-interval",
        type=_seconds,
        default="30s",
        metavar="TIME",
        help="how often Prometheus scrapes; Grafana's data source is told the same (default: %(default)s)",
    )
    parser.add_argument(
        "--set", type=_wish, action="append", metavar="NAME=VALUE", help="choose the value of a variable; repeat it"
    )
    parser.add_argument("dashboard", type=Path, nargs="*", help="files to draw (default: all of the chart's)")
    return parser


def _span(now: float, seconds: float, scrape_seconds: float) -> Span:
    """As Grafana does, in steps no finer than the scrapes, and on whole steps, so that pictures do not tremble."""
    step = max(scrape_seconds, float(round(seconds / _POINTS)), 1.0)
    end = now // step * step
    return Span(end - seconds // step * step, end, step)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 30s, 15m, 6h or 2d")
    return float(int(found[1]) * _UNITS[found[2]])


def _wish(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not (name and is_there):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
