"""``tfjob delete``: deletes jobs with their pods."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, NotFound


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "delete",
        help="delete jobs with their pods",
        description="Deletes jobs and, in the background, their pods and Services. The logs of the pods are lost.",
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="+", metavar="JOB", help="name of a job")
    parser.add_argument("--ignore-not-found", action="store_true", help="succeed if a job does not exist")
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _delete))


async def _delete(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    for name in [session.name_of(it, jobs) for it in arguments.name]:
        try:
            await jobs.delete(name)
        except NotFound:
            if not arguments.ignore_not_found:
                raise
        else:
            sys.stdout.write(f"{jobs.api.resource.kind} {jobs.namespace}/{name} deleted {session.where(jobs)}\n")
    return 0
