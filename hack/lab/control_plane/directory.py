"""The directory of one control plane: who may use it, what lies in it, what is removed at the end.

Standard library only; used by the supervisor, which claims and clears the directory, and by everybody who
reads it. Invariants: the supervisor holds a lock on the directory itself as long as it lives, so "is there
a live plane?" never depends on a pid; a directory without our marker is never touched; at the end only
what we made is removed, and the directory itself when nothing else is left in it.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Final

MARKER: Final = "tf-operator control plane"
# Everything a plane makes in its directory. The marker goes last, so that a clearing which was
# interrupted can still be recognised and finished by the next one.
_MADE: Final = (
    "*.kubeconfig",
    "nodes",
    "volume-plugins",
    "services",
    "etcd",
    "pki",
    "audit",
    "logs",
    "state.json.new",
    "state.json",
)


class DirectoryRefusedError(Exception):
    """The directory is not free for a plane, or not a plane's at all; the message says which and why."""


class Layout:
    """Paths inside the directory of one plane."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state.json"
        self.etcd_data = root / "etcd"
        self.pki = root / "pki"
        # The certificate that kube-apiserver makes for itself, followed by that of its authority.
        self.serving_cert = self.pki / "apiserver.crt"
        self.serving_key = self.pki / "apiserver.key"
        self.tokens = self.pki / "tokens.csv"
        # Nobody has any; but kube-controller-manager would make its usual folder for them on the host.
        self.volume_plugins = root / "volume-plugins"
        self.audit_policy = root / "audit" / "policy.json"
        self.egress = root / "services" / "egress.json"
        self.services_socket = root / "services" / "proxy"

    def audit_log(self, server: str) -> Path:
        return self.root / "audit" / f"{server}.log"

    def log(self, server: str) -> Path:
        return self.root / "logs" / f"{server}.log"

    def kubeconfig(self, name: str) -> Path:
        return self.root / f"{name}.kubeconfig"


def claim(root: Path) -> int:
    """Take *root* for the calling process, for as long as it keeps the returned descriptor open.

    Raise DirectoryRefusedError when a live plane has it, or when it holds things that are not a plane's.
    The remains of a plane whose supervisor is gone stay where they are: the caller clears them.
    """
    while True:
        root.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock_patiently(lock, root)
            _refuse_foreign(root)
            if _is_same(lock, root):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # its last owner removed it between our mkdir and our lock: again


def is_claimed(root: Path) -> bool:
    """Say whether a live supervisor holds *root*."""
    try:
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        _lock(lock, root)
    except DirectoryRefusedError:
        return True
    finally:
        os.close(lock)
    return False


def read_state(root: Path) -> dict[str, Any] | None:
    """What the supervisor last wrote down, or None when there is no plane, live or dead, in *root*.

    Raise DirectoryRefusedError when the directory has contents but none of them is our marker.
    """
    try:
        state = json.loads(Layout(root).state.read_text())
    except FileNotFoundError:
        _refuse_foreign(root)
        return None
    except ValueError as error:
        raise DirectoryRefusedError(f"{root} is not a control plane's: state.json is not ours") from error
    if not isinstance(state, dict) or state.get("marker") != MARKER:
        raise DirectoryRefusedError(f"{root} is not a control plane's: state.json is not ours")
    return state


def write_state(root: Path, state: dict[str, Any]) -> None:
    """Replace the state in one step: a reader never sees half of it."""
    fresh = root / "state.json.new"
    fresh.write_text(json.dumps({"marker": MARKER} | state, indent=1))
    fresh.replace(Layout(root).state)


def clear(root: Path) -> list[str]:
    """Remove all that a plane made, and *root* with it; return the names of what others left there."""
    for pattern in _MADE:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        foreign = sorted(path.name for path in root.iterdir())
        if not foreign:
            root.rmdir()
        return foreign
    return []


def _lock_patiently(descriptor: int, root: Path) -> None:
    """is_claimed() holds the lock for a moment: that must not refuse a supervisor."""
    for _ in range(10):
        with contextlib.suppress(DirectoryRefusedError):
            return _lock(descriptor, root)
        time.sleep(0.02)
    return _lock(descriptor, root)


def _lock(descriptor: int, root: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryRefusedError(f"a control plane is running in {root} already") from error


def _is_same(descriptor: int, root: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), root.stat())
    return False


def _refuse_foreign(root: Path) -> None:
    """Refuse a directory that has contents but no marker, be it one that is just being written."""
    names = {path.name for path in root.iterdir()} if root.is_dir() else set()
    if names and names.isdisjoint(("state.json", "state.json.new")):
        raise DirectoryRefusedError(f"{root} is not empty and not a control plane's: choose another directory")
