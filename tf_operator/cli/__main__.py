"""The process of ``tfjob``; as ``python -m tf_operator.cli`` also the server that ``tfjob local up`` starts."""

import signal
import sys
from typing import Final

_INTERRUPTED: Final = 130


def run() -> int:
    """Run the command that the process was started for. Ctrl-C ends it without a traceback, while it loads, too."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # What is loaded has nothing to clean up, and an exception in the middle of it might become another one.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from tf_operator.cli import main  # noqa: PLC0415 (half of what a command takes is this)

        return main.main()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
