"""The panels of a dashboard, with what Prometheus answers to their queries.

A failure names the panel and the query. Neighbours: ``model``, ``variables``, ``prometheus``; ``page`` draws what they
answer.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rendering import variables
from rendering.errors import RefusedError, RenderError
from rendering.model import Dashboard, Panel, Target
from rendering.prometheus import Prometheus, Series, Span
from rendering.variables import Choice

_LABEL: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Line:
    """A series with the name that its panel gives it."""

    name: str
    letter: str
    series: Series

    @property
    def last(self) -> float:
        """The last value that is a number; else not a number."""
        return next((value for _, value in reversed(self.series.points) if not math.isnan(value)), math.nan)


@dataclass(frozen=True, slots=True)
class Answered:
    """A panel and its lines, in the order of its queries and then of their names."""

    panel: Panel
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """A dashboard that is ready to be drawn."""

    dashboard: Dashboard
    span: Span
    choices: Mapping[str, Choice]
    panels: tuple[Answered, ...]


def ask(
    dashboard: Dashboard, prometheus: Prometheus, span: Span, *, scrape_seconds: float, wishes: Mapping[str, str]
) -> Answers:
    """Have every query answered; raises RenderError."""
    choices = variables.choose(dashboard, prometheus, span, wishes)
    values = {name: choice.value for name, choice in choices.items()} | variables.of_grafana(span, scrape_seconds)
    panels = tuple(Answered(panel, _lines(panel, prometheus, span, values)) for panel in dashboard.panels)
    return Answers(dashboard, span, choices, panels)


def _lines(panel: Panel, prometheus: Prometheus, span: Span, values: Mapping[str, str]) -> tuple[Line, ...]:
    lines: list[Line] = []
    for target in panel.targets:
        query = target.query
        try:
            query = variables.fill(target.query, values)
            found = prometheus.instant(query, at=span.end) if target.is_instant else prometheus.ranged(query, span)
        except RefusedError as error:
            raise RefusedError(f"panel {panel.title!r}: Prometheus refuses the query {query!r}: {error}") from None
        except RenderError as error:
            raise type(error)(f"panel {panel.title!r}: query {query!r}: {error}") from None
        named = (Line(_name(target, series), target.letter, series) for series in found)
        lines += sorted(named, key=lambda line: line.name)
    return tuple(lines)


def _name(target: Target, series: Series) -> str:
    if target.legend:
        return _LABEL.sub(lambda label: series.labels.get(label[1], ""), target.legend)
    return ", ".join(f"{label}={value}" for label, value in sorted(series.labels.items()))
