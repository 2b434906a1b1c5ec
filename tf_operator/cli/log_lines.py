"""Lines of logs on a terminal: each with its replica in front, in the replica's colour."""

import os
from collections.abc import Mapping
from typing import Final, TextIO

from tf_operator.client import Job, LogLine

_COLOURS: Final = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_RESET: Final = "\x1b[0m"


class Printer:
    """Writes lines; without a prefix for a job of one replica, and for a replica that was asked for alone."""

    def __init__(
        self, job: Job, stream: TextIO, *, is_alone: bool = False, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._stream = stream
        replicas = [f"{kind.lower()}-{index}" for kind, of in job.replicas.items() for index in range(of.wanted)]
        self._has_prefix = not is_alone and len(replicas) > 1
        self._width = max(map(len, replicas), default=0)
        self._colours = {replica: _COLOURS[number % len(_COLOURS)] for number, replica in enumerate(replicas)}
        self._is_coloured = is_coloured(stream, environment)
        self.count = 0

    def write(self, line: LogLine) -> None:
        self.count += 1
        prefix = self._prefix(line.replica) if self._has_prefix else ""
        if buffer := getattr(self._stream, "buffer", None):  # what is no text stays as it is
            self._stream.flush()
            buffer.write(prefix.encode() + (line.raw or line.text.encode()) + b"\n")
        else:
            self._stream.write(f"{prefix}{line.text}\n")
        self._stream.flush()

    def _prefix(self, replica: str) -> str:
        prefix = f"{replica.ljust(self._width)} | "
        if not self._is_coloured:
            return prefix
        return f"\x1b[{self._colours.get(replica, _COLOURS[0])}m{prefix}{_RESET}"


def is_coloured(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether colours are shown: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return not environment.get("NO_COLOR") and is_terminal(stream, environment)


def is_terminal(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody looks at it, on a terminal that understands control sequences."""
    return environment.get("TERM") != "dumb" and stream.isatty()
