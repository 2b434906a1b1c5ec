"""Build tools of one set with ``go build``, from the go.mod and go.sum that pin every dependency."""

import re
import signal
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from toolbox import leash
from toolbox.cache import Workshop
from toolbox.catalogue import Tool
from toolbox.errors import BadChecksum, BrokenBuild, MissingRegistry, ToolError
from toolbox.golang import Compilers, Go
from toolbox.progress import Progress, Step

# What "go build -v" prints while all is well: the import path of each package as its turn comes.
PACKAGE_LINE = re.compile(r"[\w.~+/-]+")
DOWNLOAD_LINE = re.compile(r"go: downloading (\S+ \S+)")

# Signs of the reasons for which a build fails although nobody broke the code, in the order they are looked for.
TAMPERED = re.compile(r"checksum mismatch|SECURITY ERROR")
UNREACHABLE = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|handshake timeout|x509:|proxyconnect|GOPROXY|unexpected EOF"
    r"|server response:|: [45]\d\d [A-Z]|reading https?://|Get \"https?://|unrecognized import path|unknown revision"
)
UNPINNED = re.compile(r"missing go.sum entry|updates to go.mod needed|no required module provides")
FULL = re.compile(r"no space left on device")
# How it ends when somebody, or the kernel short of memory, kills the compiler or the guard above it.
KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGKILL, -signal.SIGTERM)


class Listener:
    """Follows the output of the compiler: keeps what explains a failure, shows the rest as progress."""

    def __init__(self, step: Step) -> None:
        self.complaints: deque[str] = deque(maxlen=20)
        self._step = step
        self._packages = 0

    def on_line(self, line: str) -> None:
        """Take one line of output."""
        if match := DOWNLOAD_LINE.fullmatch(line):
            self._step.note(f"downloading {match[1]}")
        elif PACKAGE_LINE.fullmatch(line):
            self._packages += 1
            self._step.note(f"{self._packages} packages, now at {line}")
        elif line:
            self.complaints.append(line)


def build(
    tools: Sequence[Tool], *, sources: Path, compilers: Compilers, workshop: Workshop, progress: Progress
) -> dict[str, Path]:
    """Build the tools, all of one set, and return where each is in the workshop; raises a ToolError."""
    folder, go = module_folder(tools[0], sources), compilers.find(progress)
    made, names = workshop.folder / "made", ", ".join(str(tool) for tool in tools)
    temporary = workshop.folder / "tmp"
    temporary.mkdir()
    what = f"{names}: building from hack/tools/{tools[0].module_set} with {go}"
    with progress.step(what, expect=sum(tool.cold_seconds for tool in tools)) as step:
        listener = Listener(step)
        status = leash.run(
            command(tools, go, made),
            env=compilers.environment() | {"GOTMPDIR": str(temporary)},
            cwd=folder,
            scratch=workshop.folder,
            lock=workshop.lock,
            on_line=listener.on_line,
        )
        if status != 0:
            raise reason(names, status, listener.complaints)
    return {tool.name: made / tool.built_name for tool in tools}


def module_folder(tool: Tool, sources: Path) -> Path:
    """Return the folder whose go.mod pins the tool; raises BrokenBuild when there is none."""
    folder = sources / tool.module_set
    if not (folder / "go.mod").is_file():
        raise BrokenBuild(f"{tool}: there is no hack/tools/{tool.module_set}/go.mod", advice="run hack/update-tools")
    return folder


def command(tools: Sequence[Tool], go: Go, made: Path) -> list[str]:
    """Return the command that builds all the tools at once: they share most of their packages."""
    ldflags = dict.fromkeys(["-s", "-w", *(flag for tool in tools for flag in tool.ldflags)])
    flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", " ".join(ldflags)]
    # The slash makes it a folder even for a single package.
    return [str(go.program), "build", *flags, "-o", f"{made}/", *(tool.package for tool in tools)]


def reason(names: str, status: int, complaints: Sequence[str]) -> ToolError:
    """Turn what the compiler complained about into an error that says what to do."""
    text = "\n".join(complaints) or f"the compiler ended with status {status}"
    if TAMPERED.search(text):
        return BadChecksum(
            f"{names}: a module is not what go.sum says it is\n{text}",
            advice="set GOPROXY to a proxy you trust, and run 'go clean -modcache' if your cache is at fault",
        )
    if UNPINNED.search(text):
        return BrokenBuild(f"{names}: go.mod and go.sum are out of step\n{text}", advice="run hack/update-tools")
    if FULL.search(text):
        return BrokenBuild(f"{names}: the disk is full\n{text}", advice="make room, or set TF_OPERATOR_CACHE")
    if UNREACHABLE.search(text):
        return MissingRegistry(
            f"{names}: the Go modules it is made of cannot be downloaded\n{text}",
            advice="set GOPROXY to a module proxy that you can reach (and HTTPS_PROXY where you need one), or put "
            "the folder of a ready-made program into KUBEBUILDER_ASSETS or PATH",
        )
    if status in KILLED:
        return BrokenBuild(
            f"{names}: the compiler was killed",
            advice="run it again if you know why, else check that there are 4 GB of free memory",
        )
    return BrokenBuild(f"{names}: the build failed\n{text}", advice="see above what the compiler says")
