"""``tfjob events``: what was reported about a job and its pods."""

import argparse
import sys

from tf_operator.cli import output, session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs
from tf_operator.machinery.clock import SystemClock


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "events",
        help="show the events of a job",
        description="Shows the events of a job and its pods, oldest first. API servers keep events for an hour.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("--no-pods", action="store_true", help="only events of the job itself")
    output.add_argument(parser, "json", "yaml")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _events))


async def _events(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    job = await jobs.get(session.name_of(arguments.name, jobs))
    events = await jobs.events(job, with_pods=not arguments.no_pods)
    if arguments.output:
        document = {"items": [output.event_body(event) for event in events]}
        sys.stdout.write(output.document(document, arguments.output))
    elif events:
        sys.stdout.writelines(output.event_table(events, now=SystemClock().now()))
    else:
        session.say(f"There are no events of {job.kind} {job.namespace}/{job.name}; API servers keep them for an hour.")
    return 0
