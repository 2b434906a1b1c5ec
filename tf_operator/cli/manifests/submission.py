"""The objects of a command's files: read, checked, and created in their order."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tf_operator.cli import session
from tf_operator.cli.manifests import named_files
from tf_operator.cli.usage import UsageError
from tf_operator.client import AsyncTFJobs, Job, NotPossible, display
from tf_operator.client.manifests import validate
from tf_operator.client.manifests.files import Manifest, ManifestError
from tf_operator.client.run import submission
from tf_operator.client.run.submission import Step
from tf_operator.dialects import registry
from tf_operator.meta import Body, key_of, metadata_of, text_of
from tf_operator.text import printable

_HERE: Final = "."
_STEPS: Final = {
    Step.CREATED: "created {}",
    Step.LEFT_UNCHANGED: "exists already and is left unchanged",
    Step.REPLACING: "exists already: deleting it {}; its pods end first",
    Step.WITHDRAWN: "is deleted again {}, because its files could not be sent",
}


def add_arguments(parser: argparse.ArgumentParser, content: str = named_files.ANY) -> None:
    """Put the files and the options of every command that submits into its grammar."""
    named_files.add_argument(parser, content, is_required=False)
    parser.add_argument("--no-check", action="store_true", help="leave all checks to the API server")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the job; default: that in the manifest")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="delete an existing job of that name, and its pods, first",
    )
    parser.add_argument(
        "--upload",
        nargs="?",
        const=_HERE,
        default="",
        metavar="DIR",
        help="send the files of this folder, or of DIR, along: each replica finds a copy in its working directory",
    )


def read(arguments: argparse.Namespace) -> list[Manifest] | None:
    """The objects of the files, if their jobs are valid; ``None`` when what is wrong was reported."""
    _take_file(arguments)
    objects, namespace = list[Manifest](), arguments.namespace
    for name in arguments.filename:
        try:
            objects += named_files.read(name)
        except (ManifestError, UnicodeDecodeError) as error:
            session.failed(f"{name}: {error}")
            return None
    jobs = [manifest for manifest in objects if validate.is_job(manifest.body)]
    if not jobs:
        session.failed(f"{', '.join(arguments.filename)} contains no {registry.kinds()}; tfjob init writes one")
        return None
    if arguments.name and len(jobs) > 1:
        session.failed(f"--name is for one job, and {', '.join(arguments.filename)} contains {len(jobs)}")
        return None
    if arguments.name:
        objects = [_renamed(manifest, arguments.name) if manifest in jobs else manifest for manifest in objects]
        jobs = [manifest for manifest in objects if validate.is_job(manifest.body)]
    # A kind of that name in another API may be one of the objects that a job needs, and is never the job.
    is_checked = not arguments.no_check or not any(registry.api_of(manifest.body) for manifest in jobs)
    wrong = [*_elsewhere(objects, namespace), *(_invalid(jobs, namespace) if is_checked else ())]
    for line in wrong:
        session.say(printable(line))
    if wrong:
        return None
    return _with_files(objects, Path(arguments.upload)) if arguments.upload else objects


def _take_file(arguments: argparse.Namespace) -> None:
    """See that there is a file: after ``--upload`` without a folder, argparse takes it for the folder."""
    if not arguments.filename and arguments.upload and not Path(arguments.upload).is_dir():
        arguments.filename, arguments.upload = [arguments.upload], _HERE
    if not arguments.filename:
        raise UsageError("name a FILE with the job, or -f FILE")


def _with_files(objects: Sequence[Manifest], folder: Path) -> list[Manifest] | None:
    """The objects with the files of a folder for their jobs; ``None`` when it was reported why they cannot go along."""
    from tf_operator.client.upload import archive, uploaded_job  # noqa: PLC0415 (most jobs have none)

    try:
        files = archive.pack(folder)
        prepared = [
            replace(it, body=uploaded_job.with_files(it.body, files), files=files) if registry.api_of(it.body) else it
            for it in objects
        ]
    except NotPossible as error:
        session.failed(str(error))
        return None
    about = f"{files.files} file{'s'[: files.files != 1]}, {display.size(len(files.content))} packed"
    session.say(f"with the files of {printable(str(folder.absolute()))}: {about}, {display.short(files.digest)}")
    return prepared


def read_one(arguments: argparse.Namespace) -> list[Manifest] | None:
    """The objects of the files, with one job among them; ``None`` when what is wrong with them was reported."""
    objects = read(arguments)
    number = sum(registry.api_of(manifest.body) is not None for manifest in objects or ())
    if objects and number > 1:
        names = ", ".join(arguments.filename)
        session.failed(f"{names} contains {number} jobs, and tfjob run accepts one; tfjob submit accepts any number")
        return None
    return objects


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
    """Create the objects, and report each step that the jobs, which it returns, do not show."""

    def report(body: Body, step: Step) -> None:
        session.say(f"{text_of(body, 'kind')} {key_of(body).name} {_STEPS[step].format(session.where(jobs))}")

    bodies, files = [manifest.body for manifest in objects], next((it.files for it in objects if it.files), None)
    return await submission.submit(jobs, bodies, replaces=replaces, files=files, on_step=report)
