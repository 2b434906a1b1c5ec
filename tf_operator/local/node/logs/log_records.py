"""The files of a container's log: their records, and how lines are made of them again.

A run's file is ``<restarts>.log``; when it is full it becomes ``<restarts>.log.1`` in place of an older one. A record
is one line of it, in the form of container runtimes: the time, ``F``, and the text. A line that is longer than a record
may be is several records, all but the last with ``P`` in place of ``F``. Nothing here waits or writes.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tf_operator.meta import parse_time

LONGEST_RECORD = 16 * 1024
"""Bytes of text."""
_WHOLE, _PART = b"F", b"P"
_PIECE = 64 * 1024
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048


class Record(NamedTuple):
    time: bytes
    is_last: bool
    """Whether a line ends with it."""
    text: bytes


@dataclass(frozen=True, slots=True)
class LogWish:
    """Which part of a log is asked for."""

    tail_lines: int | None = None
    since: datetime | None = None
    with_times: bool = False


def file_of(folder: Path, restarts: int) -> Path:
    return folder / f"{restarts}.log"


def runs_in(folder: Path) -> list[int]:
    return sorted(int(name) for file in folder.glob("*.log") if (name := file.stem).isdecimal())


def rotated(path: Path) -> Path:
    """Where the older half of a log is."""
    return path.with_name(f"{path.name}.1")


def raw(time: bytes, text: bytes, *, is_last: bool) -> bytes:
    """A record as it stands in a file."""
    return b" ".join((time, _WHOLE if is_last else _PART, text)) + b"\n"


def parse(line: bytes) -> Record:
    """A record; a line that is none, as a disk that was full may leave, is text alone."""
    time, _, rest = line.rstrip(b"\n").partition(b" ")
    tag, space, text = rest.partition(b" ")
    if space and tag in (_WHOLE, _PART):
        return Record(time, tag == _WHOLE, text)
    return Record(b"", is_last=True, text=line.rstrip(b"\n"))


class Lines:
    """Makes lines of records, as a kubelet does: a line has its time in front of it once, and one end."""

    def __init__(self, wish: LogWish) -> None:
        self._wish = wish
        self._is_inside = False
        self._is_wanted = True

    def render(self, line: bytes) -> bytes:
        record, begins = parse(line), not self._is_inside
        if begins:
            self._is_wanted = _is_since(record, self._wish.since)
        self._is_inside = not record.is_last
        if not self._is_wanted:
            return b""
        stamp = record.time + b" " if begins and record.time and self._wish.with_times else b""
        return stamp + record.text + b"\n" * record.is_last


def all_of(path: Path, now: BinaryIO) -> Iterator[bytes]:
    """The records of a log: the older half, then the newer, which is open already."""
    if rotated(path).exists():
        with rotated(path).open("rb") as older:
            yield from older
    yield from now


def tail_of(path: Path, count: int) -> Iterable[bytes]:
    """The records of the last lines, read from the end."""
    records: deque[bytes] = deque()
    lines = 0
    for line in (line for half in (path, rotated(path)) if half.exists() for line in _from_end(half)):
        if parse(line).is_last or not records:
            if lines == count:
                break
            lines += 1
        records.appendleft(line)
    return records


def last_words(path: Path) -> str:
    """The end of a log, for the termination message."""
    lines = Lines(LogWish())
    text = b"".join(map(lines.render, tail_of(path, _FALLBACK_LINES))).removesuffix(b"\n")
    return text[-_FALLBACK_BYTES:].decode(errors="replace")


def _from_end(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        place, rest = file.seek(0, 2), b""
        while place:
            start = max(place - _PIECE, 0)
            file.seek(start)
            rest, *lines = (file.read(place - start) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            place = start
        if rest:
            yield rest


def _is_since(record: Record, since: datetime | None) -> bool:
    if since is None:
        return True
    time = parse_time(record.time.decode(errors="replace"))
    return time is None or time >= since
