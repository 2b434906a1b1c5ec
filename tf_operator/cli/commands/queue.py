"""``tfjob queue``: the jobs that wait in a queue, their places, and what they wait for."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs
from tf_operator.client.display import age, table
from tf_operator.machinery.clock import SystemClock


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "queue",
        help="show the jobs that wait in a queue",
        description="Shows jobs that wait in the operator's job queue or in Kueue: since when, and for what. Places in"
        " the job queue count the jobs of all namespaces.",
        allow_abbrev=False,
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _queue))


async def _queue(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    from tf_operator.client import queues  # noqa: PLC0415 (no other command waits for it)

    everywhere = arguments.all_namespaces
    waiting = await queues.read(jobs, all_namespaces=everywhere)
    if not waiting:
        where = "in any namespace" if everywhere else f"in namespace {jobs.namespace}"
        session.say(f"No {jobs.api.resource.kind} waits in a queue {where}.")
        return 0
    now = SystemClock().now()
    rows = [
        [
            *([entry.job.namespace] if everywhere else []),
            entry.job.name,
            entry.queue,
            str(entry.place or "-"),
            age(entry.since, now),
            entry.reason,
        ]
        for entry in waiting
    ]
    names = ["NAME", "QUEUE", "PLACE", "WAITS SINCE", "WAITS FOR"]
    sys.stdout.writelines(table([*(["NAMESPACE"] if everywhere else []), *names], rows))
    return 0
