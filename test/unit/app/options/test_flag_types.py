"""Values of flags, in the spelling of Go: which are read, which are refused, and by which rule."""

import math

import pytest

from tf_operator.app.options import flag_types
from tf_operator.app.options.flag_types import Address

ONE_TO_TEN = flag_types.whole(least=1, most=10)
FORMATS = flag_types.choice("json", "console", "none")
LONG_NAME = "1ca428e5.training-operator.kubeflow.org"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
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
        ("1m1m", 120),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert flag_types.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("read", "values"),
    [
        pytest.param(flag_types.positive_duration, {"1ms": 0.001}, id="positive duration"),
        pytest.param(flag_types.switch, dict.fromkeys(["1", "t", "T", "true", "TRUE", "True"], True), id="on"),
        pytest.param(flag_types.switch, dict.fromkeys(["0", "f", "F", "false", "FALSE", "False"], False), id="off"),
        pytest.param(ONE_TO_TEN, {"1": 1, "+3": 3, "010": 10}, id="whole number"),
        pytest.param(flag_types.rate, {"20": 20, "0.5": 0.5, "1e3": 1000, "-1": math.inf}, id="rate"),
        pytest.param(FORMATS, {"console": "console"}, id="choice"),
        pytest.param(flag_types.address, {"0": None, "": None}, id="no address"),
        pytest.param(
            flag_types.names, {"": (), "a": ("a",), "a,b-1": ("a", "b-1"), ",a,": ("a",)}, id="names of namespaces"
        ),
        pytest.param(flag_types.name, {LONG_NAME: LONG_NAME}, id="name"),
    ],
)
def test_a_valid_value_is_read(read, values):
    assert {text: read(text) for text in values} == values


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
        ("[::1]:80", Address("::1", 80)),
    ],
)
def test_an_address_is_read_and_written_as_go_does(text, address):
    assert flag_types.address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("read", "rule", "texts"),
    [
        pytest.param(
            flag_types.duration,
            "such as 15s",
            ["", "15", "s", ".s", "15 s", "1d", "-3s", "1m-3s", "1e3s", "3S", "٣s", "9999999h", "+", "1s\n"],
            id="duration",
        ),
        pytest.param(flag_types.positive_duration, "longer than 0s", ["0s"], id="positive duration"),
        pytest.param(
            ONE_TO_TEN,
            "a whole number from 1 to 10",
            ["0", "11", "-1", "1.5", "ten", "", " 3", "1_0", "٣", "9" * 30],
            id="whole number",
        ),
        pytest.param(flag_types.rate, "greater than 0", ["0", "-0.0", "fast", "", "nan", "inf", "1_0", "٣"], id="rate"),
        pytest.param(FORMATS, r"^json, console or none$", ["JSON"], id="choice"),
        pytest.param(
            flag_types.address,
            "an address such as :8080",
            ["8080", ":http", ":65536", "::1:80", "a b:80", "[::1:80", ":", ":٣"],
            id="address",
        ),
        pytest.param(
            flag_types.names,
            "the name of a namespace",
            ["A", "a.b", "-a", "a" * 64, "a b", "a\n", "*"],
            id="names of namespaces",
        ),
        pytest.param(
            flag_types.name,
            "the name of a Kubernetes object",
            ["", "a..b", "A", "a/b", ".".join(["a" * 63] * 4) + ".a"],
            id="name",
        ),
    ],
)
def test_an_invalid_value_is_refused_with_the_rule(read, rule, texts):
    for text in texts:
        with pytest.raises(ValueError, match=rule):
            read(text)
