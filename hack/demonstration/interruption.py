"""How a performance is interrupted: by a signal, or by an error that its audience can do something about.

Signals become exceptions, so that whatever was begun is ended in order; while that is being done, further ones are not
heard. Neighbours: ``command`` and ``dashboards``, which perform.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final, NoReturn

from demonstration.play import NoEndError
from demonstration.stage import StageFailedError
from support.plane_api import ApiRefusedError
from support.plane_directory import DirectoryRefusedError
from support.plane_launch import ServerFailedError, ToolsMissingError
from support.plane_link import KeeperLostError
from support.prometheus import RefusedError
from toolbox.errors import Interrupted

KNOWN: Final = (
    ApiRefusedError,
    DirectoryRefusedError,
    KeeperLostError,
    NoEndError,
    OSError,
    RefusedError,
    ServerFailedError,
    StageFailedError,
    ToolsMissingError,
)
"""Errors whose message is all that is to be told."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have the first signal raise Interrupted, and the following ones wait for the cleaning up."""
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_listening() -> None:
    """Hear no more signals: what is being done has to be finished."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _frame: object) -> NoReturn:
    stop_listening()
    raise Interrupted(number)
