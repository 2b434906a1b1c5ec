"""``tfjob image push``: an image for clusters from a base and some files, without a container engine."""

import argparse
import ssl
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from tf_operator.cli import session
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import starter
from tf_operator.cli.usage import UsageError
from tf_operator.client import NotPossible, display
from tf_operator.machinery.transport.config import make_tls

_FOLDER: Final = "/app"
_DESCRIPTION: Final = """\
Pushes an image: the base with one layer of your files on top. Needs no docker, podman or buildah; layers of the base
are mounted or copied in the registry. The same files on the same base give the same digest. Prints the name with the
digest, for the manifest of a job. The process starts in the first folder that was added.

Files that .gitignore or .tfjobignore name do not go along, nor do .git, __pycache__ and virtual environments. The login
is docker's: ~/.docker/config.json, or DOCKER_CONFIG, and the credential helpers that it names. Registries on this
machine may speak HTTP."""
_PLATFORMS: Final = ("linux/amd64", "linux/arm64")


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "image",
        help="push an image with your program",
        description="Images for clusters, made without a container engine.",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    push = verbs.add_parser(
        "push", help="push an image of a base and your files", description=_DESCRIPTION, allow_abbrev=False
    )
    push.add_argument("image", metavar="IMAGE", help="name of the image, as in registry.example.com/team/train:1")
    push.add_argument(
        "--base", default=starter.IMAGE, metavar="IMAGE", help=f"image to begin with; default: {starter.IMAGE}"
    )
    push.add_argument(
        "--add",
        action="append",
        type=_addition,
        metavar="PATH:TARGET",
        help=f"file or folder, and its path in the image; may be repeated; default: .:{_FOLDER}",
    )
    push.add_argument(
        "--platform",
        action="append",
        choices=_PLATFORMS,
        metavar="PLATFORM",
        help=f"one of {', '.join(_PLATFORMS)}; may be repeated; default: those that the base has",
    )
    push.add_argument("--ca", default="", metavar="FILE", help="certificate authorities of the registry, as PEM")
    push.set_defaults(run=lambda arguments: session.ended(lambda: _push(arguments)))


def _addition(text: str) -> tuple[Path, PurePosixPath]:
    path, colon, target = text.rpartition(":")
    if not (colon and path and target.startswith("/") and ".." not in PurePosixPath(target).parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not as in .:{_FOLDER}, with an absolute path in the image")
    name = Path(path).name if target.endswith("/") and Path(path).is_file() else ""
    return Path(path), PurePosixPath(target) / name


async def _push(arguments: argparse.Namespace) -> int:
    from tf_operator.client.images import folder, image_name, layer, push  # noqa: PLC0415 (aiohttp takes a while)

    target, base = image_name.parse_target(arguments.image), image_name.parse(arguments.base)
    additions = arguments.add or [(Path(), PurePosixPath(_FOLDER))]
    tls = _tls(arguments.ca) if arguments.ca else None
    entries = [entry for source, place in additions for entry in folder.entries(source, place)]
    with layer.packed(entries) as top:
        if not top.files:
            raise NotPossible(f"there are no files in {', '.join(str(source) for source, _ in additions)}")
        session.say(f"{top.files} file{'s'[: top.files != 1]}, {display.size(top.size)}, on {base}")
        pushed = await push.push(
            target,
            base,
            top,
            folder=next((str(place) for source, place in additions if source.is_dir()), ""),
            platforms=arguments.platform or _PLATFORMS,
            tls=tls,
            report=lambda descriptor, transfer: session.say(
                f"layer {descriptor.digest[7:19]}, {display.size(descriptor.size)}: {transfer.name.lower()}"
            ),
        )
    sys.stdout.write(f"{target}@{pushed.version}\n")
    return 0


def _tls(file: str) -> ssl.SSLContext:
    try:
        return make_tls(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or 'it contains no certificates'}") from None
