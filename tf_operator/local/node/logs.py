"""The output of containers: files with a time before each line, one for each run, rotated by size; and its readers.

A run's file is ``<restarts>.log``; when it is full it becomes ``<restarts>.log.1`` in place of an older one, so a run
keeps between one and two times the limit. The runs before the previous one are removed. ``NodeLogs`` is the
``LogSource`` of the API server: whole lines, in order, with or without the times.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tf_operator.machinery.clock import Clock
from tf_operator.meta import micro_time, parse_time

MOST_BYTES = 10 * 1024 * 1024
LONGEST_LINE = 16 * 1024
"""A longer one is cut into several, as by a container runtime."""
_PIECE = 64 * 1024
_LINES = 256
_LONGEST = 10**9
"""Seconds back that a reader may ask for; more has no date."""
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048


class ContainerLog:
    """The log of one run, while it is written and after."""

    def __init__(self, folder: Path, restarts: int, *, clock: Clock, most_bytes: int = MOST_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{restarts}.log"
        self.rotations = 0
        self.is_closed = False
        self._clock = clock
        self._most_bytes = most_bytes
        self._file = self.path.open("ab", buffering=0)
        self._size = 0
        self._rest = b""
        self._changed = asyncio.Event()
        for old in folder.glob(f"{restarts - 2}.log*"):
            old.unlink()

    def write(self, data: bytes) -> None:
        """Add output; a line is written when it is whole, or too long. What comes after the end of the run is lost."""
        if self.is_closed:
            return
        *lines, rest = (self._rest + data).split(b"\n")
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        self._append(lines)

    def close(self) -> None:
        """The run is over: write the line that has no end."""
        if not self.is_closed:
            self._append([self._rest] if self._rest else [])
            self.is_closed = True
            self._file.close()
            self._notify()

    @property
    def changed(self) -> asyncio.Event:
        """Is set when there is more to read than now, or when it is closed."""
        return self._changed

    def last_words(self) -> str:
        """The end of the log, for the termination message."""
        lines = _last_lines(self.path, _FALLBACK_LINES)
        return b"\n".join(_without_time(line) for line in lines)[-_FALLBACK_BYTES:].decode(errors="replace")

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        time = micro_time(self._clock.now()).encode() + b" "
        text = time + (b"\n" + time).join(lines) + b"\n"
        with suppress(OSError):  # without room on the disk these lines are lost; the container goes on
            if self._size + len(text) > self._most_bytes and self._size:
                self._rotate()
            self._file.write(text)
            self._size += len(text)
        self._notify()

    def _rotate(self) -> None:
        self._file.close()
        self.path.rename(rotated(self.path))
        self._file = self.path.open("ab", buffering=0)
        self._size = 0
        self.rotations += 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self.is_closed:
            self._changed.set()


def rotated(path: Path) -> Path:
    """Where the older half of a log is."""
    return path.with_name(f"{path.name}.1")


@dataclass(frozen=True, slots=True)
class LogWish:
    """Which part of a log is asked for."""

    tail_lines: int | None = None
    since: datetime | None = None
    with_times: bool = False


class NodeLogs:
    """The logs of all pods of a node, by the pods' namespaces and names."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[tuple[str, str], dict[str, deque[ContainerLog]]] = {}

    def add(self, namespace: str, pod: str, container: str, log: ContainerLog) -> None:
        """A container has begun a run."""
        runs = self._pods.setdefault((namespace, pod), {}).setdefault(container, deque(maxlen=2))
        runs.append(log)

    def forget(self, namespace: str, pod: str) -> None:
        """The pod is gone; who follows its logs comes to their end."""
        for runs in self._pods.pop((namespace, pod), {}).values():
            for log in runs:
                log.close()

    async def read(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """The lines that are asked for, in pieces. Nothing if there is no such log: the pod's status says why."""
        log = self._log(namespace, pod, container, previous=previous)
        if log is None:
            return
        since = None if since_seconds is None else self._clock.now() - timedelta(seconds=min(since_seconds, _LONGEST))
        wish = LogWish(tail_lines, since, with_times=timestamps)
        left = limit_bytes
        async for lines in self._pieces(log, wish, follow=follow and not previous):
            piece = b"".join(lines)[:left]
            if piece:
                yield piece
            if left is not None:
                left -= len(piece)
                if not left:
                    return

    def _log(self, namespace: str, pod: str, container: str, *, previous: bool) -> ContainerLog | None:
        runs = self._pods.get((namespace, pod), {}).get(container, ())
        wanted = 2 if previous else 1
        return runs[-wanted] if len(runs) >= wanted else None

    async def _pieces(self, log: ContainerLog, wish: LogWish, *, follow: bool) -> AsyncIterator[list[bytes]]:
        with ExitStack() as files:
            rotations, file = log.rotations, files.enter_context(log.path.open("rb"))
            all_now = _all(log.path, file) if wish.tail_lines is None else _last_lines(log.path, wish.tail_lines, file)
            for lines in _batches(all_now):
                yield [_shown(line, wish) for line in lines if _is_since(line, wish.since)]
                await self._clock.sleep(0)  # others have their turn in a long log
            while follow:
                changed, is_last, now = log.changed, log.is_closed, log.rotations
                for lines in _batches(line.rstrip(b"\n") for line in file):
                    yield [_shown(line, wish) for line in lines]
                if now > rotations:
                    files.close()
                    rotations, file = now, files.enter_context(log.path.open("rb"))
                elif is_last:
                    return
                else:
                    await changed.wait()


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(lines)
    while batch := list(islice(rest, _LINES)):
        yield batch


def _all(path: Path, now: BinaryIO) -> Iterator[bytes]:
    """The lines of a log: the older half, then the newer."""
    if rotated(path).exists():
        with rotated(path).open("rb") as older:
            yield from (line.rstrip(b"\n") for line in older)
    yield from (line.rstrip(b"\n") for line in now)


def _last_lines(path: Path, count: int, end: BinaryIO | None = None) -> list[bytes]:
    """The last lines, read from the end; ``end`` is left there."""
    found: deque[bytes] = deque()
    for half in (path, rotated(path)):
        if half.exists() and len(found) < count:
            found.extendleft(_from_end(half, count - len(found)))
    if end:
        end.seek(0, 2)
    return list(found)


def _from_end(path: Path, count: int) -> Iterator[bytes]:
    """The last lines of a file, the last one first."""
    with path.open("rb") as file:
        place, rest = file.seek(0, 2), b""
        while place and count > 0:
            start = max(place - _PIECE, 0)
            file.seek(start)
            rest = file.read(place - start) + rest
            place = start
            first, *lines = rest.split(b"\n")
            for line in reversed([line for line in lines if line] if place else [first, *filter(None, lines)]):
                if count:
                    yield line
                    count -= 1
            rest = first


def _without_time(line: bytes) -> bytes:
    return line.partition(b" ")[2]


def _is_since(line: bytes, since: datetime | None) -> bool:
    if since is None:
        return True
    time = parse_time(line.partition(b" ")[0].decode())
    return time is None or time >= since


def _shown(line: bytes, wish: LogWish) -> bytes:
    return (line if wish.with_times else _without_time(line)) + b"\n"
