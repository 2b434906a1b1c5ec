"""``tfjob restart``: deletes pods, so that the operator replaces them."""

import argparse
import sys
from functools import partial

from tf_operator.cli import session, target
from tf_operator.cli.commands.changes import after_checkpoint
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "restart",
        help="replace the pods of a job",
        description="Deletes the running pods of a job, each with its grace period; the operator replaces them from"
        " the current template. This counts as a disruption, not towards backoffLimit. A program that exits with 0 when"
        " it is stopped does not run again. Refused for restartPolicy Never, because the job would fail.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("--replica", default="", metavar="REPLICA", help="only this replica, as in worker-0")
    after_checkpoint.add_arguments(parser)
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _restart))


async def _restart(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    name = session.name_of(arguments.name, jobs)
    check = partial(jobs.dry_run().restart, replica=arguments.replica)
    named = await after_checkpoint.wait(jobs, name, arguments, check)
    deleted = await jobs.restart(named, replica=arguments.replica)
    for pod in deleted:
        sys.stdout.write(f"{pod.replica}: pod {pod.name} deleted {session.where(jobs)}; the operator replaces it\n")
    if not deleted:
        return session.failed("none of its pods is running; tfjob explain says why")
    return 0
