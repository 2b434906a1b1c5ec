"""``tfjob restart``: deletes pods, so that the operator replaces them."""

import argparse
import sys
from typing import TYPE_CHECKING

from tf_operator.cli import session, target
from tf_operator.client import AsyncTFJobs

if TYPE_CHECKING:
    from tf_operator.cli.grammar import Commands


def add_command(commands: "Commands") -> None:
    """Put ``restart`` into the grammar."""
    parser = commands.add_parser(
        "restart",
        help="replace the pods of a job",
        description="Deletes the pods of a job that have not ended, each with its grace period, and the operator makes"
        " new ones from the current template. It counts as a disruption, not towards backoffLimit. A program that ends"
        " with exit code 0 when it is stopped has completed, and does not run again. Refused for replicas under"
        " restartPolicy Never, whose job would fail.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("--replica", default="", metavar="REPLICA", help="only this one, as in worker-0")
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _restart))


async def _restart(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    deleted = await jobs.restart(session.name_of(arguments.name, jobs), replica=arguments.replica)
    for pod in deleted:
        sys.stdout.write(f"{pod.replica}: pod {pod.name} deleted {session.where(jobs)}; the operator replaces it\n")
    if not deleted:
        return session.failed("no pod of it runs; tfjob explain says why")
    return 0
