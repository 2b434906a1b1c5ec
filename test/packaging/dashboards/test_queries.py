"""What is asked of Prometheus for a dashboard."""

import pytest

from rendering import queries
from rendering.queries import QueryError, Span

HOUR = Span(0, 3600, 15.0)


class Known:
    """A Prometheus with these values of every label and one series for every query; it remembers what it was asked."""

    def __init__(self, *values):
        self.values = values
        self.asked = []

    def ask(self, what, **parameters):
        self.asked.append(parameters.get("query") or parameters["match[]"])
        if what.startswith("label/"):
            return self.values
        return {"result": [{"metric": {"pod": "a"}, "value": [0, "1"], "values": [[0, "1"]]}]}


def dashboard(query, *variables, **target):
    listed = [{"name": name, "type": "query", "query": {"query": asked}, **more} for name, asked, more in variables]
    panel = {"type": "stat", "title": "P", "targets": [{"refId": "A", "expr": query, **target}]}
    return {"templating": {"list": listed}, "panels": [{"type": "row"}, panel]}


def ask(body, known, *, span=HOUR, scrape=5.0, **wishes):
    return queries.ask(body, known, span, scrape_seconds=scrape, wishes=wishes)


def test_a_variable_stands_for_all_values_or_for_the_first_or_for_the_one_that_is_asked_for():
    everything = ("job", "label_values(up, job)", {"includeAll": True, "allValue": ".+"})
    one = ("namespace", 'label_values(jobs{job=~"$job"}, namespace)', {})
    body, known = dashboard('up{job=~"$job", namespace="${namespace}"}', everything, one), Known("c", "b")

    ask(body, known)
    ask(body, known, job="x", namespace="z")

    assert known.asked == ['jobs{job=~".+"}', 'up{job=~".+", namespace="b"}', 'up{job=~"x", namespace="z"}']


@pytest.mark.parametrize(
    ("step", "scrape", "interval"), [(15.0, 5.0, "20s"), (15.0, 60.0, "240s"), (360.0, 30.0, "390s")]
)
def test_rates_are_taken_over_four_scrapes_and_never_less_than_a_step(step, scrape, interval):
    known = Known()
    ask(dashboard("rate(x[$__rate_interval])"), known, span=Span(0, 86400, step), scrape=scrape)
    assert known.asked == [f"rate(x[{interval}])"]


def test_a_variable_that_is_not_asked_by_label_values_is_refused():
    with pytest.raises(QueryError, match="which is not label_values"):
        ask(dashboard("x", ("pod", "query_result(up)", {})), Known())
