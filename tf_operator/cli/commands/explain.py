"""``tfjob explain``: why a job is in its state, what it waits for, and what to do next."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="explain why a job is in its state, and what to do next",
        description="Explains why a job is in its state, what it is waiting for and what to do next, from its"
        " conditions, its pods and their events.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _explain))


async def _explain(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    explanation = await jobs.explain(session.name_of(arguments.name, jobs))
    for note in explanation.notes:
        session.say(note)
    sys.stdout.write(f"{explanation}\n")
    return 0
