"""Fields of JSON are read with the type that they should have; what has another one is named, and nothing is raised."""

from enum import StrEnum

import pytest

from tf_operator.dialects import json_values
from tf_operator.dialects.fields import Fields
from tf_operator.meta import objects_of

WRONG = {
    "True": True,
    "3": 3,
    "2.5": 2.5,
    "'text'": "text",
    f"'{'x' * 40}'": "x" * 40,
    f"'{'x' * 40}...'": "x" * 41,
    "a list": [1],
    "an object": {"a": 1},
}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def problems(fields):
    return [str(problem) for problem in fields.problems]


def test_what_is_there_is_read():
    fields = Fields({"a": "x", "b": 3, "c": True, "d": "red", "e": {"f": "y"}})

    assert fields.text("a") == "x"
    assert fields.integer("b") == 3
    assert fields.flag("c") is True
    assert fields.one_of("d", Colour, Colour.BLUE) is Colour.RED
    assert fields.below("e").text("f") == "y"
    assert fields.problems == []


@pytest.mark.parametrize("body", [{}, {"a": None}], ids=["missing", "null"])
def test_what_is_missing_or_null_has_its_default(body):
    fields = Fields(body)

    assert (fields.text("a"), fields.text("a", "other")) == ("", "other")
    assert fields.integer("a") is None
    assert fields.flag("a") is False
    assert fields.one_of("a", Colour, Colour.BLUE) is Colour.BLUE
    assert fields.below("a").body == {}
    assert fields.problems == []


def test_the_wrong_type_is_named_with_its_path_and_has_its_default():
    top = Fields({"a": {"b": 1, "c": "yes", "d": [], "e": {}, "f": "green"}})
    fields = top.below("a")

    assert fields.text("b", "default") == "default"
    assert fields.integer("c") is None
    assert fields.flag("d") is False
    assert fields.below("b").body == {}
    assert fields.one_of("f", Colour, Colour.BLUE) is Colour.BLUE
    assert problems(top) == [
        "a.b: must be a string, is 1",
        "a.c: must be a whole number, is 'yes'",
        "a.d: must be true or false, is a list",
        "a.b: must be an object, is 1",
        "a.f: must be one of 'red', 'blue', is 'green'",
    ]


def test_true_is_no_number():
    fields = Fields({"a": True})

    assert fields.integer("a") is None
    assert problems(fields) == ["a: must be a whole number, is True"]


@pytest.mark.parametrize(("words", "raw"), WRONG.items(), ids=WRONG)
def test_whatever_it_is_is_said_in_few_words(words, raw):
    fields = Fields({"a": raw})

    fields.one_of("a", Colour, Colour.RED)

    assert problems(fields) == [f"a: must be one of 'red', 'blue', is {words}"]


def test_what_json_cannot_hold_is_something_else():
    fields = Fields({"a": object()})

    assert fields.text("a") == ""
    assert problems(fields) == ["a: must be a string, is something else"]


@pytest.mark.parametrize(
    ("value", "count", "seconds"),
    [
        *((value, 0, 0) for value in (None, 0, -1, True, "3", 2.0)),
        (1, 1, 1),
        (2**28 + 1, 2**28, 2**28 + 1),
        (2**53 + 1, 2**28, 2**53),
    ],
    ids=repr,
)
def test_a_count_that_anybody_may_have_written_is_not_negative_and_has_a_bound(value, count, seconds):
    body = {"a": value}

    assert (json_values.count_of(body, "a"), json_values.seconds_of(body, "a")) == (count, seconds)
    assert (json_values.count_of({}, "a"), json_values.seconds_of({}, "a")) == (0, 0)


@pytest.mark.parametrize(
    ("items", "objects"), [([{"a": 1}, 2, None], [{"a": 1}]), (({},), [{}]), ("x", []), (None, [])]
)
def test_of_a_list_only_the_objects_are_taken(items, objects):
    assert objects_of(items) == objects
