"""The changes that can be made to a module, each at one place of its text."""

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

_COMPARISONS: Final = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
_COMPARISON: Final = re.compile(r"is\s+not|not\s+in|is|in|[<>=!]=|[<>]")
_COMMENT: Final = re.compile("#.*")
_ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Never changed: types, decorators, assertions, and what Python 3.11 gives no place in the text.
_LEFT_OUT: Final = {"annotation", "returns", "decorator_list", "type_params"}
_SKIPPED: Final = (ast.JoinedStr, ast.Assert)

Edit = tuple[tuple[int, int], str]
"""From where to where in the text, in bytes, and what takes its place."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one module."""

    file: str
    line: int
    statement: range
    """The lines of the statement that it is in."""
    source: bytes
    """The whole module as it is."""
    mutated: bytes
    """The whole module, changed."""
    original: str
    """The first line that differs, as it was."""
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n  - {self.original}\n  + {self.instead}"

    @property
    def text(self) -> tuple[str, str, str]:
        """What names it, wherever its line has moved to."""
        return self.file, self.original, self.instead


def mutations(file: str, source: bytes) -> Iterator[Mutation]:
    """Every change that can be made to a module, from its first line to its last."""
    starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))
    places = _Places(source, starts)
    for node, statement in _walk(ast.parse(source), range(0)):
        for operator in OPERATORS:
            for (begin, end), new in operator(node, places):
                mutant = source[:begin] + new.encode() + source[end:]
                line = bisect_right(starts, begin)
                original, instead = (text.splitlines()[line - 1].decode().strip() for text in (source, mutant))
                yield Mutation(file, line, statement, source, mutant, original, instead)


def _walk(node: ast.AST, statement: range) -> Iterator[tuple[ast.AST, range]]:
    """Every node that may be changed, in the order of the text, with the lines of its statement."""
    if isinstance(node, _SKIPPED):
        return
    if isinstance(node, ast.stmt):
        body = getattr(node, "body", None)
        statement = range(node.lineno, body[0].lineno if body else (node.end_lineno or node.lineno) + 1)
    yield node, statement
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, statement)


class _Places:
    """Where nodes are in the text."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self._source, self._starts = source, starts

    def span(self, node: ast.AST) -> tuple[int, int]:
        """From where to where, in bytes."""
        lines, columns = (node.lineno, node.end_lineno), (node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
        begin, end = (self._starts[line - 1] + column for line, column in zip(lines, columns, strict=True))
        return begin, end

    def text(self, begin: int, end: int) -> str:
        return self._source[begin:end].decode()

    def of(self, node: ast.AST) -> str:
        return self.text(*self.span(node))

    def between(self, left: ast.AST, right: ast.AST, token: re.Pattern[str]) -> tuple[tuple[int, int], str]:
        """The first such token between two nodes, and where it is; comments are passed over."""
        begin = self.span(left)[1]
        match = token.search(_COMMENT.sub(lambda it: " " * len(it[0].encode()), self.text(begin, self.span(right)[0])))
        assert match, "the parser has seen an operator here"  # noqa: S101 (nothing else can be)
        return (begin + match.start(), begin + match.end()), match.group()


def _comparison(node: ast.AST, places: _Places) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        for left, right in pairwise([node.left, *node.comparators]):
            span, token = places.between(left, right, _COMPARISON)
            yield span, _COMPARISONS[" ".join(token.split())]


def _and_or(node: ast.AST, places: _Places) -> Iterator[Edit]:
    if isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            span, word = places.between(left, right, re.compile(r"\b(and|or)\b"))
            yield span, "or" if word == "and" else "and"


def _condition(node: ast.AST, places: _Places) -> Iterator[Edit]:
    """A condition is the opposite; a comparison has an operator of its own."""
    tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
    for test in tests:
        if not isinstance(test, ast.Compare | ast.Constant | ast.UnaryOp):
            yield places.span(test), f"not ({places.of(test)})"


def _negation(node: ast.AST, places: _Places) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield places.span(node), f"({places.of(node.operand)})"


def _arithmetic(node: ast.AST, places: _Places) -> Iterator[Edit]:
    match node:
        case ast.BinOp(left=left, op=operator, right=right) | ast.AugAssign(target=left, op=operator, value=right):
            if type(operator) in _ARITHMETIC:
                token, other = _ARITHMETIC[type(operator)]
                yield places.between(left, right, re.compile(re.escape(token)))[0], other


def _constant(node: ast.AST, places: _Places) -> Iterator[Edit]:
    """A number is one more; true is false."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield places.span(node), str(not node.value if isinstance(node.value, bool) else node.value + 1)


def _statement(node: ast.AST, places: _Places) -> Iterator[Edit]:
    """A call, an assignment to a part of a value, an error or a jump is gone; a generator leaves out a value."""
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield places.span(node), "yield from ()"
        case (
            ast.Expr(value=ast.Call() | ast.Await())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
            | ast.AugAssign()
            | ast.Delete()
            | ast.Raise()
            | ast.Continue()
            | ast.Break()
        ):
            yield places.span(node), "pass"


def _result(node: ast.AST, places: _Places) -> Iterator[Edit]:
    if isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
        yield places.span(node), "return None"


def _choice(node: ast.AST, places: _Places) -> Iterator[Edit]:
    """The largest for the smallest, one for all."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield places.span(node.func), _CALLS[node.func.id]


OPERATORS: Final[tuple[Callable[[ast.AST, _Places], Iterator[Edit]], ...]] = (
    _comparison,
    _and_or,
    _condition,
    _negation,
    _arithmetic,
    _constant,
    _statement,
    _result,
    _choice,
)
