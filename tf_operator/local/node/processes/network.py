"""The network of an isolated job: a namespace of Linux in which there is nothing but loopback.

    python -I -S network.py REPLIES            makes one
    python -I -S network.py REPLIES PATH...    makes a socket in the one that has these paths

A program of its own, because only a process with one thread may enter a user namespace: the standard library, and
nothing of this package. Its reply, on the socket REPLIES, is descriptors, or the reason why there are none.

Root makes a network namespace alone. Other users need a user namespace around it, in which they and their files have
the same numbers as outside. Nothing has to be cleaned up: a namespace is gone when its descriptors are closed and the
last program in it has ended.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path

MEANING = "a network of their own: nobody else reaches their ports, and they reach nothing outside"
"""What programs get."""
_NEW_USER, _NEW_NETWORK = 0x1000_0000, 0x4000_0000
_SET_FLAGS, _IS_UP = 0x8914, 1
_MOST_LOOKS = 100
_KINDS = ("user", "net")
"""In the order in which they are entered: in the first one, a user may enter the second."""


def main(replies: socket.socket, paths: list[str]) -> None:
    """Reply, and end."""
    try:
        descriptors = [] if paths else _make()
        enter(paths)
        with socket.socket() as inner:
            if not paths:
                fcntl.ioctl(inner, _SET_FLAGS, struct.pack("16sh", b"lo", _IS_UP))
            socket.send_fds(replies, [b"made"], [*descriptors, inner.fileno()])
    except OSError as error:
        replies.sendall(f"{error.filename or 'its network'}: {error.strerror}".encode())


def enter(paths: Iterable[str]) -> None:
    """Enter the namespaces that have these paths, with all programs that this process starts from now on."""
    descriptors = [os.open(path, os.O_RDONLY) for path in paths]  # from within the first, none could be opened
    if descriptors:
        _wait_for_threads()
    for descriptor in descriptors:
        _call("setns", descriptor, 0)
        os.close(descriptor)


def _wait_for_threads() -> None:
    """Until only one is left, at most a second: Linux knows a thread for a moment after Python has joined it."""
    looks = 0
    while len(list(Path("/proc/self/task").iterdir())) > 1 and looks < _MOST_LOOKS:
        time.sleep(0.01)  # noqa: TID251 (nothing else runs in the process that enters)
        looks += 1


def paths_of(process: Path) -> tuple[str, ...]:
    """Of the namespaces of a process that this one is not in. ``process``: its folder in ``/proc``.

    A kernel without user namespaces has no such files.
    """
    own_paths = [own for kind in _KINDS if (own := Path("/proc/self/ns", kind)).exists()]
    paths = ((process / "ns" / own.name, own) for own in own_paths)
    return tuple(str(path) for path, own in paths if not path.samefile(own))


def _make() -> list[int]:
    """Move into new namespaces; their descriptors, in the order of ``_KINDS``."""
    user, group, kinds = os.geteuid(), os.getegid(), list(_KINDS)
    try:
        _call("unshare", _NEW_NETWORK)
        kinds.remove("user")
    except PermissionError:
        _call("unshare", _NEW_USER | _NEW_NETWORK)
        for file, text in ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1"):
            Path("/proc/self", file).write_text(text)
    return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in kinds]


def _call(name: str, *arguments: int) -> None:
    if sys.platform != "linux":
        raise OSError(0, "there are network namespaces on Linux only", name)
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        reason = "a limit in /proc/sys/user is reached" if number == errno.ENOSPC else os.strerror(number)
        raise OSError(number, reason, name)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
