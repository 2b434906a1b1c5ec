"""Whether what a text points to exists: paths of the repository, modules, and flags.

Texts are pages, comments, docstrings, and the messages of the product. A text may name a file by the beginning of its
path (``docs/adr/0011``), and a module from any package on (``planning.snapshot``).
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from house.rules import PACKAGE, Violation, parsed

_TOPS: Final = (PACKAGE, "hack", "test", "charts", "manifests", "docs")
_PATH: Final = re.compile(rf"(?<![\w/.$}}-])(?:{'|'.join(_TOPS)})/[\w./-]+")
_DOTTED: Final = re.compile(r"``([a-z_]+(?:\.\w+)+)``")
_FLAGS: Final = re.compile(r"`(?:(?:tfjob|tf-operator) [^`]*?)?(--[a-z][a-z0-9-]*)[^`]*`")
_DECLARED: Final = re.compile(r"""(?:--|["'])([a-z][a-z0-9-]+)""")
_FILES: Final = (".py", ".json", ".yaml", ".toml", ".cfg")
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{4,}\b|^test/x\b")
FOREIGN_FLAGS: Final = frozenset(
    {
        "--admission-control-config-file",
        "--bump-revision",
        "--field-selector",
        "--force-conflicts",
        "--from-file",
        "--mark-compacted",
        "--no-hooks",
        "--no-loadscope-reorder",
        "--privileged",
        "--server",
        "--take-ownership",
    }
)
"""Flags of other people's programs that pages name by themselves."""


class Signs:
    """What exists in a repository."""

    def __init__(self, paths: Iterable[str], flags: frozenset[str]) -> None:
        """The paths of all files, and the flags that the product's and hack's programs have."""
        self._paths = frozenset(paths)
        self._flags = flags | FOREIGN_FLAGS
        self._names = {path.rpartition("/")[2] for path in self._paths}
        programs = [path for path in self._paths if path.endswith(".py")]
        self._modules = {part for path in programs for part in _suffixes(path)}
        self._files = {part for path in programs if not path.endswith("__init__.py") for part in _suffixes(path)}
        self._packages = {path.split("/")[1] for path in self._paths if re.match(rf"{PACKAGE}/\w+/", path)} - {"job"}

    def missing(self, text: str) -> Iterator[tuple[int, str]]:
        """The line and the name of each thing that a text points to and that does not exist."""
        for number, line in enumerate(text.split("\n"), 1):
            names = [match[0].rstrip("./-") for match in _PATH.finditer(line)]
            yield from ((number, path) for path in names if not self._has_path(path))
            yield from ((number, match[1]) for match in _DOTTED.finditer(line) if not self._has_module(match[1]))
            yield from ((number, match[1]) for match in _FLAGS.finditer(line) if match[1] not in self._flags)

    def _has_path(self, path: str) -> bool:
        return bool(_PLACEHOLDER.search(path)) or any(file.startswith(path) for file in self._paths)

    def _has_module(self, name: str) -> bool:
        """Also of a name in a module that is one file; what begins with no package of the product is something else."""
        if name.endswith(_FILES):
            return name in self._names
        head, _, rest = name.removeprefix(f"{PACKAGE}.").partition(".")
        return head not in self._packages or f"{head}.{rest}" in self._modules or self._has_module_of(f"{head}.{rest}")

    def _has_module_of(self, name: str) -> bool:
        module = name.rpartition(".")[0]
        return "." in module and (module in self._files or self._has_module_of(module))


def check_signs(root: Path, pages: Iterable[Path]) -> Iterator[Violation]:
    """Everything that is named in the repository's texts and does not exist."""
    files = [path for places in (root.glob("*"), *((root / top).rglob("*") for top in _TOPS)) for path in places]
    paths = sorted(
        path.relative_to(root).as_posix() for path in files if path.is_file() and "__pycache__" not in path.parts
    )
    tops = (f"{PACKAGE}/", "hack/", "test/proof/replay.py")
    programs = [path for path in paths if path.startswith(tops) and "/requirements/" not in path]
    flags = {f"--{name}" for path in programs for name in _DECLARED.findall(_text(root / path))}
    signs = Signs(paths, frozenset(flags))
    for page in pages:
        if page.name != "CHANGELOG.md":
            yield from _violations(page.relative_to(root).as_posix(), signs.missing(_text(page)))
    for path in (path for path in paths if path.endswith(".py")):
        yield from _violations(
            path, signs.missing(_prose_of(_text(root / path), with_messages=path.startswith(PACKAGE)))
        )


def _violations(path: str, missing: Iterable[tuple[int, str]]) -> Iterator[Violation]:
    for line, name in missing:
        yield Violation(path, line, "house-missing-sign", f"{name} does not exist; name what it is called now")


def _prose_of(source: str, *, with_messages: bool) -> str:
    """The comments and docstrings of a program, each on its line; with messages all of its texts."""
    lines = [""] * (source.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if "#" in source else ():
        if token.type == tokenize.COMMENT:
            lines[token.start[0]] += token.string
    for node in parsed(source)[1]:
        text = node if with_messages else node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            for offset, line in enumerate(text.value.split("\n")):
                lines[min(text.lineno + offset, len(lines) - 1)] += f" {line}"
    return "\n".join(lines[1:])


def _suffixes(path: str) -> Iterator[str]:
    parts = path.removesuffix("/__init__.py").removesuffix(".py").split("/")
    return (".".join(parts[start:]) for start in range(len(parts)))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
