"""Curves of reported metrics: the last points, bounded whatever a program reports."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tf_operator.job.curves import Curves, SmallCurve
from tf_operator.job.progress import Checkpoint, Metric, Progress

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
COPY = msgspec.to_builtins(Curves().copy())


def reported(number, step=None, **metrics):
    """The report of this second."""
    pairs = tuple(Metric(name, str(value)) for name, value in metrics.items())
    return Progress(step=step, metrics=pairs, time=BEGIN + timedelta(seconds=number))


def test_a_page_gets_the_points_that_it_lacks():
    drawn, second = Curves(), BEGIN.timestamp()
    assert not drawn.add(None)
    assert [drawn.add(reported(1, 10, loss=2)), drawn.add(reported(1, 10, loss=2))] == [True, False]
    drawn.add(reported(2, 20, val_loss="3.123456789", loss=1))

    points = [(second + 1, 10, 2.0), (second + 2, 20, 1.0, 3.12346)]
    assert drawn.since(0) == {"names": ["loss", "val_loss"], "points": points, "most": 1000}
    assert drawn.since(1)["points"] == points[1:]
    assert drawn.since(2)["points"] == []


def test_what_is_no_number_is_no_point():
    drawn = Curves()
    added = [
        drawn.add(reported(second, loss=text))
        for second, text in enumerate(["nan", "inf", "-Infinity", "good", "1e300"])
    ]
    assert (added, drawn.names) == ([False] * 5, [])
    assert drawn.add(reported(9, loss="nan", accuracy="0.5"))
    assert drawn.since(0)["names"] == ["accuracy"]


def test_a_program_that_reports_other_names_each_time_fills_nothing():
    drawn = Curves()
    for second in range(1100):
        drawn.add(reported(second, loss=second, **{f"m{second}": 1}))

    assert (len(drawn.points), len(drawn.names), drawn.count) == (1000, 8, 1100)
    assert len(drawn.since(0)["points"]) == 1000


def test_a_small_curve_covers_all_of_a_long_training_in_few_points():
    small = SmallCurve()
    small.add(None)
    lengths = set()
    for second in range(5000):
        small.add(reported(second, note="good", loss=second, accuracy=0.5))
        lengths.add(len(small.values))
    small.add(reported(5000, note="good", accuracy=0.5))

    assert small.name == "loss"
    assert (len(small.values) >= 30, max(lengths)) == (True, 60)
    assert (small.values[0], small.values[-1]) == (0.0, 4999.0)
    assert small.values == sorted(small.values)


def test_a_report_that_is_seen_again_is_no_other_value_of_a_small_curve():
    small = SmallCurve()
    for second in (1, 1, 2):
        small.add(reported(second, loss=second))

    assert small.values == [1.0, 2.0]


def test_a_copy_has_all_that_there_was_and_goes_on_with_what_is_newer():
    drawn = Curves()
    for second in range(2):
        drawn.add(reported(second, 10 * second, loss=second))
    drawn.add(replace(reported(2, 20, loss=2), checkpoint=Checkpoint(20, BEGIN)))
    drawn.points.popleft()

    copy = Curves.of_copy(msgspec.to_builtins(drawn.copy()))
    assert copy.since(0) == drawn.since(0)
    assert (copy.count, list(copy.checkpoints)) == (3, [(BEGIN, 20)])
    assert [copy.add(reported(second, loss=second)) for second in (1, 2, 3)] == [False, False, True]
    assert copy.since(3)["points"] == [(BEGIN.timestamp() + 3, None, 3.0)]


@pytest.mark.parametrize("kept", [None, [], {}, {"names": 1}, COPY | {"points": [["x"]]}])
def test_what_was_not_kept_as_curves_is_none(kept):
    assert Curves.of_copy(kept).since(0) == Curves().since(0)
