"""Label and field selectors."""

import pytest

from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.requests import selectors
from tf_operator.meta import GroupVersionResource

OBJECT = {"metadata": {"name": "p", "namespace": "n", "labels": {"app": "a", "n": "5", "x/y": ""}}}
PODS = Kind(
    GroupVersionResource("", "v1", "pods", "Pod"),
    "pod",
    fields={"spec.nodeName": lambda _: "k,1"},
    merge_keys={"metadata.finalizers": ""},
)
CONFIG_MAPS = Kind(GroupVersionResource("", "v1", "configmaps", "ConfigMap"), "configmap", merge_keys=PODS.merge_keys)
_NUMBER_RULE = "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CUSTOM = Kind(GroupVersionResource("g", "v1", "things", "Thing", is_namespaced=False), "thing")
_KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!b", True),
        ("app=a,n=5", True),
        (" app == a ", True),
        ("app!=a", False),
        ("b!=a", True),
        ("app in (b, a)", True),
        ("app in ()", False),
        ("x/y in (,b)", True),
        ("app notin (b,a)", False),
        ("b notin (a)", True),
        ("n>4", True),
        ("n<5", False),
        ("app>1", False),
        ("x/y=", True),
        ("in in (in)", False),
    ],
)
def test_a_label_selector_selects_as_the_real_server_does(text: str, matches: bool) -> None:
    assert selectors.parse_labels(text)(OBJECT) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
        ("! ,", "unable to parse requirement: found ',', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {_KEY_RULE}'),
        ("a>b", f"unable to parse requirement: {_NUMBER_RULE}"),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {_VALUE_RULE}'),
    ],
)
def test_a_bad_label_selector_is_refused_with_the_real_message(text: str, message: str) -> None:
    with pytest.raises(ApiFailure) as failure:
        selectors.parse_labels(text)
    assert (failure.value.code, failure.value.reason, str(failure.value)) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=p,metadata.namespace==n", True),
        ("metadata.name!=p", False),
        (r"spec.nodeName=k\,1", True),
        ("spec.nodeName=", False),
    ],
)
def test_a_field_selector_compares_fields_of_the_kind(text: str, matches: bool) -> None:
    assert selectors.parse_fields(text, PODS)(OBJECT) is matches


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (PODS, "spec.x=1", "field label not supported: spec.x"),
        (CUSTOM, "metadata.namespace=1", "field label not supported: metadata.namespace"),
        (CONFIG_MAPS, "x=1", '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (PODS, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (PODS, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (PODS, r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
    ],
)
def test_a_bad_field_selector_is_refused_with_the_real_message(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ApiFailure) as failure:
        selectors.parse_fields(text, kind)
    assert (failure.value.code, str(failure.value)) == (400, message)
