"""One maker at a time: two callers that want the same set of tools wait for each other.

A lock is a file with flock on it, so it goes away with its holder however that ends. What is written inside is
for people only: it tells the one who waits for whom.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolbox.progress import Progress


@contextmanager
def hold(path: Path, *, purpose: str, progress: Progress) -> Iterator[int]:
    """Hold the lock while the block runs; yields its descriptor, which a child may inherit to hold it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        acquire(descriptor, progress)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}, which is getting {purpose}".encode(), 0)
        yield descriptor
    finally:
        # Closing is releasing, except while a child that inherited the descriptor is still at work.
        os.close(descriptor)


def acquire(descriptor: int, progress: Progress) -> None:
    """Take the lock, and say for whom we wait if we have to."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another hack/tool"
        with progress.step(f"waiting for {holder}"):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
