"""How long the rest of a training takes, and what is news of it."""

import pytest

from tf_operator.job.progress import Metric, Point, Progress, remaining


@pytest.mark.parametrize(
    ("percentages", "seconds"),
    [
        ([10, 20, 30, 40, 50], 50),
        ([10, 20, 30, 40], None),
        ([0, 0, 0, 0, 1], None),
        ([50, 50, 50, 50, 50], None),
        ([96, 97, 98, 99, 100], 0),
    ],
    ids=["ten percent in ten seconds", "too few", "it has just begun", "it does not move", "it is done"],
)
def test_the_rest_takes_as_long_as_the_last_reports_say_if_there_are_enough(percentages, seconds):
    points = [Point(100 + 10 * number, percentage) for number, percentage in enumerate(percentages)]

    assert remaining(points) == seconds


def test_nothing_is_said_of_a_time_beyond_ten_years():
    assert remaining([Point(number * 1e8, number) for number in range(1, 6)]) is None


def test_a_report_that_repeats_the_one_before_at_another_time_is_no_progress():
    first = Progress(percentage=34, step=3400, metrics=(Metric("loss", "0.21"),))

    assert first.has_moved_from(None)
    assert not first.has_moved_from(Progress(34, remaining=7, step=3400, metrics=first.metrics))
    for other in (Progress(35, step=3400, metrics=first.metrics), Progress(34, step=3401, metrics=first.metrics)):
        assert first.has_moved_from(other)
    assert first.has_moved_from(Progress(34, step=3400))
