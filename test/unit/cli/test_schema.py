"""What the schema of the CRD says of an object."""

import pytest

from tf_operator.cli import schema

SCHEMA = {
    "type": "object",
    "required": ["spec", "settled"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "policy": {"type": "object", "properties": {"cleanUp": {"type": "string", "enum": ["All", "None"]}}},
                "count": {"type": "integer", "minimum": 0, "maximum": 9},
                "share": {"type": "number"},
                "port": {"x-kubernetes-int-or-string": True, "pattern": "^[a-z0-9]+$"},
                "names": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
                "ready": {"type": "boolean"},
                "choice": {"type": "string"},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "settled": {"type": "object", "default": {}},
    },
}


def told(findings):
    return [str(error) for error in findings.errors], [str(warning) for warning in findings.unknown]


def test_an_object_that_keeps_all_rules_is_fine():
    spec = {
        "policy": {"cleanUp": "All"},
        "count": 3,
        "share": 0.5,
        "port": 80,
        "names": ["a", "b"],
        "labels": {"x": "y"},
        "ready": True,
        "choice": None,
        "anything": {"goes": [1]},
    }

    assert told(schema.check({"spec": spec, "settled": None}, SCHEMA)) == ([], [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"policy": []}, "spec.policy: must be an object, is a list", id="no object"),
        pytest.param({"names": "a"}, "spec.names: must be a list, is 'a'", id="no list"),
        pytest.param({"names": ["a", 5]}, "spec.names[1]: must be a string, is 5", id="no string, in a list"),
        pytest.param({"count": True}, "spec.count: must be a whole number, is True", id="no number but a truth"),
        pytest.param({"share": "half"}, "spec.share: must be a number, is 'half'", id="no number"),
        pytest.param({"ready": "yes"}, "spec.ready: must be true or false, is 'yes'", id="no truth"),
        pytest.param({"port": 1.5}, "spec.port: must be a whole number or a string, is 1.5", id="neither"),
        pytest.param({"names": [None]}, "spec.names[0]: must not be null", id="null in a list"),
        pytest.param({"count": -1}, "spec.count: must be at least 0, is -1", id="too small"),
        pytest.param({"count": 10}, "spec.count: must be at most 9, is 10", id="too large"),
        pytest.param(
            {"policy": {"cleanUp": "Some"}}, "spec.policy.cleanUp: must be one of 'All', 'None', is 'Some'", id="enum"
        ),
        pytest.param({"port": "8 0"}, "spec.port: does not have the right form, is '8 0'", id="pattern"),
        pytest.param({"names": ["long"]}, "spec.names[0]: is too long: 4, and at most 3 are possible", id="too long"),
        pytest.param({"names": list("abc")}, "spec.names: is too long: 3, and at most 2 are possible", id="too many"),
        pytest.param(
            {"labels": {"a": "", "b": ""}}, "spec.labels: is too long: 2, and at most 1 are possible", id="many keys"
        ),
        pytest.param({"labels": {"a": 1}}, "spec.labels.a: must be a string, is 1", id="a value below any key"),
    ],
)
def test_a_broken_rule_is_named_with_its_field(spec, error):
    assert told(schema.check({"spec": spec}, SCHEMA)) == ([error], [])


def test_a_missing_field_is_named_unless_it_has_a_default():
    assert told(schema.check({}, SCHEMA)) == (["spec: is required"], [])
    assert told(schema.check({"spec": None}, SCHEMA)) == (["spec: is required"], [])


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        pytest.param({"cuont": 1}, "spec.cuont: unknown field; did you mean count?", id="misspelt"),
        pytest.param({"cleanUp": "All"}, "spec.cleanUp: unknown field; did you mean policy.cleanUp?", id="misplaced"),
        pytest.param({"zzz": 1}, "spec.zzz: unknown field", id="no idea"),
    ],
)
def test_an_unknown_field_is_named_with_what_was_probably_meant(spec, warning):
    assert told(schema.check({"spec": spec}, SCHEMA)) == ([], [warning])
