"""Files for one process, for what wants to read or write a file and nothing else: in memory where the system has that.

There may be no folder that can be written to, as in a container with a read-only root; and what is secret does not get
onto a disk.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


def scratch() -> IO[bytes]:
    """A file without a name, to be written and read."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("scratch"), "w+b")
    return tempfile.TemporaryFile()


@contextmanager
def path_of(content: bytes) -> Iterator[str]:
    """A path under which this process can read ``content``, and nobody else."""
    with scratch() if hasattr(os, "memfd_create") else tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.fileno()}"
