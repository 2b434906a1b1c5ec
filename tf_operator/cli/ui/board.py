"""All jobs that the user may list, as rows: one watch for each kind, however many pages are open.

Of a job only its row is kept, a few hundred bytes. A page gets all rows first, then those that change.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from tf_operator.cli.ui import feed
from tf_operator.cli.ui.feed import Feed
from tf_operator.cli.ui.refusals import RefusalLog
from tf_operator.client import progress
from tf_operator.client.job import Job, read_job
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.curves import SmallCurve
from tf_operator.job.progress import Progress
from tf_operator.job.record import JobPhase
from tf_operator.machinery.cache.decoding import Decode
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.reflector import WatchClient
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.requests import Scope
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import ObjectKey, resource_version_of, rfc3339

_ROWS_AT_ONCE: Final = 2000
_MOST_MESSAGE: Final = 200


@dataclass(frozen=True, slots=True)
class JobRow:
    metadata: ObjectMeta
    text: bytes
    """JSON."""
    report: Progress | None = None
    """The last one of its program."""
    is_queued: bool = False


def kind_name(api: ServedAPI) -> str:
    """A kind, as users name it and as addresses of pages have it: ``tfjob.kubeflow.org``."""
    return f"{api.resource.kind}.{api.resource.group}".lower()


def row_reader(api: ServedAPI) -> Decode[JobRow]:
    def read(raw: msgspec.Raw) -> JobRow:
        job = read_job(msgspec.json.decode(raw), api)
        metadata = ObjectMeta(job.name, job.namespace, job.uid, resource_version_of(job.body))
        return JobRow(
            metadata,
            msgspec.json.encode(row(job, kind_name(api))),
            job.spec.record.progress,
            job.phase is JobPhase.QUEUED,
        )

    return read


def row(job: Job, kind: str) -> Mapping[str, object]:
    return {
        "id": f"{kind}/{job.namespace}/{job.name}",
        "kind": kind,
        "namespace": job.namespace,
        "name": job.name,
        "state": state(job),
        "ready": job.ready,
        "restarts": job.restarts,
        "created": moment(job.created),
        "progress": progress_of(job),
        "message": feed.printable(job.message, _MOST_MESSAGE),
    }


def progress_of(job: Job) -> Mapping[str, object] | None:
    """How far the program is, as it has reported; ``None`` if it never has."""
    report = job.spec.record.progress
    if report is None:
        return None
    _, left = progress.cells(job)
    saved = report.checkpoint
    mark = None
    if saved and report.step and report.percentage is not None and saved.step <= report.step:
        mark = report.percentage * saved.step // report.step
    return {
        "percentage": report.percentage,
        "left": "" if left == "-" else left,
        "step": report.step,
        "checkpoint": saved.step if saved else None,
        "mark": mark,
        "hung": job.spec.record.progress_clock.is_hung and not job.is_finished,
    }


def state(job: Job) -> str:
    return "Terminating" if job.spec.is_being_deleted else job.phase or "New"


def moment(time: datetime | None) -> str | None:
    return rfc3339(time) if time else None


def of(
    scopes: Mapping[ServedAPI, Sequence[Scope]], *, client: WatchClient, clock: Clock, title: str, note: str = ""
) -> "Board":
    """The board of these APIs, each in the namespaces that may be listed."""
    refusals = RefusalLog(client)
    informers = {
        kind_name(api): Informer(api.resource, client=refusals, clock=clock, decode=row_reader(api), scopes=places)
        for api, places in scopes.items()
    }
    return Board(informers, refusals=refusals, title=title, note=note)


class Board(Feed):
    def __init__(
        self, informers: Mapping[str, Informer[JobRow]], *, refusals: RefusalLog, title: str, note: str = ""
    ) -> None:
        """``informers`` are by the name of the kind; ``note``: what the user does not see, and why."""
        super().__init__()
        self.informers = informers
        self._refusals = refusals
        refusals.changed = self.changed
        self.head = {"title": title, "note": note, "kinds": list(informers)}
        self._cursors = set[BoardCursor]()
        self._curves = dict[tuple[str, ObjectKey], SmallCurve]()
        """Of those jobs that report a number."""
        for kind, informer in informers.items():
            informer.add_handler(_Handler(self, kind))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.values():
                tasks.create_task(informer.run())
            for informer in self.informers.values():
                await informer.wait_settled()
            self.changed()

    @property
    def is_complete(self) -> bool:
        """Whether every job that was there has a row."""
        return all(informer.has_settled for informer in self.informers.values())

    @property
    def problem(self) -> str:
        """Why the rows may be old, or why there are none; empty when all is well."""
        if not (text := self._refusals.text):
            return ""
        has_rows = any(informer.has_synced for informer in self.informers.values())
        return feed.printable(text) + (". The data may be out of date." if has_rows else ".")

    @property
    def has_queued(self) -> bool:
        """Whether a job waits in the job queue."""
        return any(item.is_queued for informer in self.informers.values() for item in informer.store)

    def opened(self) -> "BoardCursor":
        cursor = BoardCursor(self)
        self._cursors.add(cursor)
        return cursor

    def closed(self, cursor: "BoardCursor") -> None:
        self._cursors.discard(cursor)

    def curve(self, kind: str, key: ObjectKey) -> SmallCurve | None:
        return self._curves.get((kind, key))

    def row_read(self, kind: str, row: JobRow) -> None:
        """A job is new, or was read again: its curve goes on."""
        curve = self._curves.get((kind, row.metadata.key)) or SmallCurve()
        curve.add(row.report)
        if curve.values:
            self._curves[kind, row.metadata.key] = curve

    def row_gone(self, kind: str, key: ObjectKey) -> None:
        self._curves.pop((kind, key), None)
        for cursor in self._cursors:
            cursor.waiting[kind, key] = True
        self.changed()

    def row_changed(self, kind: str, key: ObjectKey) -> None:
        for cursor in self._cursors:
            cursor.waiting.setdefault((kind, key), False)
        self.changed()


class BoardCursor:
    """What one page has still to be sent: names of jobs, each once, however often it has changed."""

    is_ended = False

    def __init__(self, board: Board) -> None:
        self._board = board
        self.waiting: dict[tuple[str, ObjectKey], bool] = {
            (kind, item.metadata.key): False for kind, informer in board.informers.items() for item in informer.store
        }
        """And whether a job of this name is gone, of which the page must keep nothing if another one has it by now."""
        self._has_begun = self._is_complete = False
        self._problem = ""

    def news(self) -> list[bytes]:
        return list(self._frames())

    def _frames(self) -> Iterator[bytes]:
        if not self._has_begun:
            self._has_begun = True
            yield feed.frame("head", self._board.head)
        taken = [key for key, _ in zip(self.waiting, range(_ROWS_AT_ONCE), strict=False)]
        rows, gone, curves = list[bytes](), list[bytes](), list[bytes]()
        for kind, key in taken:
            is_gone = self.waiting.pop((kind, key))
            item = self._board.informers[kind].store.get(key)
            gone += [msgspec.json.encode(f"{kind}/{key}")] if is_gone or item is None else []
            rows += [item.text] if item else []
            if item and (curve := self._board.curve(kind, key)):
                curves.append(msgspec.json.encode((f"{kind}/{key}", curve.name, curve.values)))
        yield from _lists(("gone", gone), ("rows", rows), ("curves", curves))
        if self._board.is_complete and not (self.waiting or self._is_complete):
            self._is_complete = True
            yield feed.frame("complete", value=True)
        if (problem := self._board.problem) != self._problem:
            self._problem = problem
            yield feed.frame("problem", problem)


def _lists(*lists: tuple[str, Sequence[bytes]]) -> Iterator[bytes]:
    return (feed.frame_of(event, encoded) for event, encoded in lists if encoded)


class _Handler:
    def __init__(self, board: Board, kind: str) -> None:
        self._board = board
        self._kind = kind

    def on_add(self, item: JobRow) -> None:
        self._board.row_read(self._kind, item)
        self._board.row_changed(self._kind, item.metadata.key)

    def on_update(self, old: JobRow, new: JobRow) -> None:
        self._board.row_read(self._kind, new)
        if old.text != new.text or old.report != new.report:
            self._board.row_changed(self._kind, new.metadata.key)

    def on_delete(self, last: JobRow, *, final_state_known: bool) -> None:  # noqa: ARG002 (it is gone either way)
        self._board.row_gone(self._kind, last.metadata.key)
