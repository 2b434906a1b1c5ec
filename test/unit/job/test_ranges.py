"""Sets of replica indexes are short to write and are read without trust."""

import pytest

from tf_operator.job.ranges import NO_INDEXES, Indexes


@pytest.mark.parametrize(
    ("members", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0-1"), ([2, 0, 1, 5], "0-2,5"), ([0, 2, 4], "0,2,4"), (range(1000), "0-999")],
)
def test_neighbours_are_written_as_one_range(members, text):
    assert str(Indexes.of(members)) == text


@pytest.mark.parametrize("text", [None, 7, [], "", "x", "-1", "1-", "01", "1.5", "٣", "1-2-3"])
def test_what_is_no_range_is_passed_over(text):
    assert Indexes.parse(text) == NO_INDEXES


def test_the_ranges_beside_what_is_none_are_kept():
    assert list(Indexes.parse("3, x,5-6,9-7")) == [3, 5, 6]


def test_a_range_beyond_any_index_costs_no_memory():
    assert len(Indexes.parse("0-999999")) == 10_000
    assert len(Indexes.parse("0-9998,9999")) == 10_000


def test_a_text_that_repeats_itself_is_read_only_as_far_as_there_can_be_indexes():
    assert list(Indexes.parse(",".join(["0-4999"] * 3 + ["9000"]))) == list(range(5000))
