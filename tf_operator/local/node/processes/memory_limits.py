"""Limits of memory for containers: control groups of Linux, where the system lets this user make some.

With version 2 the folder beside the process's own group has to be the user's, with the memory controller switched on:
so it is in sessions of systemd, and in most containers. With version 1 it is the process's own group. Elsewhere there
are no limits, as on macOS, and ``find`` returns ``None``.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_PREFIX = "tf-operator-"


class _Files(NamedTuple):
    limit: str
    kills: str


_V1 = _Files("memory.limit_in_bytes", "memory.oom_control")
_V2 = _Files("memory.max", "memory.events")


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The group of a node, and in it one group for each container that has a limit."""

    root: Path
    files: _Files

    def make(self, name: str, limit: int) -> Path | None:
        """A group with a limit in bytes; ``None`` if the system refuses it."""
        group = self.root / name
        with suppress(OSError):
            group.mkdir()
            (group / self.files.limit).write_text(str(limit))
            return group
        return None

    def has_killed(self, group: Path) -> bool:
        with suppress(OSError):
            lines = (group / self.files.kills).read_text().splitlines()
            return any(line.startswith("oom_kill ") and not line.endswith(" 0") for line in lines)
        return False

    def close(self) -> None:
        """Remove the node's group; all processes have ended."""
        _remove(self.root)


def find(proc: Path = Path("/proc")) -> MemoryLimits | None:
    """A group for the node of this process, if it can be made; those of nodes that were killed are removed."""
    for parent, files in _candidates(proc):
        with suppress(OSError):
            for old in parent.glob(f"{_PREFIX}*"):
                if not (proc / old.name.removeprefix(_PREFIX)).exists():
                    _remove(old)
            root = parent / f"{_PREFIX}{os.getpid()}"
            root.mkdir(exist_ok=True)
            if files is _V2:
                (root / "cgroup.subtree_control").write_text("+memory")
            return MemoryLimits(root, files)
    return None


def _candidates(proc: Path) -> Iterator[tuple[Path, _Files]]:
    with suppress(OSError):
        mounts = [
            _Mount.parse(line) for line in (proc / "self/mountinfo").read_text().splitlines() if " - cgroup" in line
        ]
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                yield from ((mount.point / path.lstrip("/"), _V1) for mount in mounts if mount.has_memory)
            elif not controllers:
                parents = [(mount.point / path.lstrip("/")).parent for mount in mounts if mount.is_v2]
                yield from ((parent, _V2) for parent in parents if _gives_memory(parent))


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    is_v2: bool
    has_memory: bool

    @classmethod
    def parse(cls, line: str) -> "_Mount":
        """A line of ``/proc/self/mountinfo``."""
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        return cls(Path(fields.split()[4]), kind == "cgroup2", "memory" in options.split(","))


def _gives_memory(parent: Path) -> bool:
    with suppress(OSError):
        return "memory" in (parent / "cgroup.subtree_control").read_text().split()
    return False


def _remove(group: Path) -> None:
    """Remove a group that is empty, with its empty groups; one with processes stays."""
    for folder in (*group.glob("*/"), group):
        with suppress(OSError):
            folder.rmdir()
