"""Values as they are written in pictures."""

import math

import pytest

from rendering import units
from rendering.errors import UnknownError


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "short", "0"),
        (7, "short", "7"),
        (0.125, "short", "0.125"),
        (99.96, "short", "100"),
        (1234, "short", "1.23 K"),
        (999_900, "short", "1 Mil"),
        (0, "s", "0 s"),
        (0.0042, "s", "4.2 ms"),
        (59.99, "s", "1 min"),
        (90, "s", "1.5 min"),
        (7200, "s", "2 hours"),
        (259_200, "s", "3 days"),
        (2.5e-10, "s", "0 ns"),
        (73 * 2**20, "bytes", "73 MiB"),
        (512, "bytes", "512 B"),
        (2.5e6, "Bps", "2.5 MB/s"),
        (0.111, "percentunit", "11.1%"),
        (2.5, "suffix: /min", "2.5 /min"),
        (math.nan, "s", "no value"),
    ],
)
def test_a_value_is_written_with_its_unit(value, unit, text):
    assert units.write(value, unit) == text


def test_a_unit_that_nobody_knows_is_an_error():
    with pytest.raises(UnknownError, match="unit 'furlongs': the renderer knows short, s, bytes"):
        units.write(1, "furlongs")


@pytest.mark.parametrize(
    ("most", "unit", "size"),
    [(0.5, "s", 1e-3), (59, "s", 1), (90, "s", 60), (3 * 2**20, "bytes", 2**20), (100, "short", 1)],
)
def test_the_lines_of_a_scale_lie_at_whole_units(most, unit, size):
    assert units.step_size(most, unit) == size
