"""A layer of files as a tar archive whose digest depends on nothing but names, contents and who may execute them.

It is not compressed: what zlib makes of the same bytes differs from one version to another. It is complete before
anything is sent, and files that change meanwhile are noticed.
"""

import errno
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tf_operator.client.images.folder import Entry
from tf_operator.client.job import NotPossible

MEDIA_TYPE: Final = "application/vnd.oci.image.layer.v1.tar"
_PIECE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layer:
    digest: str
    size: int
    files: int
    content: IO[bytes]

    async def pieces(self) -> AsyncIterator[bytes]:
        """The archive from its start."""
        self.content.seek(0)
        while piece := self.content.read(_PIECE):
            yield piece


@contextmanager
def room_for_temporary_files() -> Iterator[None]:
    """Say which disk is full, and what helps: neither a registry nor standard output is to blame."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise NotPossible(f"{tempfile.gettempdir()} is full; TMPDIR may name a folder with more room") from None


@contextmanager
def packed(entries: Iterable[Entry], *, checks_scripts: bool = True) -> Iterator[Layer]:
    """The layer, while the body runs. Of entries with the same path the last one counts."""
    by_path = {str(entry.path).lstrip("/"): entry for entry in entries}
    with tempfile.TemporaryFile() as file:
        with (
            room_for_temporary_files(),
            tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive,
        ):
            for path in sorted(by_path):
                _add(archive, path, by_path[path], checks_scripts=checks_scripts)
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield Layer(f"sha256:{digest}", size, sum(not entry.source.is_dir() for entry in by_path.values()), file)


def _add(archive: tarfile.TarFile, path: str, entry: Entry, *, checks_scripts: bool) -> None:
    info = tarfile.TarInfo(path)
    if entry.link:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
        archive.addfile(info)
    elif entry.source.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    else:
        _add_file(archive, info, entry.source, checks_scripts=checks_scripts)


def _add_file(archive: tarfile.TarFile, info: tarfile.TarInfo, source: Path, *, checks_scripts: bool) -> None:
    try:
        with source.open("rb") as file:
            state = os.fstat(file.fileno())
            if checks_scripts:
                _check_first_line(file, source)
            info.size, info.mode = state.st_size, 0o755 if state.st_mode & stat.S_IXUSR else 0o644
            with room_for_temporary_files():
                archive.addfile(info, file)
            is_same = _is_unchanged(state, os.fstat(file.fileno()))
    except PermissionError as error:
        raise NotPossible(f"cannot read {source}: {error.strerror}; leave it out with a line in .tfjobignore") from None
    except OSError:  # also from tarfile, of a file that has become shorter
        is_same = False
    if not is_same:
        raise NotPossible(f"{source} changed while it was read: try again when nothing writes it")


def _is_unchanged(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def _check_first_line(file: io.BufferedReader, source: Path) -> None:
    """Refuse a script that Linux would not start: the end of its first line is taken for the interpreter's name."""
    line = file.readline(256)
    file.seek(0)
    if line.startswith(b"#!") and line.endswith(b"\r\n"):
        raise NotPossible(
            f"{source} has line ends of Windows, with which Linux cannot start it: save it with those of Unix (LF)"
        )
