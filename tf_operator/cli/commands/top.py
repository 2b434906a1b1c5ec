"""``tfjob top``: the CPU and memory that the replicas of a job use."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "top",
        help="show the CPU and memory that a job uses",
        description="Shows the CPU and memory that a job's replicas use, from metrics-server, or from the node on this"
        " machine (Linux), with their GPUs.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _top))


async def _top(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    sys.stdout.write(f"{await jobs.top(session.name_of(arguments.name, jobs))}\n")
    return 0
