"""Reintroduces defects on purpose, and expects a test to notice: the command ``hack/mutants``.

Each entry of test/mutants/*.yaml names a file, a text in it that occurs once, what to put in its place, and the test
that has to fail then. The change is made in a copy of the repository. First all these tests run without any change,
because one that fails by itself proves nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
CAUGHT: Final = "caught"
_LEFT_OUT: Final = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".coverage*")
_SECONDS: Final = 600.0
_SECONDS_OF_TIMESTAMP: Final = 2.0
# What pytest exits with.
_PASSED: Final = 0
_FAILED: Final = 1


class InvalidError(Exception):
    """An entry that cannot be tried; the message says why."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect, and the test that has to notice it."""

    name: str
    file: str
    find: str
    replace: str
    test: str

    def changed(self, text: str) -> str:
        """The text of the file with the defect in it; raises InvalidError.

        YAML takes away the indentation that all lines of a text have, so it is tried with every one.
        """
        for indent in (" " * width for width in range(0, 24, 4)):
            find, replace = (textwrap.indent(part.rstrip("\n"), indent) for part in (self.find, self.replace))
            if (count := text.count(find)) == 1:
                return text.replace(find, replace)
            if count > 1:
                raise InvalidError(f"its text occurs {count} times in {self.file}")
        raise InvalidError(f"its text is not in {self.file}")


def read(files: Sequence[Path]) -> Iterator[Mutant]:
    """Every entry of the files; raises InvalidError, which names the file and the line."""
    for file in files:
        for line, entry in _entries(file):
            try:
                yield Mutant(**entry)
            except TypeError as error:
                raise InvalidError(f"{file}:{line}: {entry}: {error}") from error


def _entries(file: Path) -> Iterator[tuple[int, Any]]:
    """What the list in a file has, each with the line where it begins."""
    content = file.read_bytes()
    try:
        loader = yaml.SafeLoader(content)
        top = loader.get_single_node()
        if top is not None and not isinstance(top, yaml.SequenceNode):
            raise InvalidError(f"{file}:{top.start_mark.line + 1}: a list of defects belongs here")
        for entry in top.value if top else ():
            yield entry.start_mark.line + 1, loader.construct_object(entry, deep=True)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidError(f"{file}:{line}: this is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = content.count(b"\n", 0, error.position) + 1
        raise InvalidError(f"{file}:{line}: this is not YAML: {error.reason}") from error


def judge(mutant: Mutant, *, copies: SimpleQueue[Path], failing: frozenset[str]) -> str:
    """Try a mutant in one of the copies of the repository: caught, or what is wrong."""
    if mutant.test in failing:
        return "INVALID: its test fails without it"
    copy = copies.get()
    try:
        with changed_file(copy, mutant):
            status, _ = run_tests(copy, [mutant.test], "-x", within=_SECONDS)
    except (OSError, InvalidError) as error:
        return f"INVALID: {error}"
    finally:
        copies.put(copy)
    if status == _PASSED:
        return f"SURVIVED: {mutant.test} passes"
    return CAUGHT if status == _FAILED else f"INVALID: pytest ends with status {status}"


@contextmanager
def changed_file(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Have the defect in a copy while the body runs."""
    file = copy / mutant.file
    original = file.read_text(encoding="utf-8")
    _write(file, mutant.changed(original))
    try:
        yield
    finally:
        _write(file, original)


def _write(file: Path, text: str) -> None:
    """Write another text, with a time of its own: Python uses compiled code again for the same time and size."""
    modified_at = file.stat().st_mtime + _SECONDS_OF_TIMESTAMP
    file.write_text(text, encoding="utf-8")
    os.utime(file, (modified_at, modified_at))


@contextmanager
def copies_of(root: Path, count: int) -> Iterator[list[Path]]:
    """Copies of the repository without what is not part of it, and with its .venv and its history."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies = [Path(scratch) / f"tree-{number}" for number in range(count)]
        for copy in copies:
            shutil.copytree(root, copy, ignore=_LEFT_OUT, symlinks=True)
            for name in (".venv", ".git"):
                (copy / name).symlink_to(root / name)
        yield copies


def run_tests(copy: Path, tests: Sequence[str], *options: str, within: float | None = None) -> tuple[int, str]:
    """Run tests in a copy: the exit code of pytest, and what it prints. A run that takes too long counts as failed."""
    environ = {**os.environ, "PYTHONPATH": str(copy), "GIT_OPTIONAL_LOCKS": "0", "CRASHES": "all", "HISTORIES": "100"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every run would compile everything
    command = [str(copy / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    run = partial(subprocess.run, cwd=copy, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        process = run(command, timeout=within, check=False)
    except subprocess.TimeoutExpired:
        return _FAILED, ""
    return process.returncode, process.stdout


def failing_tests(mutants: Sequence[Mutant], copies: Sequence[Path]) -> frozenset[str]:
    """The tests that do not pass without any change."""
    tests = sorted({mutant.test for mutant in mutants})
    shares = [tests[number :: len(copies)] for number in range(len(copies))]
    with ThreadPoolExecutor(len(copies)) as pool:
        return frozenset().union(*pool.map(_failing_in, copies, shares))


def _failing_in(copy: Path, tests: Sequence[str]) -> set[str]:
    if not tests:
        return set()
    status, output = run_tests(copy, tests, "-rfE")
    failing = {
        test for test in tests if re.search(rf"^(FAILED|ERROR) {re.escape(test)}([\[: ]|$)", output, re.MULTILINE)
    }
    if status == _PASSED or failing:
        return failing
    # One of them does not exist, which hides the others: each says alone how it is.
    return {test for test in tests if run_tests(copy, [test], within=_SECONDS)[0] != _PASSED}


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Try all mutants; 1 when one is not caught."""
    parser = argparse.ArgumentParser(
        prog="hack/mutants",
        description="Reintroduce defects, and expect tests to fail.",
        epilog="hack/mutants score --help: changes that a program makes.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: test/mutants/*.yaml")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="how many to try at once (default: 2)")
    options = parser.parse_args(arguments)
    try:
        mutants = list(read(options.files or sorted((root / "test/mutants").glob("*.yaml"))))
    except InvalidError as error:
        sys.exit(f"hack/mutants: {error}")
    bad = 0
    with copies_of(root, options.at_once) as copies, ThreadPoolExecutor(options.at_once) as pool:
        failing = failing_tests(mutants, copies)
        free: SimpleQueue[Path] = SimpleQueue()
        for copy in copies:
            free.put(copy)
        verdicts = pool.map(partial(judge, copies=free, failing=failing), mutants)
        for mutant, verdict in zip(mutants, verdicts, strict=True):
            bad += verdict != CAUGHT
            print(f"{mutant.file}: {mutant.name}: {verdict}", flush=True)
    print(f"{len(mutants)} mutants, {bad} not caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
