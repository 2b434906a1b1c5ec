"""``x-kubernetes-validations``: the rules of a CRD in CEL, evaluated by Google's C++ engine (cel-expr-python).

The package is imported, and a rule compiled, when an object is checked for the first time: neither may cost start-up
time. Without the package nothing is accepted unchecked: the request fails, and says what to install.

Rules see values as their schema says: a ``date-time`` is a timestamp. But in a rule with ``optionalOldSelf`` the old
value is JSON without a schema, as in kube-apiserver. A rule with a function of Kubernetes' own libraries that is not
here (``url``, ``ip`` ...) cannot be compiled and refuses objects.
"""

import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

from tf_operator import quantity
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes, engine
from tf_operator.local.apiserver.validation.schemas import (
    MISSING,
    Schema,
    below,
    correlated,
    correlated_items,
    property_of,
)
from tf_operator.meta import parse_time

_OPTIONAL: Final = "[__exists ? optional.of(__old) : optional.none()].map(oldSelf, (\n{}\n))[0]"
_CPU_SECONDS: Final = 2.0
"""For all rules of one object. One rule is bounded by the engine, which ends after 10,000 steps through lists."""
_NO_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_NANOSECONDS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9} | {
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:{_PART.pattern})+|[+-]?0")
"""As Go writes durations."""
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_KEYWORDS: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"}
    | {"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)


class _CostError(Exception):
    """The rules of an object take too long: path, value and message of the cause."""


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    is_transition: bool
    """Needs an old value: it is not evaluated without one."""
    is_optional: bool
    """Sees the old value as an optional."""
    expression: Any
    problem: str
    """Why it could not be compiled."""
    message: str
    message_expression: Any
    field: str
    reason: str


class Rules:
    """The rules of one schema, at any depth."""

    def __init__(self, schema: Schema, *, cpu: Callable[[], float] = time.thread_time) -> None:
        self._schema = schema
        self._cpu = cpu
        self._has_rules: dict[int, bool] = {}
        self._compiled: dict[int, tuple[_Rule, ...]] = {}
        self._seconds = 0.0
        """CPU that the rules of this object have taken: not what it takes to import the engine and to compile."""

    @property
    def exist(self) -> bool:
        return self._is_ruled(self._schema)

    def check(self, body: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldCause]:
        """What is wrong with a body that keeps the schema; raises ``ApiFailure`` without the engine."""
        self._seconds = 0.0
        try:
            yield from self._walk(body, MISSING if old is None else old, self._schema, path="")
        except _CostError as error:
            yield causes.invalid(*error.args)

    def _is_ruled(self, schema: Schema) -> bool:
        is_ruled = self._has_rules.get(id(schema))
        if is_ruled is None:
            below_it = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
            is_ruled = bool(schema.get("x-kubernetes-validations")) or any(
                self._is_ruled(part) for part in below_it if isinstance(part, Mapping)
            )
            self._has_rules[id(schema)] = is_ruled
        return is_ruled

    def _walk(self, value: Any, old: Any, schema: Schema, *, path: str) -> Iterator[FieldCause]:  # noqa: ANN401 - JSON
        if value is None or not self._is_ruled(schema):
            return
        yield from self._evaluate(value, old, schema, path)
        if isinstance(value, Mapping):
            properties = schema.get("properties", {})
            for name, item in value.items():
                if (property_schema := property_of(schema, name)) is not None:
                    place = below(path, name) if name in properties else f"{path}[{name}]"
                    yield from self._walk(item, correlated(old, name), property_schema, path=place)
        elif isinstance(value, list):
            items = schema.get("items", {})
            for index, (item, old_item) in enumerate(correlated_items(value, old, schema)):
                yield from self._walk(item, old_item, items, path=f"{path}[{index}]")

    def _evaluate(self, value: object, old: object, schema: Schema, path: str) -> Iterator[FieldCause]:
        texts: Sequence[Mapping[str, Any]] = schema.get("x-kubernetes-validations", ())
        if not texts:
            return
        if id(schema) not in self._compiled:
            self._compiled[id(schema)] = tuple(map(_compile, texts))
        is_new, is_same = old is MISSING, value == old
        # What has not changed is not refused now.
        rules = [
            rule
            for rule in self._compiled[id(schema)]
            if (not is_new if rule.is_transition else rule.is_optional or not is_same)
        ]
        if not rules:
            return
        data = {
            "self": _visible(value, schema),
            "oldSelf": None if is_new else _visible(old, schema),
            "__old": None if is_new else old,
            "__exists": not is_new,
        }
        # Made once for all rules: values are converted for the engine as the first rule asks for them.
        activation = _environment().Activation(data)
        # The CPU is read once for each rule: that is a system call, which takes longer than many a rule.
        now = self._cpu()
        for rule in rules:
            holds, problem = _evaluated(rule, activation)
            began, now = now, self._cpu()
            self._seconds += now - began
            if self._seconds > _CPU_SECONDS:
                raise _CostError(path or "<nil>", schema.get("type", "object"), _NO_BUDGET)
            if problem:
                yield causes.invalid(path or "<nil>", schema.get("type", "object"), problem)
            elif not holds:
                yield _cause(rule, path, _message(rule, activation))


def _visible(value: Any, schema: Schema) -> Any:  # noqa: ANN401 - any JSON
    """What a rule sees: a field that is null is one that is not there, and names that CEL cannot have are escaped."""
    if isinstance(value, str):
        return _typed(value, schema["format"]) if "format" in schema else value  # most of all texts have none
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_visible(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    return {
        _escaped(name) if name in properties else name: _visible(item, property_of(schema, name) or {})
        for name, item in value.items()
        if item is not None
    }


def _typed(text: str, name: str) -> Any:  # noqa: ANN401 - what the engine takes for a time, a duration or bytes
    """A text with a format, if it has that format."""
    if name in ("date-time", "date"):
        from google.protobuf.timestamp_pb2 import Timestamp  # noqa: PLC0415 (few rules are about times)

        moment, timestamp = parse_time(text if name == "date-time" else f"{text}T00:00:00Z"), Timestamp()
        if moment is not None:
            timestamp.FromDatetime(moment)
            return timestamp
    elif name == "duration" and _DURATION.fullmatch(text):
        from google.protobuf.duration_pb2 import Duration  # noqa: PLC0415 (as above)

        nanoseconds = sum(Decimal(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
        duration = Duration()
        duration.FromNanoseconds(int(-nanoseconds if text.startswith("-") else nanoseconds))
        return duration
    elif name == "byte":
        with suppress(ValueError):
            return b64decode(text, validate=True)
    return text


@cache
def _escaped(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPES[match[0]], name)


def _evaluated(rule: _Rule, activation: Any) -> tuple[bool, str]:  # noqa: ANN401 - the engine has no types
    """Whether the rule holds, or why nobody knows."""
    if rule.problem:
        return False, f"rule compile error: {rule.problem}"
    try:
        result = rule.expression.eval(activation)
        value = result.value()
        if value is True:
            return True, ""  # most of all; to ask for the type takes as long as many a rule
        kind = result.type().name()
    except (RuntimeError, ValueError, OverflowError) as error:
        kind, value = "ERROR", error
    if kind == "BOOL":
        return value, ""
    return False, f"{_in_words_of_go(str(value))} {rule.message or rule.text}"


def _in_words_of_go(error: str) -> str:
    if "No matching overloads" in error:
        signature = "call arguments did not match a supported operator, function or macro signature"
        return f"'no such overload': {signature} for rule:"
    if "Iteration budget exceeded" in error:
        error = "operation cancelled: actual cost limit exceeded"
    elif "Key not found in map" in error:
        error = f"no such key: {error.rpartition(' : ')[2].strip(chr(34))}"
    elif "divide by zero" in error:
        error = "division by zero"
    error = error.removeprefix("OUT_OF_RANGE: ")  # so the engine passes on what a function of ours raises
    return f"{error} evaluating rule:"


def _message(rule: _Rule, activation: Any) -> str:  # noqa: ANN401 - the engine has no types
    if rule.message_expression is not None:
        try:
            result = rule.message_expression.eval(activation)
            text = str(result.value()).strip() if result.type().name() == "STRING" else ""
        except (RuntimeError, ValueError, OverflowError):
            text = ""
        if text and "\n" not in text:
            return text
    return rule.message or f"failed rule: {rule.text}"


def _cause(rule: _Rule, path: str, detail: str) -> FieldCause:
    place = below(path, rule.field) if rule.field else path or "<nil>"
    match rule.reason:
        case "FieldValueRequired":
            return causes.required(place, detail)
        case "FieldValueForbidden":
            return causes.forbidden(place, detail)
    return causes.invalid(place, causes.NO_VALUE, detail, reason=rule.reason or "FieldValueInvalid")


def _compile(rule: Mapping[str, Any]) -> _Rule:
    text = rule["rule"].strip()
    is_optional = rule.get("optionalOldSelf") is True
    expression, problem = _compiled(text, is_optional=is_optional)
    words = rule.get("messageExpression", "")
    return _Rule(
        text=text,
        is_transition="oldSelf" in text and not is_optional,
        is_optional=is_optional,
        expression=expression,
        problem=problem,
        message=rule.get("message", "").strip(),
        message_expression=_compiled(words, is_optional=is_optional)[0] if words else None,
        field=rule.get("fieldPath", "").removeprefix("."),
        reason=rule.get("reason", ""),
    )


def _compiled(text: str, *, is_optional: bool) -> tuple[Any, str]:
    try:
        return _environment().compile(_OPTIONAL.format(text) if is_optional else text), ""
    except RuntimeError as error:
        return None, str(error)


@cache
def _environment() -> Any:  # noqa: ANN401 - the engine has no types
    cel = engine.imported("the rules (x-kubernetes-validations)")
    from cel_expr_python.ext import ext_optional, ext_strings  # noqa: PLC0415

    any_type = cel.Type.DYN
    variables = dict.fromkeys(("self", "oldSelf", "__old"), any_type) | {"__exists": cel.Type.BOOL}
    members: Mapping[str, Any] = {
        "sum": lambda items: sum(map(_plain, items)),
        "min": lambda items: min(map(_plain, items)),
        "max": lambda items: max(map(_plain, items)),
        "isSorted": lambda items: (plain := list(map(_plain, items))) == sorted(plain),
    }
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"list_{name}",
                    cel.Type.BOOL if name == "isSorted" else any_type,
                    [cel.Type.List(any_type)],
                    is_member=True,
                    impl=function,
                )
            ],
        )
        for name, function in members.items()
    ]
    functions += _quantities(cel)
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=variables, extensions=extensions, functions=functions)


def _quantities(cel: Any) -> list[Any]:  # noqa: ANN401 - the engine has no types
    """Of Kubernetes' library of quantities, what makes and compares them. The engine carries them as texts."""
    text, number, flag = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL

    def declared(name: str, result: Any, takes: list[Any], impl: Callable[..., Any]) -> Any:  # noqa: ANN401
        is_member = len(takes) > 1
        return cel.FunctionDecl(name, [cel.Overload(f"quantity_{name}", result, takes, is_member=is_member, impl=impl)])

    return [
        declared("quantity", text, [text], _quantity),
        declared("isQuantity", flag, [text], lambda value: quantity.parse(value) is not None),
        declared("compareTo", number, [text, text], _compared),
        declared("isGreaterThan", flag, [text, text], lambda one, other: _compared(one, other) > 0),
        declared("isLessThan", flag, [text, text], lambda one, other: _compared(one, other) < 0),
    ]


def _quantity(value: str) -> str:
    amount = quantity.parse(value)
    if amount is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return str(amount)


def _compared(one: str, other: str) -> int:
    return int(Decimal(one).compare(Decimal(other)))


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of the engine, or of Python
    return value.plain_value() if hasattr(value, "plain_value") else value
