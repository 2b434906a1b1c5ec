"""What a heatmap shows of Prometheus' buckets, each of which includes the lower ones."""

import math

import pytest

from rendering import buckets
from rendering.answers import Line
from rendering.prometheus import Series, Span

SPAN = Span(100.0, 120.0, 10.0)


def line(bound, *values):
    points = tuple((100.0 + 10 * step, value) for step, value in enumerate(values) if value is not None)
    return Line(bound, "A", Series({"le": bound}, points))


def test_a_bucket_is_left_with_what_the_lower_ones_have_not():
    lines = [line("+Inf", 5, 5, 0), line("1", 3, 1, 0), line("0.5", 2, 0, 0)]

    edges, cells = buckets.own_counts(lines, SPAN)

    assert edges == [0.5, 1.0, math.inf]
    assert cells == [[2, 0, 0], [1, 1, 0], [2, 4, 0]]


def test_what_was_not_measured_counts_as_nothing():
    _, cells = buckets.own_counts([line("1", None, 2, None)], SPAN)

    assert cells == [[0.0, 2, 0.0]]


def test_a_count_that_shrinks_upwards_by_rounding_is_never_below_nothing():
    _, cells = buckets.own_counts([line("1", 2.0, 0, 0), line("2", 1.9999, 0, 0)], SPAN)

    assert cells[1][0] == 0.0


def test_a_series_that_is_no_bucket_is_left_out():
    assert buckets.own_counts([Line("x", "A", Series({}, ((100.0, 1.0),)))], SPAN) == ([], [])


@pytest.mark.parametrize(
    ("used", "shown"),
    [((), (0, 5)), ((0,), (0, 1)), ((3,), (2, 4)), ((2, 5), (1, 6)), ((7,), (6, 7))],
)
def test_the_buckets_that_ever_had_something_are_shown_with_one_more_on_each_side(used, shown):
    cells = [[float(index in used), 0.0] for index in range(8)]

    assert buckets.worth_showing(cells) == shown
