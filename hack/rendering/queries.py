"""What a dashboard asks a Prometheus, and what that answers.

Variables are filled in as Grafana does: one that may have several values stands for all until one is chosen, one that
must have a single value gets the first there is. Standard library only.
"""

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Body = Mapping[str, Any]
_COLOURS: Final = {
    "blue": "#5794f2",
    "green": "#73bf69",
    "orange": "#ff9830",
    "purple": "#b877d9",
    "red": "#f2495c",
    "yellow": "#f2cc0c",
}
"""Grafana's, by their names there."""
_TIMEOUT_SECONDS: Final = 30.0
_PLACE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::\w+)?\}|([A-Za-z_]\w*))")
_LABEL_VALUES: Final = re.compile(r"label_values\((.+),\s*(\w+)\)")


class QueryError(Exception):
    """A query cannot be answered; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start`` to ``end``, every ``step`` seconds."""

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class Line:
    """A series of a panel, under the name that its panel gives it."""

    name: str
    letter: str
    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A panel as its JSON has it, and its lines in the order of its queries."""

    panel: Body
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """What stands above the panel."""
        return str(self.panel["title"])

    @property
    def unanswered(self) -> list[str]:
        """The queries that found nothing."""
        letters = {line.letter for line in self.lines}
        return [target["expr"] for target in self.panel["targets"] if target["refId"] not in letters]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One server, by its address."""

    url: str

    def ask(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 (it depends on what is asked)
        """What the HTTP API answers; raises QueryError."""
        query = urllib.parse.urlencode({name.removesuffix("_"): value for name, value in parameters.items()})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=_TIMEOUT_SECONDS) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as refusal:
            raise QueryError(refusal.read().decode(errors="replace")[:500]) from None
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise QueryError(f"there is no Prometheus at {self.url}: {error}") from None


def colours(panel: Body) -> dict[str, str]:
    """The colours that a panel gives to lines by their names."""
    return {
        override["matcher"]["options"]: _COLOURS.get(entry["value"]["fixedColor"], entry["value"]["fixedColor"])
        for override in panel["fieldConfig"].get("overrides", ())
        if override["matcher"]["id"] == "byName"
        for entry in override["properties"]
        if entry["id"] == "color"
    }


def recent(prometheus: Prometheus, seconds: float, *, step: float) -> Span:
    """The last seconds by the clock of Prometheus, on whole steps, so that pictures do not tremble."""
    end = float(prometheus.ask("query", query="time()")["result"][1]) // step * step
    return Span(end - seconds // step * step, end, step)


def ask(
    dashboard: Body, prometheus: Prometheus, span: Span, *, scrape_seconds: float, wishes: Mapping[str, str]
) -> list[Answered]:
    """Have every query of every panel answered; raises QueryError."""
    values = {
        "__rate_interval": f"{max(span.step + scrape_seconds, 4 * scrape_seconds):.0f}s",
        "__interval": f"{max(span.step, scrape_seconds):.0f}s",
        "__range": f"{span.end - span.start:.0f}s",
    }
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "datasource":
            values[variable["name"]] = wishes.get(variable["name"]) or _value(variable, prometheus, span, values)
    panels = (panel for panel in dashboard["panels"] if panel["type"] != "row")
    return [Answered(panel, _lines(panel, prometheus, span, values)) for panel in panels]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of ``$name`` and ``${name}``; raises QueryError."""
    try:
        return _PLACE.sub(lambda place: values[place[1] or place[2]], text)
    except KeyError as error:
        raise QueryError(f"nothing is known of the variable {error} in {text}") from None


def _value(variable: Body, prometheus: Prometheus, span: Span, values: Mapping[str, str]) -> str:
    if variable.get("includeAll"):
        return variable.get("allValue") or ".*"
    query = variable["query"]["query"]
    if (match := _LABEL_VALUES.fullmatch(query)) is None:
        raise QueryError(f"variable {variable['name']!r} asks {query!r}, which is not label_values(series, label)")
    series = fill(match[1], values)
    choices = prometheus.ask(f"label/{match[2]}/values", **{"match[]": series, "start": span.start, "end": span.end})
    return min(choices, default="")


def _lines(panel: Body, prometheus: Prometheus, span: Span, values: Mapping[str, str]) -> tuple[Line, ...]:
    lines: list[Line] = []
    for target in panel["targets"]:
        try:
            query = fill(target["expr"], values)
            if target.get("instant"):
                series_list = prometheus.ask("query", query=query, time=span.end)["result"]
            else:
                series_list = prometheus.ask(
                    "query_range", query=query, start=span.start, end=span.end, step=span.step
                )["result"]
        except QueryError as error:
            raise QueryError(f"panel {panel['title']!r}: {target['expr']}: {error}") from None
        lines += sorted((_line(target, series) for series in series_list), key=lambda line: line.name)
    return tuple(lines)


def _line(target: Body, series: Body) -> Line:
    labels = series["metric"]
    legend = target.get("legendFormat", "__auto")
    name = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda label: labels.get(label[1], ""), legend)
    if legend == "__auto":
        name = ", ".join(f"{label}={value}" for label, value in sorted(labels.items()))
    points = series.get("values") or [series["value"]]
    return Line(name, target["refId"], labels, tuple((float(at), float(value)) for at, value in points))
