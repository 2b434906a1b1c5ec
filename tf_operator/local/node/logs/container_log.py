"""The log of one run of a container, while it is written: whole records at a time, rotated by size.

A run keeps between one and two times the limit. The runs before the previous one are removed.
"""

import asyncio
import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tf_operator.local.node.logs import log_records
from tf_operator.local.node.logs.log_records import LONGEST_RECORD, rotated
from tf_operator.machinery.clock import Clock
from tf_operator.meta import micro_time

MOST_BYTES = 10 * 1024 * 1024


class ContainerLog:
    """The log of one run."""

    def __init__(self, folder: Path, restarts: int, *, clock: Clock, most_bytes: int = MOST_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = log_records.file_of(folder, restarts)
        self.rotations = 0
        self.problem = ""
        """Why output was lost; empty unless it was."""
        self.is_closed = False
        self._clock = clock
        self._most_bytes = most_bytes
        self._file = _open(self.path)
        self._size = 0
        self._rest = b""
        self._is_inside = False
        """Whether the beginning of the line was written."""
        self._changed = asyncio.Event()
        for run in log_records.runs_in(folder):
            if run < restarts - 1:
                log_records.file_of(folder, run).unlink()
                rotated(log_records.file_of(folder, run)).unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Add output; a record is written when its line is whole, or too long. What comes after the end is lost."""
        if self.is_closed:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        records = [piece for line in lines for piece in _split(line)]
        *parts, (self._rest, _) = _split(rest)
        self._append([*records, *parts])

    def close(self) -> None:
        """The run is over: write the line that has no end."""
        if not self.is_closed:
            self._append([(self._rest, True)] if self._rest or self._is_inside else [])
            self.is_closed = True
            self._file.close()
            self._notify()

    @property
    def changed(self) -> asyncio.Event:
        """Is set when there is more to read than now, or when it is closed."""
        return self._changed

    def last_words(self) -> str:
        """The end of the log, for the termination message."""
        return log_records.last_words(self.path)

    def _append(self, records: list[tuple[bytes, bool]]) -> None:
        """Write texts, each with whether a line ends with it."""
        if not records:
            return
        self._is_inside = not records[-1][1]
        time = micro_time(self._clock.now()).encode()
        text = b"".join(log_records.raw(time, piece, is_last=is_last) for piece, is_last in records)
        if self._size and self._size + len(text) > self._most_bytes:
            with suppress(OSError):  # the file grows on, and the next records try again
                self._rotate()
        try:  # without room on the disk these records are lost; the container goes on
            if self._file.write(text) != len(text):
                self.problem = self.problem or os.strerror(errno.ENOSPC)
                self._file.truncate(self._size)  # not half a record, to which the next one would be added
            else:
                self._size += len(text)
        except OSError as error:
            self.problem = self.problem or error.strerror or str(error)
        self._notify()

    def _rotate(self) -> None:
        self.path.rename(rotated(self.path))
        try:
            file = _open(self.path)
        except OSError:
            rotated(self.path).rename(self.path)
            raise
        self._file.close()
        self._file, self._size = file, 0
        self.rotations += 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self.is_closed:
            self._changed.set()


def _split(line: bytes) -> list[tuple[bytes, bool]]:
    """A line in texts that fit into records, each with whether it is the last one."""
    starts = range(0, max(len(line), 1), LONGEST_RECORD)
    return [(line[start : start + LONGEST_RECORD], start == starts[-1]) for start in starts]


def _open(path: Path) -> BinaryIO:
    """The end of a file that only this user may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab", buffering=0)
