"""Jobs that have ended, which the local server remembers when they are deleted: the last ones, in a file of their own.

Each is a record as the operator logs it, so it is short whatever the job was. It is written when the job has ended,
and again for each later change of it; what was not, because the process was killed before, at the next start.

A file that cannot be written costs the history, and no job.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from tf_operator.controller import job_log
from tf_operator.dialects.served import ServedAPI
from tf_operator.local.apiserver.storage.store import Commit, VersionedStore
from tf_operator.local.local_kinds import ENDED_JOBS
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.meta import Body, rfc3339

MOST_JOBS: Final = 1000
RETENTION: Final = timedelta(days=30)
_SCHEMA: Final = "create table if not exists ended (uid text primary key, finished real not null, body blob not null)"
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])

_log = Logger(__name__)


class EndedJobs:
    def __init__(self, file: Path, clock: Clock, apis: Iterable[ServedAPI]) -> None:
        self._file = file
        self._clock = clock
        self._apis = {str(api.resource): api for api in apis}
        """By the names of the collections in which their jobs are."""
        self._connection: sqlite3.Connection | None = None

    def open(self, store: VersionedStore) -> None:
        """Remember what has ended in this store, and what ends from now on."""
        self._attempt(self._connect)
        for name in self._apis:
            for stored in store.collection(name).objects.values():
                self._note(name, stored.body)
        self._attempt(self._forget)
        store.listeners.append(self._on_change)

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def read(self, now: datetime) -> Iterable[Body]:
        """The last one last."""
        return self._attempt(lambda: self._bodies(now)) or ()

    def _on_change(self, change: Commit) -> None:
        is_job = change.collection in self._apis
        if is_job and change.new and self._note(change.collection, change.new.body):
            self._attempt(self._forget)

    def _note(self, collection: str, body: Body) -> bool:
        """Remember a job if it has ended; whether it has."""
        job = self._apis[collection].read_object(body)
        if not (job.uid and job.record.is_finished):
            return False
        finished = job.record.completion_time or self._clock.now()
        fields: dict[str, Any] = {
            "message": "job ended",
            "time": rfc3339(finished),
            "job_namespace": job.key.namespace,
            "job_name": job.key.name,
            "job_uid": job.uid,
            "to": str(job.record.phase),
        }
        spec = body.get("spec")
        record = job_log.ended(job.key, job.record, fields, spec if isinstance(spec, Mapping) else {})
        ended = {
            "kind": ENDED_JOBS.kind,
            "apiVersion": ENDED_JOBS.api_version,
            "metadata": {"name": job.uid, "namespace": job.key.namespace, "creationTimestamp": rfc3339(finished)},
            "resource": collection,
            "record": record,
        }
        row = job.uid, finished.timestamp(), msgspec.json.encode(ended)
        self._attempt(lambda: self._execute("insert or replace into ended values (?, ?, ?)", row))
        return True

    def _attempt(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (what the work returns)
        try:
            return work()
        except sqlite3.Error as error:
            _log.warning("the history of ended jobs is not kept", file=str(self._file), cause=str(error))
            return None

    def _connect(self) -> None:
        # SQLite gives the files beside it the mode of this one, which only this user may read.
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._file, isolation_level=None)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection

    def _forget(self) -> None:
        """What is too old, and all but the last ones."""
        self._execute("delete from ended where finished < ?", (self._oldest(self._clock.now()),))
        newer = "select uid from ended order by finished desc, uid limit ?"
        self._execute(f"delete from ended where uid not in ({newer})", (MOST_JOBS,))  # noqa: S608 (of this module)

    def _bodies(self, now: datetime) -> list[Body]:
        query = "select body from ended where finished >= ? order by finished"
        return list(_readable(raw for (raw,) in self._execute(query, (self._oldest(now),))))

    def _oldest(self, now: datetime) -> float:
        return (now - RETENTION).timestamp()

    def _execute(self, statement: str, values: tuple[object, ...]) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(statement, values) if self._connection else ()


def _readable(rows: Iterable[bytes]) -> Iterator[Body]:
    for raw in rows:
        try:
            body = _DECODER.decode(raw)
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError):
            continue
        parts = (body.get("metadata"), body.get("record"))
        if "resource" in body and all(isinstance(part, dict) for part in parts):
            yield body
