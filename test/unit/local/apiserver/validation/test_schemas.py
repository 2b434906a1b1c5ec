"""Structural schemas: pruning, defaults, validation, in the words of the real server."""

import copy
from typing import Any

import pytest

from tf_operator.local.apiserver.validation import schema_causes, schemas

TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9, "default": 1},
                "long": {"type": "integer"},
                "share": {"type": "number", "maximum": 1, "exclusiveMaximum": True, "multipleOf": 0.25},
                "port": {"x-kubernetes-int-or-string": True, "pattern": "^[a-z0-9]+$"},
                "money": {"type": "string", "pattern": r"^[0-9][$]$"},
                "policy": {"type": "string", "enum": ["b", "a"]},
                "name": {"type": "string", "minLength": 1, "maxLength": 3},
                "when": {"type": "string", "format": "date-time"},
                "maybe": {"type": "string", "nullable": True},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT, "maxItems": 2, "minItems": 1},
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "kind"],
                    "items": {"type": "object", "properties": {"name": TEXT, "kind": TEXT | {"default": "k"}}},
                },
                "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 1, "minProperties": 1},
                "any": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
                "open": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"inner": {"type": "object", "properties": {"a": TEXT}}},
                },
                "closed": {"type": "object"},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "ready": {"type": "boolean"},
                "one": {"type": "integer", "oneOf": [{"minimum": 0}, {"maximum": 9}]},
            },
        },
    },
}  # fmt: skip
FRAME = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("spec", "rest", "removed"),
    [
        ({"x": 1, "name": "a"}, {"name": "a"}, ["spec.x"]),
        ({"open": {"x": 1, "inner": {"b": 1}}}, {"open": {"x": 1, "inner": {}}}, ["spec.open.inner.b"]),
        ({"closed": {"x": 1}}, {"closed": {}}, ["spec.closed.x"]),
        ({"any": {"k": {"a": "", "b": 1}}}, {"any": {"k": {"a": ""}}}, ["spec.any.k.b"]),
        ({"list": [{"name": "a", "x": 1}]}, {"list": [{"name": "a"}]}, ["spec.list[0].x"]),
        ({"pod": {"kind": "Pod", "metadata": {"name": "", "y": 1}, "x": 1}},
         {"pod": {"kind": "Pod", "metadata": {"name": ""}}}, ["spec.pod.metadata.y", "spec.pod.x"]),
        ({"count": 3.0, "share": 0.5}, {"count": 3, "share": 0.5}, []),
    ],
)  # fmt: skip
def test_what_the_schema_does_not_know_is_removed(spec: Any, rest: Any, removed: list[str]) -> None:
    body = copy.deepcopy({**FRAME, "spec": spec})
    assert list(schemas.prune(body, SCHEMA)) == removed
    assert body == {**FRAME, "spec": rest}


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, {"count": 1}),
        ({"count": None, "name": None, "maybe": None}, {"count": 1, "maybe": None}),
        ({"labels": {"a": None, "b": ""}}, {"count": 1, "labels": {"b": ""}}),
        ({"list": [{"name": "a"}]}, {"count": 1, "list": [{"name": "a", "kind": "k"}]}),
        ({"set": [None]}, {"count": 1, "set": [None]}),
    ],
)
def test_defaults_stand_for_what_is_missing_or_null(spec: Any, filled: Any) -> None:
    body = {"spec": copy.deepcopy(spec)}
    schemas.fill(body, SCHEMA)
    assert body == {"spec": filled}


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"count": "2"}, ['spec.count: Invalid value: "string": spec.count in body must be of type integer: "string"']),
        ({"count": 1.5}, [
            'spec.count: Invalid value: "float64": spec.count in body must be of type int32: "float64"',
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.count']),
        ({"long": 2**63}, [
            'spec.long: Invalid value: "number": spec.long in body must be of type integer: "number"',
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.long']),
        ({"count": -1}, ["spec.count: Invalid value: -1: spec.count in body should be greater than or equal to 0"]),
        ({"count": 2**31}, [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.count',
            "spec.count: Invalid value: 2147483648: spec.count in body should be less than or equal to 9"]),
        ({"share": 1}, ["spec.share: Invalid value: 1: spec.share in body should be less than 1"]),
        ({"share": 0.3}, ["spec.share: Invalid value: 0.3: spec.share in body should be a multiple of 0.25"]),
        ({"port": "a!"}, ["spec.port: Invalid value: \"a!\": spec.port in body should match '^[a-z0-9]+$'"]),
        ({"port": "a\n"}, ["spec.port: Invalid value: \"a\\n\": spec.port in body should match '^[a-z0-9]+$'"]),
        ({"money": "5$"}, []),
        ({"port": True}, [
            'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"']),
        ({"policy": "c"}, ['spec.policy: Unsupported value: "c": supported values: "b", "a"']),
        ({"name": ""}, ['spec.name: Invalid value: "": spec.name in body should be at least 1 chars long']),
        ({"name": "abcd"}, ["spec.name: Too long: may not be more than 3 bytes"]),
        ({"when": "today"}, [
            'spec.when: Invalid value: "today": spec.when in body must be of type date-time: "today"']),
        ({"set": ["a", "b", "a"]}, [
            "spec.set: Too many: 3: must have at most 2 items", 'spec.set[2]: Duplicate value: "a"']),
        ({"set": []}, ["spec.set: Invalid value: 0: spec.set in body should have at least 1 items"]),
        ({"set": [None]}, ['spec.set[0]: Invalid value: "null": spec.set[0] in body must be of type string: "null"']),
        ({"list": [{"name": "a"}, {"name": "a", "kind": "k"}]}, [
            'spec.list[1]: Duplicate value: {"name":"a","kind":"k"}']),
        ({"labels": {"a": "", "b": ""}}, ["spec.labels: Too many: 2: must have at most 1 item"]),
        ({"labels": {}}, ["spec.labels: Invalid value: 0: spec.labels in body should have at least 1 properties"]),
        ({"either": 1.5}, [
            '<nil>: Invalid value: "": "spec.either" must validate at least one schema (anyOf)',
            'spec.either: Invalid value: "number": spec.either in body must be of type string: "number"']),
        ({"one": 1}, [
            ('<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid'
            " alternatives")]),
        ({"pod": {"kind": "Pod"}}, ["spec.pod.apiVersion: Required value"]),
        ({"ready": 1}, ['spec.ready: Invalid value: "integer": spec.ready in body must be of type boolean: "integer"']),
        ({"maybe": None}, []),
    ],
)  # fmt: skip
def test_an_object_that_breaks_its_schema_is_refused_in_the_real_words(spec: Any, causes: list[str]) -> None:
    body = {"spec": spec}
    violations = (*schemas.violations(body, SCHEMA), *schemas.repeated(body, SCHEMA))
    assert [str(schema_causes.cause(violation)) for violation in violations] == causes


def test_what_is_required_and_missing_is_refused() -> None:
    assert [str(schema_causes.cause(error)) for error in schemas.violations({}, SCHEMA)] == ["spec: Required value"]


@pytest.mark.parametrize(
    ("new", "paths"),
    [
        ({"count": 99, "name": "a"}, []),
        ({"count": 98}, ["spec.count"]),
        ({"count": 99, "list": [{"name": "b"}, {"name": 5}]}, []),
        ({"count": 99, "list": [{"name": 6}]}, ["spec.list[0].name"]),
    ],
)
def test_what_an_update_leaves_as_it_was_is_not_checked(new: Any, paths: list[str]) -> None:
    old = {"spec": {"count": 99, "list": [{"name": 5}]}}
    assert [error.path for error in schemas.violations({"spec": new}, SCHEMA, old=old)] == paths


@pytest.mark.parametrize(
    ("items", "duplicates"),
    [([1, True, "1", 1], ["[3]"]), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}], ["[1]"]), ([[1], [1], 1], ["[1]"])],
)
def test_items_of_a_set_are_equal_as_their_json_is(items: list[Any], duplicates: list[str]) -> None:
    assert [error.path for error in schemas.repeated(items, {"x-kubernetes-list-type": "set"})] == duplicates


def test_each_item_is_read_once_to_find_what_was_stored_in_its_place() -> None:
    class Item(dict[str, Any]):
        reads = 0

        def get(self, key: str, default: object = None) -> object:
            Item.reads += 1
            return super().get(key, default)

    stored, sent = ([Item(name=number, value=value) for number in range(99)] for value in (1, 2))
    pairs = list(schemas.correlated_items(sent[::-1], stored, {"x-kubernetes-list-map-keys": ["name"]}))
    assert pairs == list(zip(sent[::-1], stored[::-1], strict=True))
    assert Item.reads == len(stored) + len(sent)
