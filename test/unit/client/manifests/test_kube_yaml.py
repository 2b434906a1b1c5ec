"""YAML as kubectl reads and writes it."""

import pytest
import yaml

from tf_operator.client.manifests import kube_yaml


def one(text):
    (document,) = kube_yaml.read(text)
    return document


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        pytest.param("2024-01-01", "2024-01-01", id="a date is text"),
        pytest.param("12:30", "12:30", id="a time is text, not minutes"),
        pytest.param("1e3", 1000, id="an exponent makes a number"),
        pytest.param("2.0", 2, id="JSON has one kind of number"),
        pytest.param("0.5", 0.5, id="a fraction"),
        pytest.param("010", 8, id="a leading zero makes it octal"),
        pytest.param("0o17", 15, id="octal of today"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("1_000", 1000, id="underscores in numbers"),
        pytest.param("-7", -7, id="a negative number"),
        pytest.param("y", True, id="y is yes"),
        pytest.param("Off", False, id="off is no"),
        pytest.param('"off"', "off", id="quoted is text"),
        pytest.param("~", None, id="null"),
        pytest.param("1Gi", "1Gi", id="a quantity is text"),
        pytest.param("18446744073709551616", 2.0**64, id="beyond 64 bits"),
    ],
)
def test_a_scalar_is_what_kubectl_takes_it_for(text, meaning):
    scalar = one(f"value: {text}")["value"]

    assert (scalar, type(scalar)) == (meaning, type(meaning))


@pytest.mark.parametrize(("key", "text"), [("1", "1"), ("true", "true"), ("name", "name")])
def test_keys_are_text(key, text):
    assert one(f"{{{key}: 0}}") == {text: 0}


def test_documents_are_separated_and_empty_ones_left_out():
    assert list(kube_yaml.read("---\na: 1\n---\n# nothing\n---\nb: 2\n")) == [{"a": 1}, {"b": 2}]


def test_merged_keys_may_be_overruled():
    assert one("base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}")["more"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("a: 1\na: 2\n", "line 2, column 1: the key 'a' is there twice", id="a key twice"),
        pytest.param("a: b: c\n", "line 1, column 5: mapping values are not allowed here", id="bad syntax"),
        pytest.param("a: !thing 1\n", "line 1, column 4: could not determine", id="a tag"),
        pytest.param("a: \x07\n", "special characters are not allowed", id="a control character"),
        pytest.param("[" * 600, "is nested too deeply", id="too many levels"),
        pytest.param(f"a: 1{'0' * 5000}", "line 1, column 4: '1000", id="more digits than Python reads"),
        pytest.param("a: .inf", "line 1, column 4: '.inf' is not a number", id="not finite"),
        pytest.param("a: !!int x", "line 1, column 4: 'x' is not a number", id="tagged as an integer"),
        pytest.param("a: !!float x", "line 1, column 4: 'x' is not a number", id="tagged as a number"),
        pytest.param("a: !!bool x", "line 1, column 4: 'x' is not a boolean", id="tagged as a boolean"),
        pytest.param(
            "a: !!timestamp x", "line 1, column 4: the tag stands for no value of JSON", id="tagged as a date"
        ),
        pytest.param("a: !!map x", "line 1, column 4: an object is expected here", id="tagged as an object"),
        pytest.param("a: &a [*a]", "line 1, column 11: the anchor 'a' contains itself", id="a list in itself"),
        pytest.param("a: &a {b: {c: *a}}", "the anchor 'a' contains itself", id="an object in itself"),
        pytest.param("? [a]\n: b", "line 1, column 3: a key must be a string", id="a list as key"),
    ],
)
def test_text_that_kubectl_would_not_take_is_refused_with_the_place(text, complaint):
    with pytest.raises(kube_yaml.YamlError) as refused:
        list(kube_yaml.read(text))

    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y",
        "No",
        "1e3",
        "010",
        "12:30",
        "2024-01-01",
        "1Gi",
        "null",
        "~",
        ".5",
        "-c",
        "plain",
        "a: b",
        "two\nlines\n",
    ],
)
def test_text_stays_text_for_every_reader(text):
    written = kube_yaml.write({"value": text})

    assert one(written) == {"value": text}
    assert yaml.safe_load(written) == {"value": text}


def test_nothing_is_abbreviated():
    same = {"a": ["b"]}

    assert kube_yaml.write({"first": same, "second": same}) == "first:\n  a:\n  - b\nsecond:\n  a:\n  - b\n"
    assert kube_yaml.write({"first": None, "second": None}) == "first: null\nsecond: null\n"


LAUGHS = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9) if level else 'x'}]\n" for level in range(9))
MERGES = "a: &a {k: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\nb:\n" + "- <<: *a\n" * 10_000
MANY = "---\na: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\nb: [" + "*a, " * 400 + "]\n"


@pytest.mark.parametrize("text", [LAUGHS, MERGES, MANY * 30], ids=["nested", "merged", "in many documents"])
def test_aliases_that_make_a_small_text_very_large_are_an_error_at_once(text):
    with pytest.raises(
        kube_yaml.YamlError, match=r"^line \d+, column 1: the aliases stand for more than 100000 values$"
    ):
        list(kube_yaml.read(text))


def test_a_template_may_be_repeated_by_aliases():
    assert list(kube_yaml.read(MANY)) == [{"a": [*range(1, 10)], "b": [[*range(1, 10)]] * 400}]
