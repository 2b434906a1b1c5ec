"""What the server keeps on disk: each commit, in SQLite, before it is answered.

A commit survives SIGKILL of this process, because it has been written to the operating system when ``write`` returns.
It may not survive a power failure: ``synchronous=NORMAL`` does not wait for the disk. The database stays whole in both
cases. Only current objects are kept: after a restart, watches and lists of earlier versions are ``Expired``.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tf_operator.local.apiserver.storage.store import NotStored
from tf_operator.meta import Body, metadata_of, resource_version_of

_LAYOUT = 1
_DECODER = msgspec.json.Decoder(dict[str, Any])
_SCHEMA = """
create table if not exists objects (
    collection text not null, path text not null, body blob not null, primary key (collection, path)
) without rowid;
create table if not exists counter (one integer primary key check (one = 1), version integer not null);
"""


class UnusableJournal(Exception):
    """The file cannot be read; the message says what is wrong with it."""


class NewerLayout(UnusableJournal):
    """The file was written by a later release."""


class DamagedRow(UnusableJournal):
    """One of its objects is none."""


class SqliteJournal:
    """A file of its own; one process at a time (the caller holds a lock)."""

    def __init__(self, file: Path) -> None:
        # SQLite gives the files beside it the mode of this one, which only this user may read.
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = file
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = normal")
        (layout,) = self._connection.execute("pragma user_version").fetchone()
        if layout > _LAYOUT:
            raise NewerLayout(f"it was written by a later release (layout {layout}, this one has {_LAYOUT})")
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"pragma user_version = {_LAYOUT}")

    def load(self) -> tuple[int, Iterator[tuple[str, str, Body]]]:
        """The last version, and collection, path and body of each object."""
        row = self._connection.execute("select version from counter").fetchone()
        objects = self._connection.execute("select collection, path, body from objects")
        return (row[0] if row else 0), ((collection, path, _read(path, body)) for collection, path, body in objects)

    def write(self, version: int, collection: str, path: str, body: Body | None) -> None:
        """Keep one commit (``None``: the object is deleted); when this returns, it is kept. Else ``NotStored``."""
        raw = None if body is None else msgspec.json.encode(body)
        try:
            self._write(version, collection, path, raw)
        except sqlite3.Error as error:  # a full disk, most of the time
            raise NotStored(f"{self._file} cannot be written: {error}") from error

    def _write(self, version: int, collection: str, path: str, raw: bytes | None) -> None:
        execute = self._connection.execute
        with self._connection:
            execute("begin immediate")
            if raw is None:
                execute("delete from objects where collection = ? and path = ?", (collection, path))
            else:
                execute("insert or replace into objects values (?, ?, ?)", (collection, path, raw))
            execute("insert or replace into counter values (1, ?)", (version,))

    def close(self) -> None:
        self._connection.close()


def _read(path: str, raw: bytes) -> Body:
    try:
        body = _DECODER.decode(raw)
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
        body = {}
    if not metadata_of(body) or not resource_version_of(body).isdecimal():
        raise DamagedRow(f"the object {path} in it is damaged")
    return body
