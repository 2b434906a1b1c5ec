"""The user's cache: finished tools, and the workshops where they are made.

    <root>/tools/<tool>-<version>-<os>-<arch>/<tool>    finished; appears by an atomic rename or not at all
    <root>/tools/.work/<set>/                           the workshop of the one who holds the set's lock
    <root>/tools/.locks/<set>                           that lock
    <root>/go/...                                       a Go toolchain, where the machine has none

A workshop is on the same file system as the finished tools, or the rename would not be atomic. Whoever holds
the lock knows that everything in the workshop is left over from somebody who is dead, and removes it.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolbox import locks
from toolbox.catalogue import Tool
from toolbox.errors import ToolError
from toolbox.host import Host
from toolbox.progress import Progress

ROOT_VARIABLE = "TF_OPERATOR_CACHE"


@dataclass(frozen=True)
class Workshop:
    """A folder that is ours alone until ``lock`` is released, and gone afterwards."""

    folder: Path
    lock: int


@dataclass(frozen=True)
class Cache:
    """The cache folder of this user, for one host."""

    root: Path
    host: Host

    def path(self, tool: Tool) -> Path:
        """Where the finished tool is, or would be."""
        folder = f"{tool.name}-{tool.version}-{self.host.os}-{self.host.arch}"
        return self.root / "tools" / folder / tool.name

    @contextmanager
    def workshop(self, name: str, *, purpose: str, progress: Progress) -> Iterator[Workshop]:
        """Wait for our turn, and yield an empty workshop; raises ToolError when the cache cannot be written to."""
        try:
            with locks.hold(self.root / "tools" / ".locks" / name, purpose=purpose, progress=progress) as lock:
                folder = self.root / "tools" / ".work" / name
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                try:
                    yield Workshop(folder, lock)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise ToolError(
                f"the cache {self.root} cannot be used: {error.strerror or error}",
                advice=f"set {ROOT_VARIABLE} to a folder that you can write to, with a few GB of free space",
            ) from error


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return the project's cache folder: TF_OPERATOR_CACHE, or below XDG_CACHE_HOME, or below ~/.cache."""
    if chosen := environ.get(ROOT_VARIABLE):
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base).absolute() / "tf-operator"


def publish(made: Path, finished: Path) -> None:
    """Move a file that is complete to where it will be found, in one step that survives a power cut."""
    made.chmod(0o755)
    with made.open("rb") as file:
        os.fsync(file.fileno())
    finished.parent.mkdir(parents=True, exist_ok=True)
    made.replace(finished)
