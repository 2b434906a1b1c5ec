"""``tfjob completion``: what a shell has to know of the commands, as a script made from the parser."""

import argparse
import sys

from tf_operator.cli import completion
from tf_operator.cli.grammar import Commands


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Prints a completion script for a shell: source <(tfjob completion bash), source <(tfjob"
        " completion zsh), or tfjob completion fish | source. It completes the names of jobs, too. For 'kubectl"
        " tfjob', kubectl's own completion needs no such script.",
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=tuple(completion.SHELLS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    sys.stdout.write(completion.SHELLS[arguments.shell](completion.packaged()))
    return 0
