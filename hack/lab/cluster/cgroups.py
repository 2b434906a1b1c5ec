"""Control groups of a cluster: one corner in every hierarchy that this machine has.

Which hierarchies there are (version 1, version 2, or both side by side) is read from the kernel's table of mounts, not
assumed. Each kubelet gets a root of its own below the cluster's, because a kubelet removes whatever cgroup of a pod it
does not know. Who calls `make` publishes `paths` before: they are removed when the cluster ends (plane_remains).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
# What kubelet uses of version 2, and what it does not start without.
_WANTED: Final = ("cpu", "cpuset", "memory", "pids", "hugetlb")
_NEEDED: Final = frozenset({"cpu", "memory", "pids"})


class NoCgroupsError(Exception):
    """The machine has no control groups in which containers could run; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where control groups are mounted: those of version 1, each with a controller or more, and that of version 2."""

    first: tuple[Path, ...]
    second: tuple[Path, ...]

    @classmethod
    def of_this_machine(cls) -> "Hierarchies":
        return cls.read(_MOUNTS.read_text())

    @classmethod
    def read(cls, mounts: str) -> "Hierarchies":
        """Read /proc/self/mountinfo; the kind of file system stands after a lone dash."""
        by_type: dict[str, list[Path]] = {"cgroup": [], "cgroup2": []}
        for line in mounts.splitlines():
            place, _, system = line.partition(" - ")
            by_type.get(system.split()[0], []).append(Path(place.split()[4]))
        return cls(tuple(by_type["cgroup"]), tuple(by_type["cgroup2"]))

    def __str__(self) -> str:
        names = [*(["version 1"] if self.first else []), *(["version 2"] if self.second else [])]
        return " and ".join(names) or "none"

    def paths(self, name: str) -> list[Path]:
        """The cluster's corner in each hierarchy: what runc may make on the way, too."""
        return [mount / name for mount in (*self.first, *self.second)]

    def make(self, name: str, nodes: Iterable[str]) -> None:
        """Make the roots of the nodes where kubelets look for them; raise NoCgroupsError."""
        if not self.first and not self.second:
            raise NoCgroupsError("no control groups are mounted below /sys/fs/cgroup; pods cannot run here")
        for mount in self.first or self.second:
            _make(mount / name)
            if not self.first:
                _hand_down(mount)
                _hand_down(mount / name)
            for node in nodes:
                _make(mount / name / node)


def _make(cgroup: Path) -> None:
    try:
        cgroup.mkdir()
    except OSError as error:
        raise NoCgroupsError(f"{cgroup.parent} takes no new control group: {error.strerror}") from error


def _hand_down(folder: Path) -> None:
    """Let the children of a cgroup of version 2 have the controllers that kubelet wants; raise NoCgroupsError."""
    available = (folder / "cgroup.controllers").read_text().split()
    if missing := _NEEDED.difference(available):
        raise NoCgroupsError(f"{folder} has not got the controllers {', '.join(sorted(missing))}")
    controllers = (folder / "cgroup.subtree_control").read_text().split()
    for controller in [name for name in available if name in _WANTED and name not in controllers]:
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            # Version 2 has processes only in the leaves: in a container the root is often such a leaf.
            raise NoCgroupsError(f"{folder} does not hand down {controller}: {error.strerror}") from error
