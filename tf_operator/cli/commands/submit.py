"""``tfjob submit``: creates the objects of a manifest."""

import argparse
import sys

from tf_operator.cli import output, session, target
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import submission
from tf_operator.client import AsyncTFJobs, Job


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "submit",
        help="create the jobs of a manifest",
        description="Checks a manifest, as 'tfjob plan' does, and creates its objects in their order. Existing"
        " dependencies, such as a volume claim, are left unchanged; the job must not exist, unless you pass --replace.",
        allow_abbrev=False,
    )
    submission.add_arguments(parser)
    output.add_argument(parser, "json", "yaml", "name")
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    objects = submission.read(arguments)
    if objects is None:
        return session.FAILED

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        for job in await submission.submit(jobs, objects, replaces=arguments.replace):
            _print(job, arguments.output, session.where(jobs))
        return 0

    return session.run(arguments, verb)


def _print(job: Job, form: str | None, where: str) -> None:
    if form in {"json", "yaml"}:
        sys.stdout.write(output.document(job.body, form))
    elif form == "name":
        sys.stdout.write(f"{output.reference(job)}\n")
    else:
        sys.stdout.write(f"{job.kind} {job.namespace}/{job.name} submitted {where}\n")
