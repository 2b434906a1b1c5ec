"""What follows of two reconciles."""

import pytest

from tf_operator.controller.result import DONE, NOW, Result, Turn

SOON, LATER = Result(1.0), Result(2.0)
ALSO_SOON = Result(1.0, Turn.GIVES_WAY)


@pytest.mark.parametrize(
    ("result", "other", "first"),
    [(SOON, LATER, SOON), (LATER, NOW, NOW), (DONE, LATER, LATER), (LATER, DONE, LATER), (SOON, ALSO_SOON, SOON)],
    ids=["the first is earlier", "the second is", "only the second comes", "only the first does", "at once"],
)
def test_the_earlier_of_two_results_counts_and_of_two_at_once_the_first(result, other, first):
    assert result.or_earlier(other) is first
