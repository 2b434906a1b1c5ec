"""Values of flags, in the spelling of Go: what is read, what is refused, and by which rule."""

import math

import pytest

from tf_operator.app.options import flag_types
from tf_operator.app.options.flag_types import Address


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("1h2m3s", 3723),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("500ms", 0.5),
        ("100us", 1e-4),
        ("100\u00b5s", 1e-4),  # the micro sign
        ("100\u03bcs", 1e-4),  # the Greek letter
        ("7ns", 7e-9),
        ("+2s", 2),
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("1m1m", 120),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert flag_types.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "s", ".s", "15 s", "1d", "-3s", "1m-3s", "1e3s", "3S", "٣s", "9999999h", "+", "1s\n"]
)
def test_a_duration_without_a_unit_or_below_zero_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 15s"):
        flag_types.duration(text)


def test_a_duration_that_must_pass_is_longer_than_nothing():
    assert flag_types.positive_duration("1ms") == pytest.approx(0.001)
    with pytest.raises(ValueError, match="longer than 0s"):
        flag_types.positive_duration("0s")


@pytest.mark.parametrize(("texts", "is_on"), [("1 t T true TRUE True", True), ("0 f F false FALSE False", False)])
def test_a_switch_has_gos_spellings(texts, is_on):
    assert {flag_types.switch(text) for text in texts.split()} == {is_on}


@pytest.mark.parametrize("text", ["0", "11", "-1", "1.5", "ten", "", " 3", "1_0", "٣", "9" * 30])
def test_a_whole_number_outside_its_range_is_refused(text):
    with pytest.raises(ValueError, match="a whole number from 1 to 10"):
        flag_types.whole(least=1, most=10)(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("+3", 3), ("010", 10)])
def test_a_whole_number_in_its_range_is_read(text, number):
    assert flag_types.whole(least=1, most=10)(text) == number


@pytest.mark.parametrize(("text", "number"), [("20", 20), ("0.5", 0.5), ("1e3", 1000), ("-1", math.inf)])
def test_a_rate_is_a_number_and_a_negative_one_is_no_limit(text, number):
    assert flag_types.rate(text) == number


@pytest.mark.parametrize("text", ["0", "-0.0", "fast", "", "nan", "inf", "1_0", "٣"])
def test_a_rate_that_lets_nothing_pass_is_refused(text):
    with pytest.raises(ValueError, match="greater than 0"):
        flag_types.rate(text)


def test_a_choice_takes_its_words_and_names_them_otherwise():
    read = flag_types.choice("json", "console", "none")

    assert read("console") == "console"
    with pytest.raises(ValueError, match=r"^json, console or none$"):
        read("JSON")


@pytest.mark.parametrize(
    ("text", "address", "written"),
    [
        (":8080", Address("", 8080), ":8080"),
        ("127.0.0.1:0", Address("127.0.0.1", 0), "127.0.0.1:0"),
        ("localhost:65535", Address("localhost", 65535), "localhost:65535"),
        ("[::1]:80", Address("::1", 80), "[::1]:80"),
    ],
)
def test_an_address_is_read_and_written_as_go_does(text, address, written):
    assert flag_types.address(text) == address
    assert str(address) == written


@pytest.mark.parametrize("text", ["0", ""])
def test_no_address_is_nowhere(text):
    assert flag_types.address(text) is None


@pytest.mark.parametrize("text", ["8080", ":http", ":65536", "::1:80", "a b:80", "[::1:80", ":", ":٣"])
def test_what_is_no_address_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="an address such as :8080"):
        flag_types.address(text)


@pytest.mark.parametrize(("text", "found"), [("", ()), ("a", ("a",)), ("a,b-1", ("a", "b-1")), (",a,", ("a",))])
def test_names_are_separated_by_commas(text, found):
    assert flag_types.names(text) == found


@pytest.mark.parametrize("text", ["A", "a.b", "-a", "a" * 64, "a b", "a\n", "*"])
def test_what_is_no_name_of_a_namespace_is_refused(text):
    with pytest.raises(ValueError, match="the name of a namespace"):
        flag_types.names(text)


def test_a_name_may_have_dots():
    assert flag_types.name("1ca428e5.training-operator.kubeflow.org") == "1ca428e5.training-operator.kubeflow.org"


@pytest.mark.parametrize("text", ["", "a..b", "A", "a/b", ".".join(["a" * 63] * 4) + ".a"])
def test_what_is_no_name_of_an_object_is_refused(text):
    with pytest.raises(ValueError, match="the name of a Kubernetes object"):
        flag_types.name(text)
