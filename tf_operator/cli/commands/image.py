"""``tfjob image push``: an image for clusters from a base and some files, without a container engine."""

import argparse
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tf_operator.cli import session
from tf_operator.cli.grammar import Commands
from tf_operator.cli.usage import UsageError
from tf_operator.client import NotPossible, display
from tf_operator.client.images import image_name
from tf_operator.client.images.image_name import ImageName
from tf_operator.machinery.transport.config import make_tls

if TYPE_CHECKING:
    from tf_operator.client.images.image import Descriptor
    from tf_operator.client.images.repository import Transfer

_FOLDER: Final = "/app"
_DESCRIPTION: Final = """\
Pushes an image: the base with one layer of your files on top. Needs no docker, podman or buildah; layers of the base
are mounted or copied in the registry. The same files on the same base give the same digest. Prints the name with the
digest, for the manifest of a job. The process starts in the first folder that was added.

With --requirements, pip adds the packages that the base lacks, as wheels for its Python and platform, in a layer below
the files. Nothing is compiled, and nothing of the base is run; its layers are read once.

Files that .gitignore or .tfjobignore name do not go along, nor do .git, __pycache__ and virtual environments. The login
is docker's: ~/.docker/config.json, or DOCKER_CONFIG, and the credential helpers that it names. Registries on this
machine may speak HTTP.

With --operator it is the operator's own image, with its packages by hash, on a base with Python; see tfjob install."""
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
    push.add_argument("--operator", action="store_true", help="push the operator's own image; needs pip")
    push.add_argument(
        "--base",
        default="",
        metavar="IMAGE",
        help=f"image to begin with; default: {image_name.TENSORFLOW}, or for the operator {image_name.OPERATOR_BASE}",
    )
    push.add_argument(
        "--add",
        action="append",
        type=_addition,
        metavar="PATH:TARGET",
        help=f"file or folder, and its path in the image; may be repeated; default: .:{_FOLDER}",
    )
    push.add_argument(
        "--requirements",
        type=Path,
        metavar="FILE",
        help="packages to install for the base's Python, as a requirements file of pip; needs pip",
    )
    push.add_argument(
        "--python",
        type=_release,
        metavar="X.Y",
        help="release of the base's Python, as in 3.11; default: the one that the base has",
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


def _release(text: str) -> tuple[int, ...]:
    release = tuple(int(part) for part in text.split(".") if part.isdecimal())
    if ".".join(map(str, release)) != text or not 2 <= len(release) <= 3 or release[0] != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is no release of Python, as in 3.11")
    return release


async def _push(arguments: argparse.Namespace) -> int:
    target = image_name.parse_target(arguments.image)
    tls = tls_of(arguments.ca)
    platforms = arguments.platform or _PLATFORMS
    if arguments.operator:
        for flag in ("add", "requirements", "python"):
            if getattr(arguments, flag):
                problem = "the operator's image contains nothing else"
                raise UsageError(f"--operator and --{flag} cannot be combined: {problem}")
        digest = await push_operator(target, base=arguments.base, platforms=platforms, tls=tls)
    else:
        digest = await _push_program(target, arguments, platforms=platforms, tls=tls)
    sys.stdout.write(f"{target}@{digest}\n")
    return 0


async def _push_program(
    target: ImageName, arguments: argparse.Namespace, *, platforms: Sequence[str], tls: ssl.SSLContext | None
) -> str:
    from tf_operator.client.images import folder, layer, push, required_packages  # noqa: PLC0415 (aiohttp takes a while)

    base = image_name.parse(arguments.base or image_name.TENSORFLOW)
    _check_requirements(arguments)
    additions = arguments.add or [(Path(), PurePosixPath(_FOLDER))]
    entries = [entry for source, place in additions for entry in folder.entries(source, place)]
    with (
        layer.packed(entries) as files,
        required_packages.RequiredPackages(arguments.requirements, arguments.python, report=session.say) as packages,
    ):
        if not files.files:
            raise NotPossible(f"there are no files in {', '.join(str(source) for source, _ in additions)}")
        session.say(f"{files.files} file{'s'[: files.files != 1]}, {display.size(files.size)}, on {base}")
        begins = next((str(place) for source, place in additions if source.is_dir()), "")

        async def make_top(base_image: push.BaseImage) -> push.Top:
            top = await packages.top(base_image)
            return push.Top((*top.layers, files), {**top.process, **({"WorkingDir": begins} if begins else {})})

        return (await push.push(target, base, make_top, platforms=platforms, tls=tls, report=_report)).version


def _check_requirements(arguments: argparse.Namespace) -> None:
    if arguments.python and not arguments.requirements:
        raise UsageError("--python is for --requirements")
    if arguments.requirements:
        try:
            arguments.requirements.read_bytes()
        except OSError as error:
            raise UsageError(f"--requirements: cannot read {arguments.requirements}: {error.strerror}") from None


async def push_operator(
    target: ImageName, *, base: str, platforms: Sequence[str] = _PLATFORMS, tls: ssl.SSLContext | None
) -> str:
    """Push the operator's own image, and return its digest."""
    from tf_operator.client.images import operator_image, push  # noqa: PLC0415 (as above)

    name = image_name.parse(base or image_name.OPERATOR_BASE)
    session.say(f"The operator {operator_image.version()} and its packages, on {name}")
    with operator_image.OperatorImage(name) as image:
        return (await push.push(target, name, image.top, platforms=platforms, tls=tls, report=_report)).version


def _report(descriptor: "Descriptor", transfer: "Transfer") -> None:
    session.say(f"layer {descriptor.digest[7:19]}, {display.size(descriptor.size)}: {transfer.name.lower()}")


def tls_of(file: str) -> ssl.SSLContext | None:
    """The certificate authorities in a file; the usual ones if none is named."""
    if not file:
        return None
    try:
        # The context takes nothing but ASCII, and for an empty text whom this machine trusts.
        return make_tls(Path(file).read_text(encoding="ascii", errors="ignore") or "\n")
    except ssl.SSLError:
        raise UsageError(f"--ca {file}: contains no certificates as PEM") from None
    except OSError as error:
        raise UsageError(f"--ca: cannot read {file}: {error.strerror}") from None
