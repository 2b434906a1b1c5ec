"""Short paths to deep folders: the path of a socket may have 103 bytes on macOS, 107 on Linux.

Programs make sockets in TMPDIR (``multiprocessing.Manager`` adds 32 bytes to it), and the home of a user may be deep. A
link in ``/tmp`` leads to the folder then. Its name follows from the folder's, so whoever cleans up finds it; only this
user's own link counts, which nobody else can change there.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_operator.machinery.clock import Clock

LONGEST: Final = 70
"""Bytes of a folder in which programs can make sockets."""
_RENEWED_EVERY: Final = 3600.0
PLACE: Final = Path("/tmp")  # noqa: S108 (what is there is checked)


def short(folder: Path, *, within: Path) -> Path:
    """The folder, by a link to ``within`` if its path is too long; by that path if no link can be made."""
    if len(os.fsencode(folder)) <= LONGEST:
        return folder
    link = link_to(within)
    with suppress(OSError):
        link.symlink_to(within)
    with suppress(OSError):
        if link.lstat().st_uid == os.geteuid() and link.readlink() == within:
            return link / folder.relative_to(within)
    return folder


async def keep(within: Path, clock: Clock) -> None:
    """Renew the link to a folder, if there is one, until cancelled: systemd-tmpfiles deletes old ones in ``/tmp``."""
    while True:
        with suppress(OSError):  # there is none, or somebody else's
            os.utime(link_to(within), follow_symlinks=False)
        await clock.sleep(_RENEWED_EVERY)


def remove(within: Path) -> None:
    with suppress(OSError):  # somebody else's
        link_to(within).unlink(missing_ok=True)


def link_to(within: Path) -> Path:
    name = hashlib.sha256(f"{os.geteuid()} {within}".encode(errors="surrogateescape")).hexdigest()
    return PLACE / f"tfjob-{name[:12]}"
