"""A state folder for one command: gone when the command has ended, however it ended.

A process that is killed can clean up nothing, so a shell waits beside it for the end of a pipe, which is closed with
the process, and deletes the folder then.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tf_operator.local.state import StateFolder

# A line says that every program has ended. Without one the process was killed, and its programs have a second after
# SIGTERM: what they save may make the folder again.
_REMOVE: Final = """
read -r _ && ended=1
rm -rf -- "$0"
[ "$ended" ] && [ ! -e "$0" ] && exit
sleep 2
chmod -R u+rwx -- "$0"
rm -rf -- "$0"
"""


@contextmanager
def folder() -> Iterator[StateFolder]:
    """A new folder, owned by this process until the block is left."""
    state = StateFolder(Path(tempfile.mkdtemp(prefix="tfjob-")))
    remover = subprocess.Popen(  # noqa: S603 (nothing of a user in it)
        ["/bin/sh", "-c", _REMOVE, str(state.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C at the terminal is for the command alone
    )
    try:
        with state.owned():
            yield state
            state.purge()
    finally:
        remover.communicate(b"\n")
