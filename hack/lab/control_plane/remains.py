"""What a cluster leaves in the kernel besides processes and files: a network link and cgroups.

Standard library only; used by the supervisor when it ends, and to clean up after one that was killed. Who makes such a
thing publishes it first, under the keys `link` and `cgroups` of state.json. A cgroup can be removed only when no
process is left in it: its removal proves that the kernel is done with all containers, so that their files may go.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_EMPTY_SECONDS: Final = 10.0


def remove(state: Mapping[str, Any]) -> None:
    deadline = time.monotonic() + _EMPTY_SECONDS
    for cgroup in state.get("cgroups", ()):
        while not _is_removed(Path(cgroup)) and time.monotonic() < deadline:
            time.sleep(0.02)
    if link := state.get("link"):
        # Its other end was in the cluster's network, and may have taken it along already.
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        with contextlib.suppress(FileNotFoundError):
            command = ["ip", "link", "delete", link]
            subprocess.run(command, env={"PATH": path}, stderr=subprocess.DEVNULL, check=False)


def _is_removed(cgroup: Path) -> bool:
    """Remove a cgroup and all below it, as far as they are empty."""
    for folder, _folders, _files in os.walk(cgroup, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not cgroup.exists()
