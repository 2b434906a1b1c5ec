"""Which process a number meant: process ids are given again, so a number alone is nobody to send a signal to."""

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that has lived."""

    pid: int
    started: str
    """When it was started, in the system's own words; only to be compared."""
    space: str = ""
    """Where its number counts: a container has numbers of its own (Linux)."""

    @classmethod
    def current(cls) -> "ProcessIdentity":
        return cls(os.getpid(), start_time(os.getpid()), own_space())

    @property
    def is_here(self) -> bool:
        """Whether its number means the same here: otherwise nothing can be said of it, and no signal sent."""
        return self.space in ("", own_space())

    @property
    def is_alive(self) -> bool:
        """Whether it is still there, and no other process has its number."""
        return self.is_here and bool(self.started) and start_time(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.is_alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def own_space() -> str:
    """The PID namespace of this process; empty where there are none."""
    with suppress(OSError):
        return str((_PROC / "self" / "ns" / "pid").readlink())
    return ""


def start_time(pid: int) -> str:
    """When the process with this number was started; empty when there is none, or only a zombie."""
    if pid <= 0:
        return ""
    if not (_PROC / "self").exists():
        return _start_time_by_ps(pid)
    try:
        # The name in parentheses may hold anything, so the fields are counted from its end.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    state, ticks = fields[0], fields[19]
    return "" if state in "ZX" else ticks


def _start_time_by_ps(pid: int) -> str:
    """For systems without /proc (macOS)."""
    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    fields = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()  # noqa: S603 (no shell)
    return "" if not fields or fields[0].startswith("Z") else " ".join(fields[1:])
