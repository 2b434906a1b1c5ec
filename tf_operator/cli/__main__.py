"""The process of ``tfjob``; as ``python -m tf_operator.cli`` also the server that ``tfjob local up`` starts."""

import os
import signal
import sys
from contextlib import suppress
from typing import Final

_INTERRUPTED: Final = 130


def run() -> int:
    """Run the command that the process was started for. Ctrl-C ends it without a traceback, while it loads, too."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # What is loaded has nothing to clean up, and an exception in the middle of it might become another one.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_streams()
    try:
        from tf_operator.cli import main  # noqa: PLC0415 (half of what a command takes is this)

        return main.main()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _open_streams() -> None:
    """Open what was closed (``tfjob list >&-``), so that no connection takes its place.

    To write to a standard output that is not there fails, as on a full disk; messages are dropped.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, mode)  # the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 (it stays open)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(run())
