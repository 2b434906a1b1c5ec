"""What answers ``kubectl logs``: the node implements it, the API server's HTTP asks it."""

from collections.abc import AsyncIterator
from typing import Protocol


class LogGone(Exception):
    """There is no such log, though the container has run: somebody has deleted it."""


class LogSource(Protocol):
    """The logs of all containers."""

    def read(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        previous: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        limit_bytes: int | None,
        timestamps: bool,
    ) -> AsyncIterator[bytes]:
        """What a container has written, in pieces; with ``follow`` until the container has ended.

        ``previous`` is the one before its last restart. An asynchronous generator: it is closed when the reader goes.
        Raises ``LogGone`` when it is called: the API server has checked the pod's status before.
        """
