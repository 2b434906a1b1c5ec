"""``tfjob retry``: runs a failed job again, under a new name."""

import argparse
import sys
from typing import TYPE_CHECKING

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AlreadyExists, AsyncTFJobs, NotPossible

if TYPE_CHECKING:
    from tf_operator.client.retry import Change


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "retry",
        help="run a failed job again, under a new name",
        description="Creates a failed job again under a new name, with what you change; the failed one is left"
        " unchanged. --set changes the replicas of one type: replicas, image, cpu, memory, ephemeral-storage, or a"
        " resource such as nvidia.com/gpu.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument(
        "--name", dest="new_name", default="", metavar="NAME", help="new name; default: the next of JOB-2, JOB-3"
    )
    parser.add_argument(
        "--set",
        dest="differences",
        action="append",
        default=[],
        type=_change,
        metavar="TYPE.FIELD=VALUE",
        help="what is different, as in worker.memory=16Gi; may be repeated",
    )
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _retry))


def _change(text: str) -> "Change":
    from tf_operator.client import retry  # noqa: PLC0415 (validation takes a while to load)

    try:
        return retry.parse(text)
    except NotPossible as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def _retry(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    from tf_operator.client import retry  # noqa: PLC0415 (as above)

    changes: list[Change] = arguments.differences
    job = await jobs.get(session.name_of(arguments.name, jobs))
    name = arguments.new_name or retry.next_name(job.name, {other.name for other in await jobs.list()})
    body = retry.manifest(job, name, changes)
    try:
        created = await jobs.submit(body)
    except AlreadyExists:
        raise NotPossible(f"{job.kind} {job.namespace}/{name} exists already; --name chooses another name") from None
    difference = f", with {', '.join(map(str, changes))}" if changes else ""
    sys.stdout.write(
        f"{created.kind} {created.namespace}/{created.name} submitted {session.where(jobs)}; it is {job.name}"
        f" again{difference}\n"
    )
    return 0
