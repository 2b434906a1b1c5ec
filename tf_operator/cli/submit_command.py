"""``tfjob submit``: creates the objects of a manifest."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_operator.cli import manifests, output, session, target, validate
from tf_operator.cli.manifests import Manifest, ManifestError
from tf_operator.client import AlreadyExists, AsyncTFJobs, Job, NotPossible
from tf_operator.dialects import registry
from tf_operator.meta import key_of, text_of

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (argparse names no public type)


def add_command(commands: "Commands") -> None:
    """Put ``submit`` into the grammar."""
    parser = commands.add_parser(
        "submit",
        help="create the jobs of a manifest",
        description="Creates the objects of a manifest, in their order. What a job needs and is there already, such as"
        " its volume claim, is left as it is; a job must be new. The manifest is checked first, as by 'tfjob plan'.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="YAML or JSON, with any number of documents; - for standard input")
    output.add_argument(parser, "json", "yaml", "name")
    target.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Create everything in the file."""
    found = read(arguments.file, arguments.namespace)
    if found is None:
        return session.FAILED

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        for job in await submit(jobs, found):
            _print(job, arguments.output)
        return 0

    return session.run(arguments, verb)


def read(name: str, namespace: str) -> list[Manifest] | None:
    """The objects of a file whose jobs are valid; ``None`` when that was reported."""
    try:
        found = manifests.read(name, manifests.text_of_file(name))
    except (ManifestError, UnicodeDecodeError) as error:
        session.failed(f"{name}: {error}")
        return None
    jobs = [manifest for manifest in found if registry.api_of(manifest.body)]
    if not jobs:
        session.failed(f"{name} contains no {registry.kinds()}; tfjob init writes one")
        return None
    wrong = [
        f"{manifest.where}: {error}"
        for manifest in jobs
        for error in validate.check(manifest.body, namespace=namespace).errors
    ]
    for line in wrong:
        session.say(output.printable(line))
    return None if wrong else found


async def submit(jobs: AsyncTFJobs, found: Sequence[Manifest]) -> list[Job]:
    """Create the objects; the jobs among them."""
    created = []
    for manifest in found:
        shown = f"{text_of(manifest.body, 'kind')} {key_of(manifest.body).name}"
        if registry.api_of(manifest.body):
            created.append(await jobs.submit(manifest.body))
            continue
        try:
            await jobs.create(manifest.body)
            session.say(f"{shown} created")
        except AlreadyExists:
            session.say(f"{shown} is there already, and left as it is")
    if not created:
        raise NotPossible("there is no job in the manifest")
    return created


def _print(job: Job, form: str | None) -> None:
    if form in {"json", "yaml"}:
        sys.stdout.write(output.document(job.body, form))
    elif form == "name":
        sys.stdout.write(f"{output.reference(job)}\n")
    else:
        sys.stdout.write(f"{job.kind} {job.namespace}/{job.name} submitted\n")
