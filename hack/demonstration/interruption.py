"""How a performance is interrupted: signals become exceptions, so that whatever was begun is ended in order.

While that is being done, further ones are not heard.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked us to stop. Like KeyboardInterrupt, only the outermost caller catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have the first signal raise Interrupted, and the following ones wait for the cleaning up."""
    old_handlers = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def stop_listening() -> None:
    """Hear no more signals: what is being done has to be finished."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _frame: object) -> NoReturn:
    stop_listening()
    raise Interrupted(number)
