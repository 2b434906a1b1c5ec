"""Tries mutations in one process that has imported and collected all tests: each in a fork of it, a second or less.

First a fork runs all tests, and notes the lines that each of them reaches. Then each mutation gets a fork that
exchanges the code of the functions that differ, and runs the tests that reach its statement until one fails. A change
that only an import sees, of a constant, a class or what it calls, is made in a copy of the repository (``mutants``).
"""

import functools
import gc
import inspect
import os
import resource
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import coverage
import pytest
from _pytest.main import pytest_runtestloop

import mutants
from mutants import Mutant
from mutation.operators import Mutation

_SECONDS_OF_CPU: Final = 90
"""A change that takes longer has made an endless loop, which is noticed."""
_SECONDS: Final = 900.0


class _Status(IntEnum):
    """What a fork exits with."""

    SURVIVED = 0
    CAUGHT = 1
    SEEN_BY_IMPORTS_ONLY = 3
    BROKEN = 4
    """The tool itself has failed."""


class Session:
    """A plugin of pytest: runs mutations in place of tests."""

    def __init__(self, mutations: Sequence[Mutation], *, root: Path, at_once: int, has_lines: bool) -> None:
        self._mutations, self._root, self._at_once, self._has_lines = mutations, root, at_once, has_lines
        self.survivors: list[Mutation] = []
        self._by_import: list[tuple[Mutation, list[str]]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of each test once: the tests of each mutation."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        tests = _Tests(session, self._root)
        if self._has_lines:
            tests.record({mutation.file for mutation in self._mutations})
        functions = _live_functions()
        running: dict[int, Mutation] = {}
        for mutation in self._mutations:
            if len(running) == self._at_once:
                self._end_one(running, tests)
            session.items = tests.by(mutation)
            running[_fork(functools.partial(_try, session, mutation, functions))] = mutation
        while running:
            self._end_one(running, tests)
        return True

    def _end_one(self, running: dict[int, Mutation], tests: "_Tests") -> None:
        pid, status = os.wait()
        mutation = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code == _Status.BROKEN:
            raise RuntimeError(f"this change cannot be tried:\n{mutation}")
        runs_by_import = self._has_lines and code == _Status.SURVIVED and not tests.reaching(mutation)
        if code == _Status.SEEN_BY_IMPORTS_ONLY or runs_by_import:
            self._by_import.append((mutation, [item.nodeid for item in tests.by(mutation)]))
        elif code == _Status.SURVIVED:
            self._note(mutation)

    def try_imports(self) -> None:
        """Try what is left, in a copy of the repository."""
        if not self._by_import:
            return
        with mutants.copies_of(self._root, 1) as (copy,):
            for mutation, tests in self._by_import:
                files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
                texts = mutation.source.decode(), mutation.mutated.decode()
                defect = Mutant(str(mutation), mutation.file, *texts, test="")
                with mutants.changed_file(copy, defect):
                    if mutants.run_tests(copy, files, "-x", within=_SECONDS)[0] == 0:
                        self._note(mutation)

    def _note(self, survivor: Mutation) -> None:
        print(survivor, flush=True)
        self.survivors.append(survivor)


def _fork(work: functools.partial[int]) -> int:
    """Run something in a child, which says nothing and exits with the result."""
    if pid := os.fork():
        return pid
    status: int = _Status.BROKEN
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        status = work()
    finally:
        os._exit(status)


def _try(session: pytest.Session, mutation: Mutation, functions: Mapping[str, list[FunctionType]]) -> int:
    """What the tests make of a change, in a process of its own."""
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS_OF_CPU, _SECONDS_OF_CPU))
    path = str(session.config.rootpath / mutation.file)
    if not _exchange(mutation, path, functions[path]):
        return _Status.SEEN_BY_IMPORTS_ONLY
    session.config.option.maxfail = 1
    session.config.pluginmanager.unregister(name="terminalreporter")
    try:
        pytest_runtestloop(session)
    except BaseException:  # noqa: BLE001 (whatever ends the tests is noticed; also pytest says so by an exception)
        return _Status.CAUGHT
    return _Status.CAUGHT if session.testsfailed else _Status.SURVIVED


