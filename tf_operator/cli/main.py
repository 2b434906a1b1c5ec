"""The command line of users: ``tfjob``, which kubectl also finds as ``kubectl tfjob``.

Parses, dispatches, and turns the outcome into an exit code: 0 done, 1 failed, 2 wrong usage.
"""

import argparse
from collections.abc import Sequence
from importlib import metadata


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    make_parser().parse_args(arguments)
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    parser = argparse.ArgumentParser(
        prog="tfjob",
        description="Works with TensorFlow training jobs. Installed as kubectl-tfjob too: 'kubectl tfjob'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfjob {metadata.version('tf-operator')}")
    return parser
