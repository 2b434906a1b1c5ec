"""The process of ``tfjob``; as ``python -m tf_operator.cli`` also the server that ``tfjob local up`` starts."""

import sys
from typing import Final

_INTERRUPTED: Final = 130


def run() -> int:
    """Run the command that the process was started for. Ctrl-C ends it without a traceback, while it loads, too."""
    try:
        from tf_operator.cli import main  # noqa: PLC0415 (half of what a command takes is this)

        return main.main()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
