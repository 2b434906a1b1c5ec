"""The logs of all pods of a node, and their readers: the ``LogSource`` of the API server.

A pod's logs are in a folder with its UID, and stay as long as the pod is an object, however often the node is started
again: ``keep_only`` removes the others. Readers get whole lines, in order, with or without the times.
"""

import shutil
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

from tf_operator.local.log_source import LogGone
from tf_operator.local.node.logs import log_records
from tf_operator.local.node.logs.container_log import MOST_BYTES, ContainerLog
from tf_operator.local.node.logs.log_records import Lines, LogWish
from tf_operator.machinery.clock import Clock
from tf_operator.meta import ObjectKey

_LINES = 256
_LONGEST = 10**9
"""Seconds back that a reader may ask for; more has no date."""


class NodeLogs:
    """The logs of all pods of a node, by the pods' namespaces and names."""

    def __init__(self, folder: Path, clock: Clock, *, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._clock = clock
        self._most_bytes = most_bytes
        self._uids: dict[ObjectKey, str] = {}
        self._written: dict[str, dict[str, ContainerLog]] = {}
        """The latest log of each container, by UID and name."""

    def know(self, pod: ObjectKey, uid: str) -> None:
        """There is this pod, which may have logs from earlier."""
        self._uids[pod] = uid

    def begin(self, uid: str, container: str, restarts: int) -> ContainerLog:
        folder = self._folder / uid / container
        log = ContainerLog(folder, restarts, clock=self._clock, most_bytes=self._most_bytes)
        self._written.setdefault(uid, {})[container] = log
        return log

    def close(self, uid: str) -> None:
        """Nothing of the pod runs any more; who follows its logs comes to their end."""
        for log in self._written.pop(uid, {}).values():
            log.close()

    def remove(self, pod: ObjectKey, uid: str) -> None:
        self.close(uid)
        if self._uids.get(pod) == uid:
            del self._uids[pod]
        shutil.rmtree(self._folder / uid, ignore_errors=True)

    def keep_only(self, uids: Collection[str]) -> None:
        """Remove what pods have left that are gone: they were deleted while no node ran."""
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if folder.name not in uids:
                shutil.rmtree(folder, ignore_errors=True)

    def read(
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
        """The lines that are asked for, in pieces; ``LogGone`` at once if there is no such log."""
        uid = self._uids.get(ObjectKey(namespace, pod), "")
        runs = log_records.runs_in(self._folder / uid / container) if uid else []
        run_count = 2 if previous else 1
        if len(runs) < run_count:
            raise LogGone
        path = log_records.file_of(self._folder / uid / container, runs[-run_count])
        log = self._written.get(uid, {}).get(container)
        since = None if since_seconds is None else self._clock.now() - timedelta(seconds=min(since_seconds, _LONGEST))
        wish = LogWish(tail_lines, since, with_times=timestamps)
        pieces = self._pieces(path, wish, log if follow and log and log.path == path else None)
        return _limit_bytes(pieces, limit_bytes)

    async def _pieces(self, path: Path, wish: LogWish, log: ContainerLog | None) -> AsyncIterator[bytes]:
        lines = Lines(wish)
        with ExitStack() as files, suppress(FileNotFoundError):  # the pod went meanwhile
            rotations = log.rotations if log else 0
            file = files.enter_context(path.open("rb"))
            if wish.tail_lines is None:
                all_now: Iterable[bytes] = log_records.all_of(path, file)
            else:
                all_now = log_records.tail_of(path, wish.tail_lines)
                file.seek(0, 2)
            for batch in _batches(all_now):
                yield b"".join(map(lines.render, batch))
                await self._clock.sleep(0)  # others have their turn in a long log
            while log:
                change, is_last, now = log.changed, log.is_closed, log.rotations
                for batch in _batches(file):
                    yield b"".join(map(lines.render, batch))
                if now > rotations:
                    files.close()
                    rotations, file = now, files.enter_context(path.open("rb"))
                elif is_last:
                    return
                else:
                    await change.wait()


async def _limit_bytes(pieces: AsyncIterator[bytes], rest: int | None) -> AsyncIterator[bytes]:
    async for whole in pieces:
        piece = whole[:rest]
        if piece:
            yield piece
        if rest is not None:
            rest -= len(piece)
            if not rest:
                return


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(lines)
    while batch := list(islice(rest, _LINES)):
        yield batch
