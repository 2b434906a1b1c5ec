"""From names to paths: where a tool is, and what to do when it is nowhere.

A tool is made in a folder that nobody else sees, and moves into the cache under a name that contains its version when
it is whole. Tools of one set are made together, by one process at a time.

    <cache>/tools/<tool>-<version>-<os>-<arch>/<tool>    appears by an atomic rename or not at all
    <cache>/tools/.locks, <cache>/tools/.work            what is being made
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from lab.tools import build, catalogue, download
from lab.tools.catalogue import FOLDER, Host, Tool, ToolError
from lab.tools.progress import Progress

CACHE_VARIABLE: Final = "TF_OPERATOR_CACHE"
# A build must not get what a test has set for itself: certificates, a proxy, a folder of its own.
_ENVIRONMENT: Final = dict(os.environ)
_paths: dict[str, str] = {}
_refusals: list[str] = []


@dataclass(frozen=True)
class Toolbox:
    """Gets tools for one user on one host."""

    environ: Mapping[str, str]
    folder: Path = FOLDER
    host: Host = field(default_factory=catalogue.this_host)
    progress: Progress = field(default_factory=lambda: Progress(sys.stderr, prefix="hack/tool"))

    @property
    def cache(self) -> Path:
        return cache_root(self.environ)

    def tools(self) -> dict[str, Tool]:
        return catalogue.load(self.folder, environ=self.environ, host=self.host)

    def get(self, names: Sequence[str]) -> dict[str, Path]:
        tools = catalogue.select(self.tools(), names)
        missing = sorted((tool for tool in tools if not self.path(tool).is_file()), key=lambda tool: tool.module)
        for folder, group in groupby(missing, key=lambda tool: tool.module):
            try:
                self._make(folder.name, list(group))
            except OSError as error:
                raise ToolError(
                    f"the cache {self.cache} cannot be used ({error}): set {CACHE_VARIABLE} to a folder that you can "
                    "write to, with a few GB of free space"
                ) from error
        return {tool.name: self.path(tool) for tool in tools}

    def go(self) -> build.Go:
        return build.find_go(self.cache, environ=self.environ, progress=self.progress)

    def path(self, tool: Tool) -> Path:
        """Where a tool is, or will be: in KUBEBUILDER_ASSETS if it is there, else in the cache."""
        asset = Path(self.environ.get("KUBEBUILDER_ASSETS") or "/nowhere", tool.name)
        name = f"{tool.name}-{tool.version}-{self.host.os}-{self.host.arch}"
        return asset if asset.is_file() else self.cache / "tools" / name / tool.name

    def _make(self, name: str, tools: Sequence[Tool]) -> None:
        work, lock = self.cache / "tools" / ".work" / name, self.cache / "tools" / ".locks" / f"{name}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with self._hold(FileLock(lock), name):
            # What is there was left by a process that was killed.
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=work) as folder:
                # The one who held the lock before us may have made the very same tools.
                if missing := [tool for tool in tools if not self.path(tool).is_file()]:
                    self._make_in(Path(folder), missing)

    @contextmanager
    def _hold(self, lock: FileLock, name: str) -> Iterator[None]:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            with self.progress.step(f"waiting for another process that gets {name}"):
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _make_in(self, folder: Path, tools: Sequence[Tool]) -> None:
        paths: dict[str, Path] = {}
        for tool in () if self.environ.get("CI") else tools:
            try:
                paths[tool.name] = download.fetch(tool, folder, self.progress)
            except download.UnavailableError as error:
                self.progress.say(f"{tool.name} {tool.version} cannot be downloaded ({error}), so it is built")
        if rest := [tool for tool in tools if tool.name not in paths]:
            paths |= build.build(rest, folder / "made", go=self.go(), progress=self.progress)
        for tool in tools:
            publish(paths[tool.name], self.path(tool))


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return the project's cache folder: TF_OPERATOR_CACHE, or below XDG_CACHE_HOME, or below ~/.cache."""
    if folder := environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser().absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()).absolute() / "tf-operator"


def publish(program: Path, target: Path) -> None:
    """Move a file that is complete to where it will be found, in one step that survives a power cut."""
    program.chmod(0o755)
    with program.open("rb") as file:
        os.fsync(file.fileno())
    target.parent.mkdir(parents=True, exist_ok=True)
    program.replace(target)


def refuse_programs(reason: str) -> None:
    _refusals.append(reason)


def use_minor(minor: str) -> None:
    """Have ``programs`` return those of this minor of Kubernetes from now on, in this process."""
    _ENVIRONMENT[catalogue.MINOR_VARIABLE] = minor
    _paths.clear()


def programs(*names: str) -> dict[str, str]:
    """Paths of the named programs, got once; the first time on a machine takes minutes. Raises ToolError."""
    if _refusals:
        raise ToolError(f"{', '.join(names)}: {_refusals[0]}")
    if missing := [name for name in names if name not in _paths]:
        _paths.update({name: str(path) for name, path in Toolbox(_ENVIRONMENT).get(missing).items()})
    return {name: _paths[name] for name in names}
