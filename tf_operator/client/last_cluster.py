"""Which cluster the last command of this user was for: so that none silently goes to another one.

A file beside the state folder of the local server, of this user only. It is a courtesy: where it cannot be written, as
in a pod without a home, nothing is remembered.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tf_operator.local import state


@dataclass(frozen=True, slots=True)
class LastCluster:
    address: str
    name: str
    """As in ``deleted in NAME``."""
    origin: str = ""
    """How the last command that named no cluster came to its own; empty if there was none."""


UNKNOWN = LastCluster("", "an unknown cluster", "unknown")
"""What was remembered cannot be read."""


def path(environment: Mapping[str, str]) -> Path:
    return state.default_folder(environment).with_name("last-cluster.json")


def read(environment: Mapping[str, str] = os.environ) -> LastCluster | None:
    """What was remembered; ``None`` for nothing, ``UNKNOWN`` for a file that says nothing, as when it is cut off."""
    file = path(environment)
    try:
        content = json.loads(file.read_bytes())
        return LastCluster(str(content["address"]), str(content["name"]), str(content["origin"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return UNKNOWN if os.path.isfile(file) else None  # noqa: PTH113 (which raises where a folder is closed)


def write(last: LastCluster, environment: Mapping[str, str] = os.environ) -> None:
    file = path(environment)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
                json.dump(asdict(last), opened)
            Path(temporary).replace(file)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
