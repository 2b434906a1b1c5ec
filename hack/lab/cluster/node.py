"""One node of a one-machine cluster: mounts of its own, containerd in them, then a kubelet.

Run inside the cluster's namespaces as `unshare --mount --uts python -m lab.cluster.node`, by cluster.py through
the supervisor and by nobody else; standard library only. The node sees the host's files, except that /run, /var/lib and
/var/log are its own, so that containerd, kubelet and CNI have all their usual paths and no node meets another. No
mount that it makes is seen outside, and all of them end with its last process.

The kubelet wants some settings of the kernel changed for the whole machine. It finds them changed: files with the
values that it wants lie over the real ones.
"""

import argparse
import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_BIND, _REC, _SHARED = 0x1000, 0x4000, 0x100000
_CONTAINERD_SECONDS: Final = 60.0
# What lies in the node's folder, as the node itself sees it.
OWN: Final = Path("/run/node")
# What kubelet would otherwise write into the kernel.
_SETTINGS: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_LIBC = ctypes.CDLL(None, use_errno=True)


class NodeFailedError(Exception):
    """A part of the node has ended; the message says which, and where its log is."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster_node")
    parser.add_argument("--name", required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--kubelet", type=Path, required=True)
    arguments = parser.parse_args()
    socket.sethostname(arguments.name)
    furnish(arguments.dir, arguments.kubelet)
    try:
        run(arguments.name)
    except NodeFailedError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


def furnish(folder: Path, kubelet: Path) -> None:
    """Make the node's own view of the file system; paths of the host may be hidden behind it afterwards."""
    (folder / "pid").write_text(str(Path("/proc/self").readlink()))  # this /proc still counts as the host does
    for name in ("lib", "log"):
        (folder / name).mkdir()
    own, program = (os.open(path, os.O_PATH) for path in (folder, kubelet))
    _mount("none", "/", flags=_REC | _SHARED)
    _mount("proc", "/proc", kind="proc")
    _mount("tmpfs", "/run", kind="tmpfs", data="mode=755")
    OWN.mkdir()
    _mount(f"/proc/self/fd/{own}", OWN, flags=_BIND)
    (OWN / "kubelet").touch()
    _mount(f"/proc/self/fd/{program}", OWN / "kubelet", flags=_BIND)
    _mount(OWN / "lib", "/var/lib", flags=_BIND)
    _mount(OWN / "log", "/var/log", flags=_BIND)
    for number, (name, value) in enumerate(_SETTINGS.items()):
        setting = Path("/proc/sys") / name
        if setting.exists():
            fake = Path(f"/run/setting-{number}")
            fake.write_text(f"{value}\n")
            _mount(fake, setting, flags=_BIND)
    os.close(own)
    os.close(program)


def run(name: str) -> None:
    """Start containerd, give it the image of every pod's first container, start kubelet, and watch over both."""
    containerd = _start("containerd", ["containerd", f"--config={OWN}/containerd.toml"])
    _wait_answering(containerd)
    _import_image(OWN / "pause.tar")
    kubelet = _start(
        "kubelet",
        [
            str(OWN / "kubelet"),
            f"--config={OWN}/kubelet.json",
            f"--kubeconfig={OWN}/kubeconfig",
            f"--hostname-override={name}",
            f"--node-ip={(OWN / 'address').read_text()}",
            "--v=1",
        ],
    )
    while containerd.poll() is None and kubelet.poll() is None:
        time.sleep(0.5)
    program = "containerd" if kubelet.poll() is None else "kubelet"
    for process in (containerd, kubelet):
        process.kill()
    raise NodeFailedError(f"{program} has ended; see {program}.log")


def _start(name: str, argv: list[str]) -> subprocess.Popen[bytes]:
    with Path(f"/var/log/{name}.log").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")


def _wait_answering(containerd: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _CONTAINERD_SECONDS
    while subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode != 0:
        if containerd.poll() is not None:
            raise NodeFailedError("containerd has ended; see containerd.log")
        if time.monotonic() > deadline:
            raise NodeFailedError(f"containerd does not answer after {_CONTAINERD_SECONDS:.0f} s; see containerd.log")
        time.sleep(0.1)


def _import_image(archive: Path) -> None:
    process = subprocess.run(
        ["ctr", "--namespace=k8s.io", "images", "import", archive], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise NodeFailedError(f"containerd cannot take {archive.name}: {process.stderr.strip()}")


def _mount(source: str | Path, target: str | Path, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2) itself: mount(8) would look for the paths behind descriptors, which may be hidden."""
    words = (str(word).encode() for word in (source, target, kind))
    if _LIBC.mount(*words, ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
