"""How the series of a panel get their names, and how a query that fails is told."""

import dataclasses
import math

import pytest

from rendering import answers
from rendering.answers import Line
from rendering.errors import RefusedError, UnknownError, UnreachableError
from rendering.model import Dashboard, Grid, Panel, Target
from rendering.prometheus import Series, Span

SPAN = Span(0.0, 60.0, 15.0)


@dataclasses.dataclass
class Answering:
    """A Prometheus that gives the same answer to everything, or fails."""

    found: list[Series] = dataclasses.field(default_factory=list)
    failure: Exception | None = None
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def instant(self, query, *, at):
        return self._answer("instant", query)

    def ranged(self, query, span):
        return self._answer("range", query)

    def _answer(self, how, query):
        self.asked.append((how, query))
        if self.failure:
            raise self.failure
        return self.found


def ask(prometheus, *targets):
    panel = Panel("timeseries", "Jobs", Grid(0, 0, 8, 8), targets=targets)
    dashboard = Dashboard("d", "D", (), (panel,))
    return answers.ask(dashboard, prometheus, SPAN, scrape_seconds=15.0, wishes={}).panels[0].lines


def test_series_are_named_by_the_legend_and_sorted_within_their_query():
    series = [Series({"phase": phase}, ()) for phase in ("Running", "Failed")]

    lines = ask(Answering(series), Target("A", "x", "{{phase}} now", is_instant=False))

    assert [(line.letter, line.name) for line in lines] == [("A", "Failed now"), ("A", "Running now")]


def test_series_without_a_legend_are_named_by_their_labels():
    (line,) = ask(Answering([Series({"b": "2", "a": "1"}, ())]), Target("A", "x", "", is_instant=True))

    assert line.name == "a=1, b=2"


def test_queries_are_asked_as_they_want_with_what_grafana_fills_in():
    prometheus = Answering()

    targets = (
        Target("A", "a[$__rate_interval]", "a", is_instant=False),
        Target("B", "b[$__range]", "b", is_instant=True),
    )
    ask(prometheus, *targets)

    assert prometheus.asked == [("range", "a[60s]"), ("instant", "b[60s]")]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RefusedError("parse error"), "panel 'Jobs': Prometheus refuses the query 'up': parse error"),
        (UnreachableError("connection refused"), "panel 'Jobs': query 'up': connection refused"),
    ],
)
def test_a_failure_names_the_panel_and_the_query(failure, said):
    with pytest.raises(type(failure), match=f"^{said}$"):
        ask(Answering(failure=failure), Target("A", "up", "", is_instant=True))


def test_an_unknown_variable_names_the_panel_and_the_query_as_it_is_written():
    with pytest.raises(UnknownError, match=r"panel 'Jobs': query 'up\[\$__auto\]': nothing is known of"):
        ask(Answering(), Target("A", "up[$__auto]", "", is_instant=True))


def test_the_last_value_is_the_last_that_is_a_number():
    assert Line("x", "A", Series({}, ((0, 1.0), (15, 2.0), (30, math.nan)))).last == 2.0
    assert math.isnan(Line("x", "A", Series({}, ())).last)
