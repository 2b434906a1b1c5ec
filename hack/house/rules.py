"""The rules themselves: each is a function from the parsed tree to the violations found in it.

A violation names the rule, the place and what to do, because it is read by somebody whose build just broke.
"""

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

PACKAGE = "tf_operator"


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One broken rule at one place."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Section ``[house]`` of ``setup.cfg``."""

    max_files_in_folder: int
    max_file_lines: int
    max_test_file_lines: int
    max_function_lines: int
    p90_function_lines: int
    median_function_lines: int
    forbidden_names: frozenset[str]
    pure_packages: frozenset[str]
    pure_third_party: frozenset[str]
    vague_names: frozenset[str]
    max_vague_names_per_1000: float
    retired_words: tuple[str, ...]

    @classmethod
    def read(cls, setup_cfg: Path) -> "Limits":
        """Read the section; a missing key raises ``KeyError`` with its name."""
        config = ConfigParser()
        config.read_string(setup_cfg.read_text())
        return cls(**{field.name: _READERS[field.type](config["house"][field.name]) for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file; ``path`` is relative to the root of the repository."""

    path: Path
    lines: int
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @classmethod
    def read(cls, root: Path, path: Path) -> "Source":
        """Parse one file."""
        text = path.read_text()
        return cls(path.relative_to(root), len(text.splitlines()), *parsed(text))

    @property
    def is_product(self) -> bool:
        """Whether the file is part of what users install."""
        return self.path.parts[0] == PACKAGE

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones too."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


@cache
def parsed(text: str) -> tuple[ast.Module, tuple[ast.AST, ...]]:
    """A program, and all its nodes: once for all rules."""
    tree = ast.parse(text)
    return tree, tuple(ast.walk(tree))


def check_names(source: Source, limits: Limits) -> Iterator[Violation]:
    """No room for leftovers: a module is named after what it is."""
    for part in source.path.parts:
        if bad := limits.forbidden_names.intersection(part.removesuffix(".py").split("_")):
            message = f"nothing is called {min(bad)!r}: name it after what it does"
            yield Violation(str(source.path), 1, "house-names", message)


def check_file_size(source: Source, limits: Limits) -> Iterator[Violation]:
    """A file that outgrows its limit is split by policy."""
    most = limits.max_file_lines if source.path.parts[0] != "test" else limits.max_test_file_lines
    if source.lines > most:
        message = f"{source.lines} lines, at most {most}: split the file by policy"
        yield Violation(str(source.path), most + 1, "house-file-size", message)


def check_function_size(source: Source, limits: Limits) -> Iterator[Violation]:
    """No function is longer than a screen."""
    for function in source.functions():
        lines = _length(function)
        if lines > limits.max_function_lines:
            message = f"{function.name} has {lines} lines, at most {limits.max_function_lines}"
            yield Violation(str(source.path), function.lineno, "house-function-size", message)


def check_pure_imports(source: Source, limits: Limits) -> Iterator[Violation]:
    """The core imports the standard library, itself, and the few packages that setup.cfg lists."""
    if not (source.is_product and source.path.parts[1].removesuffix(".py") in limits.pure_packages):
        return
    packages = sys.stdlib_module_names | limits.pure_third_party | {PACKAGE}
    for line, module in _imports(source.nodes):
        top = module.partition(".")[0]
        if top not in packages:
            message = f"the pure core may not import {top!r}: not in [house] pure_third_party of setup.cfg"
            yield Violation(str(source.path), line, "house-pure-imports", message)


def check_folder_sizes(sources: list[Source], limits: Limits) -> Iterator[Violation]:
    """A folder is read at a glance: what outgrows its limit gets rooms."""
    for folder, files in Counter(source.path.parent for source in sources).items():
        if files > limits.max_files_in_folder:
            message = f"{files} modules side by side, at most {limits.max_files_in_folder}: give them rooms"
            yield Violation(str(folder), 1, "house-folder-size", message)


def check_function_sizes_overall(sources: list[Source], limits: Limits) -> Iterator[Violation]:
    """Short functions are the habit, not the exception: median and ninetieth percentile of the product."""
    lengths = sorted(_length(function) for source in sources if source.is_product for function in source.functions())
    if not lengths:
        return
    median = statistics.median(lengths)
    p90 = lengths[int(0.9 * (len(lengths) - 1))]
    habits = (("median", median, limits.median_function_lines), ("90th percentile", p90, limits.p90_function_lines))
    for name, length, most in habits:
        if length > most:
            message = f"{name} of function lengths is {length}, at most {most}"
            yield Violation(PACKAGE, 1, "house-function-habit", message)


def check_class_names(sources: list[Source]) -> Iterator[Violation]:
    """Whoever reads a class's name in a log, a trace or a search knows which one it is."""
    first: dict[str, str] = {}
    for source in sources:
        classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
        for node in classes if source.is_product else []:
            place = f"{source.path}:{node.lineno}"
            if first.setdefault(node.name, place) != place:
                message = f"there is another {node.name} at {first[node.name]}: say in the name what sets them apart"
                yield Violation(str(source.path), node.lineno, "house-class-names", message)


def check_vague_names(sources: list[Source], limits: Limits) -> Iterator[Violation]:
    """A name is the noun of what it holds: in each package, only a few may be a word that fits anything."""
    packages: dict[str, list[tuple[str, int, str]]] = {}
    for source in sources:
        bindings = packages.setdefault("/".join(source.path.parts[:-1][:2]), [])
        bindings.extend((str(source.path), line, name) for line, name in _bindings(source.nodes))
    for package, bindings in packages.items():
        vague = [binding for binding in bindings if binding[2].strip("_") in limits.vague_names]
        if len(vague) * 1000 > len(bindings) * limits.max_vague_names_per_1000:
            share = f"{package} has {len(vague)} such names in {len(bindings)}"
            for path, line, name in vague:
                message = f"{name!r} fits anything: take the noun of what it holds ({share})"
                yield Violation(path, line, "house-vague-names", message)


def check_words(root: Path, paths: list[Path], limits: Limits) -> Iterator[Violation]:
    """Words that gave way to better ones stay away: in code, where they may be part of a name, and in prose."""
    spellings = "|".join(re.escape(word).replace(r"\ ", r"[\s_]+") for word in limits.retired_words)
    pattern = re.compile(rf"(?<![A-Za-z])(?:{spellings})(?![A-Za-z])", re.IGNORECASE)
    for path in paths:
        text = path.read_text()
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            message = f"nothing says {match[0]!r} any more: see retired_words in [house] of setup.cfg"
            yield Violation(str(path.relative_to(root)), line, "house-words", message)


EVERY_FILE = (check_names, check_file_size, check_function_size, check_pure_imports)


def check_tree(root: Path, paths: list[Path]) -> list[Violation]:
    """Check all files together and return what is wrong, in order of place."""
    limits = Limits.read(root / "setup.cfg")
    sources = [Source.read(root, path) for path in paths]
    violations = [violation for source in sources for check in EVERY_FILE for violation in check(source, limits)]
    violations += [*check_folder_sizes(sources, limits), *check_function_sizes_overall(sources, limits)]
    return sorted([*violations, *check_class_names(sources), *check_vague_names(sources, limits)])


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {
    int: int,
    float: float,
    frozenset[str]: _names,
    tuple[str, ...]: lambda text: tuple(text.split("\n")[1:]),
}
"""How a limit is read, by its type."""


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code: the docstring is a contract, and a long contract is no fault."""
    end = function.end_lineno or function.lineno
    lines = end - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def _bindings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Each place where a name is given to something: variables, parameters, fields and attributes, functions."""
    for node in nodes:
        match node:
            case ast.Name(id=str(name), ctx=ast.Store()) | ast.Attribute(attr=str(name), ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)):
                yield node.lineno, name