def _exchange(mutation: Mutation, path: str, functions: Sequence[FunctionType]) -> bool:
    """Give functions their changed code; false when only an import would do that."""
    original, mutant = (compile(text, path, "exec") for text in (mutation.source, mutation.mutated))
    if _run_by_import(original) != _run_by_import(mutant):
        return False
    keys = {code: key for key, code in _functions_in(original)}
    new = dict(_functions_in(mutant))
    count = 0
    for function in functions:
        code = new.get(keys[function.__code__], function.__code__)
        if code != function.__code__ and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
            count += 1
    return count > 0


def _functions_in(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Every function of a module, at any depth, by its name and its number among those of that name."""
    counts: Counter[str] = Counter()
    pending = [code]
    while pending:
        for inner in pending.pop(0).co_consts:
            if isinstance(inner, CodeType):
                pending.append(inner)
                counts[inner.co_qualname] += 1
                yield (inner.co_qualname, counts[inner.co_qualname]), inner


def _run_by_import(code: CodeType) -> tuple[Any, ...]:
    """What runs when a module is imported: itself, and the bodies of its classes."""
    parts = (
        (_run_by_import(part) if not part.co_flags & inspect.CO_OPTIMIZED else part.co_name)
        if isinstance(part, CodeType)
        else repr(part)
        for part in code.co_consts
    )
    return code.co_code, code.co_names, *parts


def _live_functions() -> Mapping[str, list[FunctionType]]:
    """All functions of this process by their file."""
    gc.unfreeze()  # test/conftest.py has hidden them
    functions = defaultdict(list)
    for value in gc.get_objects():
        if isinstance(value, FunctionType):
            functions[value.__code__.co_filename].append(value)
    return functions


class _Tests:
    """The tests of a session, and which lines each of them reaches, once that is recorded."""

    def __init__(self, session: pytest.Session, root: Path) -> None:
        self._session, self._root, self._items = session, root, list(session.items)
        self._names: dict[str, dict[int, list[str]]] = {}

    def record(self, files: Collection[str]) -> None:
        """Run each test once."""
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            include = [str(self._root / file) for file in files]
            lines = coverage.Coverage(data_file=f"{folder}/lines", config_file=False, include=include)
            if os.waitpid(_fork(functools.partial(_record, self._session, lines)), 0)[1]:
                raise self._session.Interrupted("a test fails without any change")
            data = coverage.CoverageData(f"{folder}/lines")
            data.read()
            self._names = {file: data.contexts_by_lineno(str(self._root / file)) for file in files}

    def reaching(self, mutation: Mutation) -> set[str]:
        """The names of those that reach its statement: none, where only an import does."""
        by_line = self._names.get(mutation.file, {})
        return {name for line in mutation.statement for name in by_line.get(line, ()) if name}

    def by(self, mutation: Mutation) -> list[pytest.Item]:
        """Those that may notice a change, the nearest first; of what runs at import, any: others import it, too."""
        near = {name for names in self._names.get(mutation.file, {}).values() for name in names}
        names, module = self.reaching(mutation), Path(mutation.file)

        def distance(item: pytest.Item) -> tuple[bool, bool, bool]:
            is_far = item.nodeid not in near
            return item.path.stem != f"test_{module.stem}", is_far, module.parts[1] not in item.path.parts

        return sorted((item for item in self._items if not names or item.nodeid in names), key=distance)


def _record(session: pytest.Session, lines: coverage.Coverage) -> int:
    """Run all tests, and save which lines each of them reaches."""

    class Names:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> None:
            lines.switch_context(item.nodeid)

    session.config.pluginmanager.register(Names())
    lines.start()
    pytest_runtestloop(session)
    lines.stop()
    lines.save()
    return session.testsfailed
