"""Tables and times as they are printed."""

from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.client import display

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DURATIONS = {
    0: "0s", 119: "119s", 120: "2m", 200: "3m20s", 599: "9m59s", 600: "10m", 10799: "179m", 10800: "3h", 12000: "3h20m",
    28800: "8h", 172799: "47h", 172800: "2d", -5: "0s",
}  # fmt: skip


@pytest.mark.parametrize(("seconds", "text"), DURATIONS.items())
def test_a_duration_is_written_as_kubectl_writes_it(seconds, text):
    assert display.duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "less than a second"), (-1, "less than a second"), (1, "1s"), (None, "")]
)
def test_what_took_less_than_a_second_did_not_take_0_seconds(seconds, text):
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    assert display.lasted(NOW, until) == text


def test_a_table_shows_no_control_characters():
    assert list(display.table(["A", "B"], [["x\x1b[31m", "1"], ["longer", "a\nb"]])) == [
        "A        B\n",
        "x?[31m   1\n",
        "longer   a b\n",
    ]
