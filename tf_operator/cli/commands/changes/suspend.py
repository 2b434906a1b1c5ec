"""``tfjob suspend`` and ``tfjob resume``."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.commands.changes import after_checkpoint
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    suspend = commands.add_parser(
        "suspend",
        help="delete the pods of jobs until they are resumed",
        description="Sets spec.runPolicy.suspend: the operator deletes pods and Services and stops all deadlines.",
        allow_abbrev=False,
    )
    resume = commands.add_parser(
        "resume",
        help="create the pods of suspended jobs again",
        description="Clears spec.runPolicy.suspend: the operator creates pods again. Replicas that have succeeded do"
        " not run again.",
        allow_abbrev=False,
    )
    after_checkpoint.add_arguments(suspend)
    for parser, verb in ((suspend, _suspend), (resume, _resume)):
        parser.add_argument("name", nargs="+", metavar="JOB", help="name of a job")
        target.add_arguments(parser, changes=True)
        parser.set_defaults(run=lambda arguments, verb=verb: session.run(arguments, verb))


async def _suspend(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    for argument in arguments.name:
        name = session.name_of(argument, jobs)
        job = await jobs.suspend(await after_checkpoint.wait(jobs, name, arguments, jobs.dry_run().suspend))
        sentence = f"{job.kind} {job.namespace}/{job.name} is suspended {session.where(jobs)}"
        sys.stdout.write(f"{sentence}; go on with: tfjob resume {job.name}\n")
    return 0


async def _resume(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    for name in arguments.name:
        job = await jobs.resume(session.name_of(name, jobs))
        sys.stdout.write(f"{job.kind} {job.namespace}/{job.name} is resumed {session.where(jobs)}\n")
    return 0
