"""``tfjob delete``: deletes jobs with their pods."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, Job, NotFound
from tf_operator.text import printable


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "delete",
        help="delete jobs with their pods",
        description="Deletes jobs and, in the background, their pods and Services. The logs of the pods are lost.",
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="*", default=[], metavar="JOB", help="name of a job")
    which.add_argument("-l", "--selector", type=_labels, metavar="LABELS", help="all jobs that have these labels")
    parser.add_argument("--ignore-not-found", action="store_true", help="succeed if a job does not exist")
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _delete))


def _labels(text: str) -> str:
    """Labels that were given: those of a variable that is empty must not mean all jobs."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name labels, as in team=vision")
    return text


async def _delete(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    if not arguments.selector:
        for name in [session.name_of(it, jobs) for it in arguments.name]:
            await _delete_one(jobs, name, may_be_gone=arguments.ignore_not_found)
        return 0
    selected = await jobs.list(selector=arguments.selector)
    for job in selected:
        await _delete_one(jobs, job, may_be_gone=True)
    if not selected:
        labels = printable(arguments.selector)
        session.say(f"There is no {jobs.api.resource.kind} with the labels {labels} in namespace {jobs.namespace}.")
    return 0


async def _delete_one(jobs: AsyncTFJobs, job: str | Job, *, may_be_gone: bool) -> None:
    try:
        await jobs.delete(job)
    except NotFound:
        if not may_be_gone:
            raise
        return
    name = job.name if isinstance(job, Job) else job
    sys.stdout.write(f"{jobs.api.resource.kind} {jobs.namespace}/{name} deleted {session.where(jobs)}\n")
