"""Patterns: the dialect of Go, and what needs no engine."""

import sys
from collections.abc import Iterator

import msgspec
import pytest

from tf_operator.dialects import registry
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.validation import patterns

TEXTS = (
    "",
    "1",
    "ps",
    "worker",
    "toolongname",
    "ps\n",
    "1.5",
    "1.",
    ".5",
    ".",
    "-2Gi",
    "+3e-4",
    "1e",
    "1.2.3",
    "9" * 9999 + "!",
)


@pytest.fixture
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    patterns._expression.cache_clear()
    yield
    patterns._expression.cache_clear()


def _patterns_of(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from [schema["pattern"]] if isinstance(schema.get("pattern"), str) else ()
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _patterns_of(part)


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("b", "abc", True),
        ("^b$", "b\n", False),
        (r"a\z", "ba", True),
        (r"^\pL+$", "é", True),
        ("^[[:alpha:]]+$", "alpha", True),
        ("^[[:alpha:]]+$", "a1", False),
        (r"^\d$", "५", False),
        ("(?i)^A", "a", True),
        ("^(a+)+$", "a" * 10_000 + "!", False),
        ("(x+x+)+y", "x" * 10_000, False),
        ("(", "(", False),
    ],
)
def test_a_pattern_is_read_as_go_reads_it(pattern: str, text: str, is_found: bool) -> None:
    assert patterns.matches(pattern, text) is is_found


def test_patterns_of_our_own_definitions_need_no_engine_and_mean_the_same() -> None:
    for api in (*registry.SERVED, *registry.ON_REQUEST):
        definition = msgspec.json.decode(msgspec.json.encode(api.crd.load(*api.conversion.versions)))
        assert set(_patterns_of(definition)) <= patterns._OWN.keys()
    for pattern in patterns._OWN:
        assert [patterns.matches(pattern, text) for text in TEXTS] == [patterns._searched(pattern, t) for t in TEXTS]


@pytest.mark.usefixtures("_no_engine")
def test_without_the_engine_other_patterns_are_not_checked() -> None:
    assert [patterns.matches(pattern, "1") for pattern in patterns._OWN] == [True, True, True]
    assert patterns.problem("(") == ""
    with pytest.raises(
        ApiFailure, match=r"patterns of this kind cannot be checked: .* cel-expr-python is not installed"
    ):
        patterns.matches("a", "a")
