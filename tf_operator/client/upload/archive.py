"""The files of a folder as one small archive, which a ConfigMap can carry."""

import gzip
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tf_operator.client import display
from tf_operator.client.images import folder, layer
from tf_operator.client.job import NotPossible

MOST_BYTES: Final = 900_000
"""Of the archive. A ConfigMap may have 1 MiB, and its metadata counts as well."""
_MOST_READ: Final = 50_000_000
"""Bytes of files: no program is as large, and whoever names a folder of data should not wait for it to be packed."""


@dataclass(frozen=True, slots=True)
class Archive:
    digest: str
    """Of names, contents and who may execute them, whatever compresses them."""
    content: bytes
    files: int = 0
    """Their number, where they were packed."""


def pack(source: Path) -> Archive:
    """The archive of a folder; raises ``NotPossible`` for one that cannot go along."""
    if not source.is_dir():
        raise NotPossible(f"--upload {source}: there is no such folder")
    entries = list(folder.entries(source, PurePosixPath("/")))
    sizes = {entry.source: 0 if entry.link else _size(entry.source) for entry in entries}
    if sum(sizes.values()) > _MOST_READ:
        raise _too_large(source, sizes, sum(sizes.values()))
    with layer.packed(entries) as packed:
        if not packed.files:
            raise NotPossible(f"--upload {source}: there are no files in it, or all of them are ignored")
        packed.content.seek(0)
        content = gzip.compress(packed.content.read(), mtime=0)
        if len(content) > MOST_BYTES:
            raise _too_large(source, sizes, len(content))
        return Archive(packed.digest, content, packed.files)


def _size(path: Path) -> int:
    try:
        state = path.stat()
    except OSError:  # gone or out of reach: whoever packs it says so
        return 0
    return state.st_size if stat.S_ISREG(state.st_mode) else 0


def _too_large(source: Path, sizes: dict[Path, int], size: int) -> NotPossible:
    largest = max(sizes, key=lambda path: sizes[path])
    return NotPossible(
        f"the files in {source} take {display.size(size)}, and at most {MOST_BYTES // 1000} kB go along with a job; the"
        f" largest is {largest}, with {display.size(sizes[largest])}. Leave data out with a line in .tfjobignore, or"
        " put the files into an image: tfjob image push"
    )
