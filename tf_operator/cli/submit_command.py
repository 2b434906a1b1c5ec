"""``tfjob submit``: creates the objects of a manifest."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tf_operator.cli import manifests, output, session, target
from tf_operator.client import AlreadyExists, AsyncTFJobs, Job, NotPossible, display
from tf_operator.client.manifests import validate
from tf_operator.client.manifests.files import Manifest, ManifestError
from tf_operator.dialects import registry
from tf_operator.meta import key_of, metadata_of, text_of

if TYPE_CHECKING:
    from tf_operator.cli.grammar import Commands


def add_command(commands: "Commands") -> None:
    """Put ``submit`` into the grammar."""
    parser = commands.add_parser(
        "submit",
        help="create the jobs of a manifest",
        description="Creates the objects of a manifest, in their order. What a job needs and is there already, such as"
        " its volume claim, is left as it is; a job must be new, unless --replace is given. The manifest is checked"
        " first, as by 'tfjob plan'.",
        allow_abbrev=False,
    )
    manifests.add_argument(parser)
    add_arguments(parser)
    output.add_argument(parser, "json", "yaml", "name")
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Create everything in the files."""
    objects = read(arguments)
    if objects is None:
        return session.FAILED

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        for job in await submit(jobs, objects, replaces=arguments.replace):
            _print(job, arguments.output, session.where(jobs))
        return 0

    return session.run(arguments, verb)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Put the options of every command that submits into its grammar."""
    parser.add_argument("--no-check", action="store_true", help="leave it to the API server to check the manifest")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the job, in place of the manifest's")
    parser.add_argument(
        "--replace", action="store_true", help="delete a job that has the name, and wait until its pods are gone"
    )


def read(arguments: argparse.Namespace) -> list[Manifest] | None:
    """The objects of the files, if their jobs are valid; ``None`` when what is wrong was reported."""
    objects, namespace = list[Manifest](), arguments.namespace
    for name in arguments.filename:
        try:
            objects += manifests.read(name)
        except (ManifestError, UnicodeDecodeError) as error:
            session.failed(f"{name}: {error}")
            return None
    jobs = [manifest for manifest in objects if registry.api_of(manifest.body)]
    if not jobs:
        session.failed(f"{', '.join(arguments.filename)} contains no {registry.kinds()}; tfjob init writes one")
        return None
    if arguments.name and len(jobs) > 1:
        session.failed(f"--name is for one job, and {', '.join(arguments.filename)} contains {len(jobs)}")
        return None
    if arguments.name:
        objects = [_renamed(manifest, arguments.name) if manifest in jobs else manifest for manifest in objects]
        jobs = [manifest for manifest in objects if registry.api_of(manifest.body)]
    wrong = [*_elsewhere(objects, namespace), *(() if arguments.no_check else _invalid(jobs, namespace))]
    for line in wrong:
        session.say(display.printable(line))
    return None if wrong else objects


def _renamed(manifest: Manifest, name: str) -> Manifest:
    metadata = {key: value for key, value in metadata_of(manifest.body).items() if key != "generateName"}
    return replace(manifest, body={**manifest.body, "metadata": {**metadata, "name": name}})


def _elsewhere(objects: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Objects that name another namespace than the command, as kubectl refuses them."""
    for manifest in objects if namespace else ():
        if (other := key_of(manifest.body).namespace) not in {"", namespace}:
            yield f"{manifest.where}: metadata.namespace: is {other}, and -n is {namespace}: leave one of them out"


def _invalid(jobs: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """What this operator would refuse. Another one may have other rules: ``--no-check``."""
    for manifest in jobs:
        for error in validate.check(manifest.body, namespace=namespace).errors:
            yield f"{manifest.where}: {error}"


async def submit(jobs: AsyncTFJobs, objects: Sequence[Manifest], *, replaces: bool = False) -> list[Job]:
    """Create the objects; the jobs among them. ``replaces``: in place of jobs that have their names."""
    created = []
    for manifest in objects:
        reference = f"{text_of(manifest.body, 'kind')} {key_of(manifest.body).name}"
        if registry.api_of(manifest.body):
            try:
                created.append(await jobs.submit(manifest.body))
            except AlreadyExists:
                if not replaces:
                    raise
                session.say(f"{reference} exists already: it is deleted {session.where(jobs)}, and its pods end first")
                created.append(await jobs.submit(manifest.body, replace=True))
            continue
        try:
            await jobs.create(manifest.body)
            session.say(f"{reference} created {session.where(jobs)}")
        except AlreadyExists:
            session.say(f"{reference} is there already, and left as it is")
    if not created:
        raise NotPossible("there is no job in the manifest")
    return created


def _print(job: Job, form: str | None, where: str) -> None:
    if form in {"json", "yaml"}:
        sys.stdout.write(output.document(job.body, form))
    elif form == "name":
        sys.stdout.write(f"{output.reference(job)}\n")
    else:
        sys.stdout.write(f"{job.kind} {job.namespace}/{job.name} submitted {where}\n")
