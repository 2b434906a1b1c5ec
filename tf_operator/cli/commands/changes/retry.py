"""``tfjob retry``: runs a failed job again, under a new name."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import submission
from tf_operator.client import AlreadyExists, AsyncTFJobs, Job, NotFound, NotPossible
from tf_operator.client.manifests.files import Manifest
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey

if TYPE_CHECKING:
    from tf_operator.client.retry import Change
    from tf_operator.client.upload.archive import Archive

_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")


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
    from tf_operator.client.upload import uploaded_job  # noqa: PLC0415 (as above)

    changes: list[Change] = arguments.differences
    job = await jobs.get(session.name_of(arguments.name, jobs))
    name = arguments.new_name or retry.next_name(job.name, {other.name for other in await jobs.list()})
    body = retry.manifest(job, name, changes)
    files = await _files(jobs, job) if uploaded_job.digest(job.body) else None
    again = Manifest(name, uploaded_job.with_files(body, files) if files else body, files)
    try:
        (created,) = await submission.submit(jobs, [again])
    except AlreadyExists:
        raise NotPossible(f"{job.kind} {job.namespace}/{name} exists already; --name chooses another name") from None
    difference = f", with {', '.join(map(str, changes))}" if changes else ""
    sys.stdout.write(
        f"{created.kind} {created.namespace}/{created.name} submitted {session.where(jobs)}; it is {job.name}"
        f" again{difference}\n"
    )
    return 0


async def _files(jobs: AsyncTFJobs, job: Job) -> "Archive":
    """What went along with the failed job. It goes with that job, so the new one gets its own."""
    from tf_operator.client.upload import uploaded_job  # noqa: PLC0415 (as above)

    name = uploaded_job.config_map_name(job.body)
    try:
        return uploaded_job.archive_in(await jobs.client.get(_CONFIG_MAPS, ObjectKey(job.namespace, name)))
    except NotFound:
        raise NotPossible(f"the files of {job.kind} {job.name} are gone: submit it again with --upload") from None
