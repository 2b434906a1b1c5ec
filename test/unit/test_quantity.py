"""Kubernetes quantities are added up exactly; what is none is nothing."""

from decimal import Decimal

import pytest

from tf_operator import quantity


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("1.5Gi", "1610612736"),
        ("2k", "2000"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-1", "-1"),
        ("100n", "1e-7"),
        (3, "3"),
        (0.5, "0.5"),
    ],
)
def test_a_quantity_is_read(value, amount):
    assert quantity.parse(value) == Decimal(amount)


@pytest.mark.parametrize(
    "value", ["", "x", "1 Gi", "1Ki5", "1g", None, [], "9" * 40, "٣", "1e999", "nan", float("inf")]
)
def test_what_is_no_quantity_is_none(value):
    assert quantity.parse(value) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12Gi", "12Gi"),
        ("1.5Gi", "1536Mi"),
        ("12288500Ki", "12288500Ki"),
        ("1G", "1000000000"),
        ("500m", "500m"),
        ("1e45", f"{5**45 * 2**15}Gi"),
    ],
)
def test_memory_is_written_as_people_write_it(value, text):
    assert quantity.memory(quantity.parse(value)) == text


@pytest.mark.parametrize(
    ("amount", "text"), [("2", "2"), ("0.5", "500m"), ("0.0001", "1m"), ("1610612736.0", "1610612736"), ("0", "0")]
)
def test_an_amount_is_written_whole_or_in_thousandths_rounded_up(amount, text):
    assert quantity.text(Decimal(amount)) == text
