"""What is put in the place of variables before Prometheus is asked."""

import dataclasses

import pytest

from rendering import variables
from rendering.errors import UnknownError
from rendering.model import Dashboard, Variable
from rendering.prometheus import Span

SPAN = Span(1000.0, 4600.0, 15.0)


@dataclasses.dataclass
class Known:
    """A Prometheus that has these values of every label, and remembers what it was asked."""

    values: list[str]
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def label_values(self, label, series, span):
        self.asked.append((label, series))
        return self.values


def dashboard(*found):
    return Dashboard("d", "D", found, ())


def variable(name, query="label_values(up, job)", all_value=""):
    return Variable(name, name.title(), query, all_value)


def test_both_spellings_of_a_variable_are_filled_and_a_group_of_a_pattern_is_left():
    values = {"job": ".*", "__range": "60s"}

    filled = variables.fill('label_replace(up{job=~"$job"}[${__range}], "a", "$1", "a", "${job:pipe}")', values)

    assert filled == 'label_replace(up{job=~".*"}[60s], "a", "$1", "a", ".*")'


def test_a_variable_that_nobody_knows_is_an_error():
    with pytest.raises(UnknownError, match=r"nothing is known of the variable \$cluster"):
        variables.fill('up{cluster="$cluster"}', {"job": "x"})


@pytest.mark.parametrize(("scrape", "interval"), [(5.0, "20s"), (60.0, "240s")])
def test_rates_are_taken_over_four_scrapes(scrape, interval):
    assert variables.of_grafana(Span(0, 3600, 15.0), scrape)["__rate_interval"] == interval


def test_rates_of_a_long_time_are_taken_over_a_step_so_that_nothing_is_left_out():
    found = variables.of_grafana(Span(0, 86400, 360.0), 30.0)

    assert found == {"__rate_interval": "390s", "__interval": "360s", "__range": "86400s"}


def test_a_variable_stands_for_all_values_or_for_the_first_or_for_the_one_that_was_wished():
    known = Known(["b", "c"])
    found = dashboard(
        variable("job", all_value=".*"),
        variable("name", 'label_values(kube_pod_owner{job=~"$job"}, owner_name)'),
        variable("other"),
    )

    chosen = variables.choose(found, known, SPAN, {"other": "mine"})

    assert {name: (choice.shown, choice.value) for name, choice in chosen.items()} == {
        "job": ("All", ".*"),
        "name": ("b", "b"),
        "other": ("mine", "mine"),
    }
    assert known.asked == [("owner_name", 'kube_pod_owner{job=~".*"}')]


def test_a_variable_without_any_value_is_empty_and_shown_as_none():
    chosen = variables.choose(dashboard(variable("name")), Known([]), SPAN, {})

    assert (chosen["name"].shown, chosen["name"].value) == ("none", "")


def test_a_variable_that_asks_for_something_else_is_an_error():
    with pytest.raises(UnknownError, match="the renderer knows only label_values"):
        variables.choose(dashboard(variable("name", "query_result(up)")), Known([]), SPAN, {})
