"""The processes of a pod that may still use its GPUs: those with its mark, and those of its sessions that are ending.

A process that ends gives up its memory, and with it its environment, before its files, and the driver may take its time
over these. Until then it is known by its session.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_operator.local.node.processes.spawner import MARK

_PROC: Final = Path("/proc")
_PF_EXITING: Final = 0x4


def processes_of(uid: str) -> Iterator[int]:
    """The numbers of the processes that run containers of a pod."""
    mark = f"\0{MARK}={uid}/".encode()
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if mark in b"\0" + (process / "environ").read_bytes():
                yield int(process.name)


def has_any(uid: str, sessions: Collection[int]) -> bool:
    if any(True for _ in processes_of(uid)):
        return True
    return bool(sessions) and any(_is_ending(process, sessions) for process in _PROC.glob("[0-9]*"))


def _is_ending(process: Path, sessions: Collection[int]) -> bool:
    with suppress(OSError):
        # The name in parentheses may hold anything, so the fields are counted from its end.
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        is_zombie, threads = fields[0] in "ZX", int(fields[17])
        is_ending = bool(int(fields[6]) & _PF_EXITING) and (not is_zombie or threads > 1)
        return is_ending and int(fields[3]) in sessions
    return False
