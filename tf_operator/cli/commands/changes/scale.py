"""``tfjob scale``: changes the number of replicas of one type."""

import argparse
import sys
from functools import partial

from tf_operator.cli import session, target
from tf_operator.cli.commands.changes import after_checkpoint
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "scale",
        help="change the number of replicas of a job",
        description="Changes the number of replicas of one type: while the job is suspended, within its"
        " elasticPolicy, or for the workers of a job with enableDynamicWorker.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("--replicas", type=_number, required=True, metavar="N", help="the new number of replicas")
    parser.add_argument("--type", default="Worker", metavar="TYPE", help="replica type; default: Worker")
    after_checkpoint.add_arguments(parser)
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _scale))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of replicas")
    return int(text)


async def _scale(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    name = session.name_of(arguments.name, jobs)
    change = {"replicas": arguments.replicas, "type": arguments.type}
    named = await after_checkpoint.wait(jobs, name, arguments, partial(jobs.dry_run().scale, **change))
    job = await jobs.scale(named, **change)
    sentence = f"{job.kind} {job.namespace}/{job.name} scaled to {arguments.replicas} {arguments.type}"
    sys.stdout.write(f"{sentence} {session.where(jobs)}\n")
    return 0
