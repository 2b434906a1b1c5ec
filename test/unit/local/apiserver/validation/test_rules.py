"""Rules in CEL: evaluation, messages, transitions, and what happens without the engine."""

import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tf_operator.dialects import registry
from tf_operator.dialects.kubeflow import hub
from tf_operator.dialects.served import ServedAPI
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.validation import rules
from tf_operator.local.apiserver.validation.rules import Rules


def _schema(**rule: object) -> dict[str, Any]:
    return {"properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"message": "m"} | rule]}}}


def _causes(schema: dict[str, Any], new: object, old: object = None) -> list[str]:
    stored = None if old is None else {"spec": old}
    return [str(cause) for cause in Rules(schema).check({"spec": new}, stored)]


@pytest.mark.parametrize(
    ("rule", "spec", "causes"),
    [
        ({"rule": "self.a == 1"}, {"a": 1}, []),
        ({"rule": "self.a == 1"}, {"a": 2}, ["spec: Invalid value: m"]),
        ({"rule": "self.a == 1", "message": ""}, {"a": 2}, ["spec: Invalid value: failed rule: self.a == 1"]),
        ({"rule": "false", "fieldPath": ".a.b", "reason": "FieldValueRequired"}, {}, ["spec.a.b: Required value: m"]),
        ({"rule": "false", "reason": "FieldValueForbidden"}, {}, ["spec: Forbidden: m"]),
        ({"rule": "false", "messageExpression": "'has ' + string(self.a)"}, {"a": 2}, ["spec: Invalid value: has 2"]),
        ({"rule": "false", "messageExpression": "self.b"}, {}, ["spec: Invalid value: m"]),
        ({"rule": "self.?a.orValue('B').lowerAscii() == 'b'"}, {}, []),
        ({"rule": "self.l.map(x, x.n).sum() <= 3"}, {"l": [{"n": 1}, {"n": 3}]}, ["spec: Invalid value: m"]),
        ({"rule": "quantity(self.q).compareTo(quantity('1024Mi')) == 0 && isQuantity(self.q)"}, {"q": "1Gi"}, []),
        ({"rule": "quantity(self.q).isLessThan(quantity('2G')) && !isQuantity('x')"}, {"q": "1Gi"}, []),
        ({"rule": "quantity(self.q).isGreaterThan(quantity('2G'))"}, {"q": "1Gi"}, ["spec: Invalid value: m"]),
        ({"rule": "self.l.isSorted() && self.l.min() == 1 && self.l.max() == 2"}, {"l": [1, 2]}, []),
    ],
)
def test_a_rule_refuses_what_it_is_false_for(rule: dict[str, str], spec: object, causes: list[str]) -> None:
    assert _causes(_schema(**rule), spec) == causes


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.x == 1", 'spec: Invalid value: "object": no such key: x evaluating rule: m'),
        ("self.a > 'b'", "call arguments did not match a supported operator, function or macro signature for rule: m"),
        ("self.a / 0 == 1", "division by zero evaluating rule: m"),
        ("self.", "rule compile error"),
        ("quantity(self.q) > 1", "rule compile error"),
        ("quantity(self.q).compareTo(quantity('1')) == 0", "quantities must match the regular expression"),
        ("1", "evaluating rule: m"),
        ("cel.bind(x, self.a, true)", "rule compile error"),  # kube-apiserver does not have it either
        ("self.l.all(x, self.l.all(y, x + y >= 0))", "actual cost limit exceeded evaluating rule: m"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_refuses(rule: str, text: str) -> None:
    (cause,) = _causes(_schema(rule=rule), {"a": 1, "l": list(range(200)), "q": "much"})
    assert text in cause


def test_the_rules_of_an_object_that_take_too_long_end() -> None:
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 0"}]}
    seconds = count()  # of CPU: each rule takes one
    causes = Rules({"type": "array", "items": items}, cpu=lambda: next(seconds)).check([0] * 10**6, None)  # type: ignore[arg-type]
    assert [(cause.field, "cost budget" in cause.message) for cause in causes] == [
        ("[0]", False),
        ("[1]", False),
        ("[2]", True),
    ]


@pytest.mark.parametrize(
    ("rule", "old", "is_refused"),
    [
        ({"rule": "self == oldSelf"}, None, False),
        ({"rule": "self == oldSelf"}, {"a": 1}, True),
        ({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}, None, True),
        ({"rule": "oldSelf.hasValue() && oldSelf.value().a == 1", "optionalOldSelf": True}, {"a": 1}, False),
        ({"rule": "self.a == 1"}, {"a": 2}, False),
    ],
)
def test_a_transition_rule_compares_with_what_is_stored(rule: dict[str, Any], old: object, is_refused: bool) -> None:
    """The last one is no such rule: what has not changed is not refused."""
    assert bool(_causes(_schema(**rule), {"a": 2}, old)) is is_refused


@pytest.mark.parametrize(
    ("form", "value", "rule"),
    [
        ("date-time", "2020-01-01T01:00:00.5+01:00", "self > timestamp('2020-01-01T00:00:00Z')"),
        ("date", "2020-01-01", "self == timestamp('2020-01-01T00:00:00Z')"),
        ("duration", "-1h30.5m", "self == duration('-5430s')"),
        ("duration", "0", "self == duration('0s')"),
        ("duration", "a while", "self == 'a while'"),
        ("byte", "YWJj", "self == b'abc'"),
        ("byte", "*", "self == '*'"),
        ("other", "YWJj", "self == 'YWJj'"),
    ],
)
def test_a_rule_sees_a_text_with_a_format_as_what_it_is(form: str, value: str, rule: str) -> None:
    schema = {"type": "string", "format": form, "x-kubernetes-validations": [{"rule": rule}]}
    assert list(Rules(schema).check(value, None)) == []  # type: ignore[arg-type]


def test_names_that_cel_cannot_have_are_escaped() -> None:
    names = ("a-b", "c.d", "namespace", "e__f", "g/h")
    rule = "self.a__dash__b + self.c__dot__d + self.__namespace__ + self.e__underscores__f + self.g__slash__h == 15"
    schema = {"properties": {name: {"type": "integer"} for name in names}, "x-kubernetes-validations": [{"rule": rule}]}
    assert list(Rules(schema).check(dict(zip(names, range(1, 6), strict=True)), None)) == []
    free = {"additionalProperties": {}, "x-kubernetes-validations": [{"rule": "self['a-b'] == 1"}]}
    assert list(Rules(free).check({"a-b": 1}, None)) == []


@pytest.mark.parametrize("api", [*registry.SERVED, hub.API], ids=lambda api: str(api.resource))
def test_each_rule_of_this_project_can_be_compiled(api: ServedAPI) -> None:
    for version in api.crd.load(*api.conversion.versions)["spec"]["versions"]:
        for rule in _all_rules(version["schema"]["openAPIV3Schema"]):
            for text in (rule["rule"], rule.get("messageExpression", "''")):
                assert rules._compiled(text, is_optional=rule.get("optionalOldSelf", False))[1] == "", text


def _all_rules(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield from schema.get("x-kubernetes-validations", ())
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _all_rules(part)


def test_rules_inside_of_maps_and_lists_name_their_place() -> None:
    item = {"type": "object", "x-kubernetes-validations": [{"rule": "self.n > 0", "message": "m"}]}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-map-keys": ["k"]}
    schema = {"properties": {"map": {"additionalProperties": keyed}}}
    body = {"map": {"x": [{"k": 1, "n": 1}, {"k": 2, "n": 0}]}}
    assert [cause.field for cause in Rules(schema).check(body, None)] == ["map[x][1]"]
    assert list(Rules(schema).check({"map": {"x": [{"k": 2, "n": 0}]}}, body)) == []


def test_without_the_engine_nothing_is_accepted_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    rules._environment.cache_clear()
    with pytest.raises(ApiFailure, match="cel-expr-python is not installed"):
        _causes(_schema(rule="true"), {})
    assert _causes({"properties": {"spec": {"type": "object"}}}, {}) == []
