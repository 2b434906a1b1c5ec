"""What of a value a schema allows, and what is said of the rest."""

import msgspec
import pytest

from tf_operator.dialects.schema_fit import Misfit, fit

WHOLE = {"type": "integer", "format": "int32"}
QUANTITY = {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}
NAMED = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "maxLength": 3}, "port": QUANTITY},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "count": WHOLE | {"minimum": 0, "maximum": 9},
        "small": WHOLE,
        "large": {"type": "integer", "format": "int64"},
        "policy": {"type": "string", "enum": ["All", "None"]},
        "since": {"type": "string", "format": "date-time"},
        "is": {"type": "boolean"},
        "limits": {"type": "object", "maxProperties": 2, "additionalProperties": QUANTITY},
        "items": {"type": "array", "maxItems": 2, "items": NAMED, "x-kubernetes-list-map-keys": ["name"]},
        "free": {"type": "array", "items": {"type": "string"}},
        "needs": {
            "type": "object",
            "required": ["text", "list", "is", "one", "most", "port", "below"],
            "properties": {
                "text": {"type": "string"},
                "list": {"type": "array", "items": WHOLE},
                "is": {"type": "boolean"},
                "one": {"type": "string", "enum": ["a", "b"]},
                "most": WHOLE | {"minimum": 1},
                "port": QUANTITY,
                "below": NAMED,
            },
        },
    },
}
NEEDED = {"text": "", "list": [], "is": False, "one": "a", "most": 1, "port": 0, "below": {"name": ""}}


@pytest.mark.parametrize(
    "body",
    [
        {
            "count": 9,
            "small": 2**31 - 1,
            "large": -(2**63),
            "policy": "All",
            "since": "2026-01-01T00:00:00Z",
            "is": True,
            "unknown": {"a": 1},
        },
        {"limits": {"a": "12", "b": 5}, "items": [{"name": "a"}, {"name": "b", "more": 1}], "free": ["x", "x"]},
        {"needs": NEEDED, "count": None, "items": None},
    ],
)
def test_what_fits_stays_as_it_is(body):
    assert fit(body, SCHEMA) == (body, [])


def test_a_whole_number_with_a_fraction_is_written_without():
    body, misfits = fit({"count": 2.0}, SCHEMA)
    assert (repr(body), misfits) == ("{'count': 2}", [])


@pytest.mark.parametrize(
    ("name", "value", "rest", "complaint"),
    [
        ("count", "x", None, "must be a whole number, is 'x'"),
        ("count", True, None, "must be a whole number, is True"),
        ("count", 10, None, "must be from 0 to 9, is 10"),
        ("count", 1.5, None, "must be a whole number, is 1.5"),
        ("small", 2**31, None, "must be from -2147483648 to 2147483647, is 2147483648"),
        ("small", -(2**31) - 1, None, "must be from -2147483648 to 2147483647, is -2147483649"),
        ("large", -(2**63) - 1, None, "must be a whole number, is -9223372036854775809"),
        ("large", 2**63, None, "must be a whole number, is 9223372036854775808"),
        ("large", float(2**53), None, "must be a whole number, is 9007199254740992.0"),
        ("policy", "Some", None, "must be one of 'All', 'None', is 'Some'"),
        ("since", "now", None, "must be a time as in RFC 3339, is 'now'"),
        ("is", "yes", None, "must be true or false, is 'yes'"),
        ("limits", [], None, "must be an object, is a list"),
        ("limits.a", {"a": "x", "b": 1}, {"b": 1}, "must match ^[0-9]+$, is 'x'"),
        ("limits.a", {"a": "1\n", "b": 1}, {"b": 1}, "must match ^[0-9]+$, is '1\\n'"),
        ("limits.a", {"a": []}, {}, "must be a whole number or a string, is a list"),
        ("limits.c", {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1}, "is beyond the most, which is 2"),
        ("items[0].name", [{"name": "four"}], [{"name": ""}], "must have at most 3 characters, has 4"),
        ("items[1]", [{"name": "a"}, {"name": "a", "port": 1}], [{"name": "a"}], "has the name of an earlier item"),
        ("items[1]", [{"name": "a"}, 5], [{"name": "a"}], "must be an object, is 5"),
        (
            "items[2]",
            [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            [{"name": "a"}, {"name": "b"}],
            "is beyond the most, which is 2",
        ),
        ("is", msgspec.Raw(b"[[[]]]"), None, "has too many levels"),
        ("free[0]", [None, "x"], ["x"], "must be a string, is something else"),
    ],
)
def test_what_does_not_fit_is_left_out_and_named(name, value, rest, complaint):
    field = name.partition(".")[0].partition("[")[0]
    body, (misfit,) = fit({field: value}, SCHEMA)
    assert body == ({} if rest is None else {field: rest})
    assert (misfit.field, misfit.rule) == (name, complaint)
    assert misfit.value is not None or value[0] is None


def test_the_least_of_what_is_needed_is_filled_in():
    body, misfits = fit({"needs": {}}, SCHEMA)
    assert body == {"needs": NEEDED}
    assert misfits == [Misfit(f"needs.{name}", "is required") for name in NEEDED]
