"""``tfjob logs``: the logs of a job's replicas."""

import argparse
import sys
from contextlib import aclosing

from tf_operator.cli import log_lines, session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "logs",
        help="show the logs of a job's replicas",
        description="Shows the logs of a job's replicas; if there are several, each line starts with the replica."
        " --follow includes replacement pods, and ends with the job.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("-f", "--follow", action="store_true", help="stream the logs until the job has ended")
    parser.add_argument("--replica", default="", metavar="REPLICA", help="only this replica, as in worker-0")
    parser.add_argument(
        "-c", "--container", default="", metavar="NAME", help="container; default: the training container"
    )
    parser.add_argument(
        "-p", "--previous", action="store_true", help="logs of the run before the last restart in place"
    )
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each replica")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _logs))


async def _logs(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    job = await jobs.get(session.name_of(arguments.name, jobs))
    printer = log_lines.Printer(job, sys.stdout, is_alone=bool(arguments.replica))
    stream = jobs.logs(
        job,
        replica=arguments.replica,
        follow=arguments.follow,
        tail=arguments.tail,
        previous=arguments.previous,
        container=arguments.container,
    )
    async with aclosing(stream) as lines:
        async for line in lines:
            printer.write(line)
    if not printer.count:
        session.say(f"{job.kind} {job.namespace}/{job.name} has printed nothing yet; tfjob explain {job.name} says why")
    return 0
