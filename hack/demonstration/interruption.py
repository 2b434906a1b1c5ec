"""How a performance is interrupted: by a signal, or by an error that its audience can do something about.

Signals become exceptions, so that whatever was begun is ended in order; while that is being done, further ones are not
heard. Neighbours: ``command`` and ``dashboards``, which perform.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final, NoReturn

from demonstration.stage import StageFailedError
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.directory import DirectoryRefusedError
from lab.control_plane.launch import ServerFailedError
from lab.control_plane.link import SupervisorLostError
from lab.prometheus.server import RefusedError
from lab.tools.catalogue import ToolError

KNOWN: Final = (
    ApiRefusedError,
    DirectoryRefusedError,
    SupervisorLostError,
    OSError,
    RefusedError,
    ServerFailedError,
    StageFailedError,
    ToolError,
)
"""Errors whose message says enough."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked us to stop. Like KeyboardInterrupt, only the outermost caller catches it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_status = 128 + signal_number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have the first signal raise Interrupted, and the following ones wait for the cleaning up."""
    old_handlers = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def stop_listening() -> None:
    """Hear no more signals: what is being done has to be finished."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _frame: object) -> NoReturn:
    stop_listening()
    raise Interrupted(number)
