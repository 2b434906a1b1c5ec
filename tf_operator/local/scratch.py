"""A state folder for one command: gone when the command has ended, however it ended.

A process that is killed can clean up nothing, so a shell waits beside it for the end of a pipe, which is closed with
the process, and deletes the folder then. Where the shell was killed, too, the next command does it.

It is a temporary folder, so that nothing stays for ever. But a training may last for weeks, and systemd-tmpfiles
deletes what is older than 10 days, except in a folder with a lock on it.
"""

import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from tf_operator.local import short_paths
from tf_operator.local.node.processes import spawner
from tf_operator.local.state import StateError, StateFolder

PROCESSES: Final = "processes"
"""In the folder: what the spawner of the command has to remember."""
_PREFIX: Final = "tfjob-run-"
_OURS: Final = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_MOST: Final = 1000
"""So many folders are looked at: anybody may make more."""
# A line says that every program has ended. Without one the process was killed, and its programs have a second after
# SIGTERM: what they save may make the folder again.
_REMOVE: Final = """
read -r _ && ended=1
rm -rf -- "$0" "$1"
[ "$ended" ] && [ ! -e "$0" ] && exit
sleep 2
chmod -R u+rwx -- "$0"
rm -rf -- "$0"
"""


@contextmanager
def folder() -> Iterator[StateFolder]:
    """A new folder, owned by this process until the block is left."""
    _clean_up(Path(tempfile.gettempdir()))
    state = StateFolder(Path(tempfile.mkdtemp(prefix=_PREFIX)))
    remover = subprocess.Popen(  # noqa: S603 (nothing of a user in it)
        ["/bin/sh", "-c", _REMOVE, str(state.path), str(short_paths.link_to(state.node))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C at the terminal is for the command alone
    )
    try:
        with state.owned(), _protect(state.path):
            yield state
            state.purge()
    finally:
        remover.communicate(b"\n")


@contextmanager
def _protect(path: Path) -> Iterator[None]:
    """Keep a folder from those who delete what is old, as far as its file system knows locks on folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _clean_up(temporary: Path) -> None:
    """End what commands have left that were killed with all that they had started."""
    with suppress(OSError), os.scandir(temporary) as entries:
        for entry in islice(filter(lambda each: _OURS.fullmatch(each.name), entries), _MOST):
            state = StateFolder(Path(entry.path))
            descriptor = state.lock_abandoned()
            if descriptor < 0:
                continue
            try:
                with suppress(StateError, OSError, ValueError):
                    spawner.kill_left_over(state.path / PROCESSES)
                    short_paths.remove(state.node)
                    state.purge()
            finally:
                os.close(descriptor)
