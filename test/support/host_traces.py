"""What a cluster could leave on its machine, looked at from outside: processes, mounts, links, rules, cgroups, files.

Used by the tests of hack/cluster. Others use the machine at the same time, so what has names is looked for by the
cluster's own name, by its folder or by the namespaces that it had; what is nobody's in particular (firewall rules,
settings of the kernel, well-known folders) is compared as a whole.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# Where containerd, kubelet, CNI and the others make themselves at home on a usual node.
_HOMES: Final = (
    *("/etc/cni", "/etc/kubernetes", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/netns"),
    *("/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet"),
    *("/var/log/containers", "/var/log/pods"),
)
_SETTINGS: Final = (
    *("kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops"),
    *("net/ipv4/conf/all/forwarding", "net/ipv4/conf/all/route_localnet", "net/ipv4/ip_forward"),
    *("net/bridge/bridge-nf-call-iptables", "net/netfilter/nf_conntrack_max"),
    *("net/netfilter/nf_conntrack_tcp_timeout_established", "vm/overcommit_memory", "vm/panic_on_oom"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What belongs to nobody in particular."""

    rules: str
    settings: dict[str, str]
    homes: dict[str, list[str]]

    @classmethod
    def now(cls) -> "Machine":
        settings = {name: Path("/proc/sys", name) for name in _SETTINGS}
        return cls(
            _output("nft", "list", "ruleset"),
            {name: path.read_text().strip() for name, path in settings.items() if path.exists()},
            {home: sorted(os.listdir(home)) for home in _HOMES if Path(home).is_dir()},  # noqa: PTH208 - names alone
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """By what the things of one cluster are known, taken down while it lives."""

    root: Path
    name: str
    network: str

    @classmethod
    def of(cls, root: Path, state: dict[str, Any]) -> "Marks":
        return cls(root, state["link"], _space(Path(f"/proc/{state['servers']['machine']['pid']}"), "net"))

    def processes(self) -> list[str]:
        """Those in its network, in its control groups, or with its folder in their command line."""
        commands = ((entry, _command(entry)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return sorted(command for entry, command in commands if command and self._is_its(entry, command))

    def left(self) -> list[str]:
        """All that is there of it now, a line for each thing."""
        return [f"{kind}: {thing}" for kind, things in self.traces().items() for thing in things]

    def traces(self) -> dict[str, list[str]]:
        """All that is there of it now, by its kind."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        routes = json.loads(_output("ip", "-json", "route", "show", "table", "all"))
        return {
            "processes": self.processes(),
            "mounts": [line for line in mounts if str(self.root) in line or self.name in line],
            "links": [
                link["ifname"] for link in json.loads(_output("ip", "-json", "link")) if link["ifname"] == self.name
            ],
            "routes": [route["dst"] for route in routes if route.get("dev") == self.name],
            "cgroups": [str(path) for path in self._cgroups()],
            "files": [str(self.root)] if self.root.exists() else [],
        }

    def _is_its(self, process: Path, command: str) -> bool:
        if process.name == str(os.getpid()):
            return False
        is_inside = _space(process, "net") == self.network or f"/{self.name}/" in _text(process / "cgroup")
        return is_inside or str(self.root) in command

    def _cgroups(self) -> Iterator[Path]:
        top = Path("/sys/fs/cgroup")
        yield from top.glob(self.name)
        yield from top.glob(f"*/{self.name}")


def _command(process: Path) -> str:
    """Empty for a process that has ended."""
    return _text(process / "cmdline").replace("\0", " ").strip()


def _space(process: Path, kind: str) -> str:
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _output(*command: str) -> str:
    return subprocess.run(command, env={"PATH": _PATH}, capture_output=True, text=True, check=True).stdout
