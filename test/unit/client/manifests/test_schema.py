"""The schema of the CRD, evaluated as the API server does."""

import pytest

from tf_operator.client.manifests import schema

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
                "ports": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "port": {"format": "int32"}},
                    },
                    "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-list-type": "map",
                },
                "open": {
                    "type": "object",
                    "properties": {"known": {"type": "string"}},
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "settled": {"type": "object", "default": {}},
    },
}


def reported(spec):
    findings = schema.check(schema.without_nulls({"spec": spec, "settled": None}, SCHEMA), SCHEMA)
    return [str(error) for error in findings.errors], [str(warning) for warning in findings.warnings]


def test_a_valid_object_has_no_errors():
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

    assert reported(spec) == ([], [])


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"policy": []}, "spec.policy: must be an object, is a list", id="no object"),
        pytest.param({"names": "a"}, "spec.names: must be a list, is 'a'", id="no list"),
        pytest.param({"names": ["a", 5]}, "spec.names[1]: must be a string, is 5", id="no string, in a list"),
        pytest.param({"count": True}, "spec.count: must be a whole number, is True", id="no number but a boolean"),
        pytest.param({"share": "half"}, "spec.share: must be a number, is 'half'", id="no number"),
        pytest.param({"ready": "yes"}, "spec.ready: must be true or false, is 'yes'", id="no boolean"),
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
        pytest.param({"port": "80\n"}, "spec.port: does not have the right form, is '80\\n'", id="a last line end"),
        pytest.param(
            {"ports": [{"port": 2**31}]}, "spec.ports[0].port: must fit into 32 bits, is 2147483648", id="bits"
        ),
        pytest.param(
            {"ports": [{"name": "a"}, {"name": "a"}]}, "spec.ports[1]: name 'a' is there twice", id="a key twice"
        ),
        pytest.param({"labels": {"a": 1}}, "spec.labels.a: must be a string, is 1", id="a value below any key"),
    ],
)
def test_an_error_has_field_and_rule(spec, error):
    assert reported(spec) == ([error], [])


def test_a_missing_field_is_an_error_unless_it_has_a_default():
    assert reported(None) == (["spec: is required"], [])


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        pytest.param("cuont", "; did you mean count?", id="misspelt"),
        pytest.param("cleanUp", "; did you mean policy.cleanUp?", id="misplaced"),
        pytest.param("zzz", "", id="unlike any other"),
    ],
)
def test_an_unknown_field_is_an_error_with_a_hint(field, hint):
    assert reported({field: 1}) == ([f"spec.{field}: unknown field{hint}"], [])


def test_an_unknown_field_of_an_open_object_is_a_warning_and_may_be_null():
    assert reported({"open": {"konwn": None}}) == ([], ["spec.open.konwn: unknown field; did you mean known?"])


def test_a_null_is_left_out_wherever_the_schema_knows_the_field():
    body = {"spec": {"count": None, "labels": {"a": None, "b": "c"}, "names": [None], "open": {"new": None}}}

    assert schema.without_nulls(body, SCHEMA) == {
        "spec": {"labels": {"b": "c"}, "names": [None], "open": {"new": None}}
    }
