"""Label and field selectors: text to predicate. Errors are those of the real server, all with code 400."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.validation import names
from tf_operator.meta import Body, key_of, labels_of

Predicate = Callable[[Body], bool]

_SPECIAL: Final = "=!(),><"
_OPERATORS: Final = ("!=", "==", "=", ">", "<")
_TOKEN: Final = re.compile(r"\s*(?:(?P<special>!=|==|[=!(),><])|(?P<word>[^\s=!(),><]+))")
_END: Final = ""
_IDENTIFIER_EXPECTED: Final = "expected: identifier"


def parse_labels(text: str) -> Predicate:
    """A label selector; empty text selects everything."""
    requirements = tuple(_Labels(text).requirements())
    return lambda body: _all_match(requirements, body)


def parse_fields(text: str, kind: Kind) -> Predicate:
    """A field selector on the fields that the kind has."""
    terms = tuple(_field_terms(text, kind))
    return lambda body: all((read(body) == value) is is_equal for read, value, is_equal in terms)


def _all_match(requirements: tuple["_Requirement", ...], body: Body) -> bool:
    if not requirements:
        return True
    labels = labels_of(body)
    return all(requirement.matches(labels.get(requirement.key)) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, value: str | None) -> bool:
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Whole numbers only, as for ``>``."""
        try:
            number, limit = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return number > limit if self.operator == ">" else number < limit


@dataclass(slots=True)
class _Labels:
    """A parser of the grammar of apimachinery's ``labels.Parse``, with its messages."""

    text: str
    tokens: list[str] = field(default_factory=list)

    def requirements(self) -> Iterator[_Requirement]:
        self.tokens = [match["special"] or match["word"] for match in _TOKEN.finditer(self.text)]
        while (first := self._peek()) != _END:
            if not _is_word(first) and first != "!":
                raise _bad(f"found '{first}', expected: !, identifier, or 'end of string'")
            try:
                yield self._requirement()
            except _SyntaxProblem as problem:
                raise _bad(f"unable to parse requirement: {problem}") from None
            if (after := self._take()) == _END:
                return
            if after != ",":
                raise _bad(f"found '{after}', expected: ',' or 'end of string'")
            if not _is_word(self._peek()) and self._peek() != "!":
                raise _bad(f"found '{self._peek()}', expected: identifier after ','")

    def _peek(self) -> str:
        return self.tokens[0] if self.tokens else _END

    def _take(self) -> str:
        return self.tokens.pop(0) if self.tokens else _END

    def _requirement(self) -> _Requirement:
        key = self._take()
        is_absent = key == "!"
        if is_absent:
            key = self._take()
        if not _is_word(key):
            raise _SyntaxProblem(f"found '{key}', {_IDENTIFIER_EXPECTED}")
        if problems := list(names.qualified(key)):
            raise _SyntaxProblem(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if is_absent or self._peek() in (_END, ","):
            return _Requirement(key, "!" if is_absent else "exists")
        operator = self._take()
        if operator not in (*_OPERATORS, "in", "notin"):
            raise _SyntaxProblem(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else [self._exact_value()]
        _check_values(key, operator, sorted(set(values)))
        return _Requirement(key, operator, frozenset(values))

    def _exact_value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        if not _is_word(value := self._take()):
            raise _SyntaxProblem(f"found '{value}', {_IDENTIFIER_EXPECTED}")
        return value

    def _values(self) -> list[str]:
        if (opening := self._take()) != "(":
            raise _SyntaxProblem(f"found '{opening}' expected: '('")
        if not _is_word(first := self._peek()) and first not in (",", ")"):
            raise _SyntaxProblem(f"found '{first}', expected: ',', ')' or identifier")
        values = [""]
        while (word := self._take()) != ")":
            if word == ",":
                values.append("")
            elif _is_word(word) and not values[-1]:
                values[-1] = word
                if self._peek() not in (",", ")"):
                    raise _SyntaxProblem(f"found '{self._peek()}', expected: ',' or ')'")
            else:
                raise _SyntaxProblem(f"found '{word}', expected: ',', or identifier")
        return values


class _SyntaxProblem(Exception):
    """Inside of one requirement."""


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in _SPECIAL


def _check_values(key: str, operator: str, values: list[str]) -> None:
    if operator in "><":
        if not values[0].lstrip("+-").isdecimal():
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _SyntaxProblem(f'values[0]: Invalid value: "{values[0]}": {rule}')
        return
    problems = [
        f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(wrong)}'
        for index, value in enumerate(values)
        if (wrong := list(names.label_value(value)))
    ]
    if problems:
        raise _SyntaxProblem(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _bad(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def _field_terms(text: str, kind: Kind) -> Iterator[tuple[Callable[[Body], str], str, bool]]:
    """Each field as a function, the value, and whether it has to be equal."""
    for term in sorted(re.findall(r"(?:\\.|[^,\\]|\\$)+", text)):
        match = re.fullmatch(r"(?P<path>(?:[^=!]|!(?!=))*)(?P<operator>!=|==|=)(?P<value>.*)", term, re.DOTALL)
        if match is None:
            raise _bad(f"invalid selector: '{text}'; can't understand '{term}'")
        yield _field(match["path"], kind), _unescaped(match["value"]), match["operator"] != "!="


def _unescaped(value: str) -> str:
    for match in re.finditer(r"\\(?P<after>.?)|(?P<bare>=)", value, re.DOTALL):
        if match["bare"]:
            raise _bad(f"invalid field selector: unescaped character in value: {ord(match['bare'])}")
        if match["after"] not in ("\\", ",", "="):
            raise _bad(f"invalid field selector: invalid escape sequence: {match[0]}")
    return re.sub(r"\\(.)", r"\1", value)


def _field(path: str, kind: Kind) -> Callable[[Body], str]:
    if path == "metadata.name":
        return lambda body: key_of(body).name
    if path == "metadata.namespace" and kind.resource.is_namespaced:
        return lambda body: key_of(body).namespace
    if path in kind.fields:
        return kind.fields[path]
    if kind.fields or not kind.merge_keys:  # a custom resource, or one with fields of its own
        raise _bad(f"field label not supported: {path}")
    raise _bad(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
