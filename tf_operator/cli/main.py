"""The command line of users: ``tfjob``, which kubectl also finds as ``kubectl tfjob``.

Parses, dispatches, and turns the outcome into an exit code: 0 done, 1 failed, 2 wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from tf_operator.cli import convert_command, local_command, manifests, plan_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    parser = make_parser()
    chosen = parser.parse_args(arguments)
    try:
        exit_code: int = chosen.run(chosen)
        sys.stdout.flush()
    except manifests.UnreadableFile as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2
    except BrokenPipeError:  # the reader of our output has closed it, as in `tfjob plan ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return exit_code


def make_parser() -> argparse.ArgumentParser:
    """The grammar of the command line; each command names the function that carries it out."""
    parser = argparse.ArgumentParser(
        prog="kubectl tfjob" if Path(sys.argv[0]).name == "kubectl-tfjob" else "tfjob",
        description="Works with TensorFlow training jobs. Installed as kubectl-tfjob too: 'kubectl tfjob'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfjob {metadata.version('tf-operator')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    plan_command.add_command(commands)
    convert_command.add_command(commands)
    local_command.add_command(commands)
    return parser
