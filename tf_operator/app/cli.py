"""The command line of the operator: ``tf-operator`` and ``python -m tf_operator``.

Parses, dispatches to the module that does the work, and turns its outcome into an exit code: 0 done,
1 failed, 2 wrong usage.
"""

import argparse
from collections.abc import Sequence

from tf_operator.app import version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    options = make_parser().parse_args(arguments)
    exit_code: int = options.run(options)
    return exit_code


def make_parser() -> argparse.ArgumentParser:
    """The grammar of the command line; each command names the function that carries it out."""
    parser = argparse.ArgumentParser(
        prog="tf-operator",
        description="Runs TensorFlow training jobs (TFJob) on Kubernetes.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    version.add_command(commands)
    return parser
