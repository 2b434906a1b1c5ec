"""What ``tfjob run`` adds to a manifest that is run on this machine: nothing that a cluster would not take, too.

An image brings its programs and its Python along. Here no image is used, so both are somewhere on this machine:
``--mount /training=programs`` puts a folder where the manifest expects it, ``--python venv`` names the interpreter, and
``--env-file`` the variables that an image would set.
"""

import argparse
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from tf_operator.cli import session
from tf_operator.cli.grammar import Arguments
from tf_operator.client.run import local_objects, own_machine
from tf_operator.local.node.machine import python_at, user_python
from tf_operator.local.node.processes import network
from tf_operator.meta import Body

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class LocalFlagError(Exception):
    """A flag is invalid; the message says which and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Put the flags into the grammar of a command."""
    group = parser.add_argument_group("without a cluster")
    group.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter or virtual environment of the programs; default: the active one, else that of tfjob",
    )
    group.add_argument(
        "--mount",
        action="append",
        default=[],
        metavar="PATH=FOLDER",
        help="use FOLDER for what the image contains in PATH, as in /training=programs; may be repeated",
    )
    group.add_argument(
        "--env-file",
        metavar="FILE",
        help="environment variables, one NAME=VALUE per line; those in the manifest take precedence",
    )
    add_gpu_arguments(group)


def add_gpu_arguments(parser: Arguments) -> None:
    """Those of a command that starts a node."""
    parser.add_argument(
        "--gpus",
        default="",
        metavar="GPUS",
        help="GPUs that pods can have: a number, UUIDs separated by commas, or none; default: all",
    )
    parser.add_argument(
        "--share-gpus",
        action="store_true",
        help="give a GPU to several pods if there are too few, and set TF_FORCE_GPU_ALLOW_GROWTH=true",
    )


def explain_images(where: str, arguments: argparse.Namespace) -> None:
    """Say what stands for images, and how it is chosen."""
    python = arguments.python or user_python(os.environ)
    session.say(f"{where}: images are not used, programs run with {python} (--python chooses)")


def explain_network(bodies: Collection[Body]) -> None:
    """Say what it means that a job asks for a network of its own."""
    if own_machine.is_isolated(bodies):
        session.say(f"the programs of the job get {network.MEANING}")


def prepared(
    body: Body, arguments: argparse.Namespace, *, default_python: str = "", folder: str = ""
) -> dict[str, Any]:
    """The object, with mounts, variables and interpreter of the flags in all of its pod templates.

    ``default_python`` is that of templates that name none, and ``folder`` where programs run that name no
    ``workingDir``.
    """
    mounts = dict(map(parse_mount, arguments.mount))
    variables = _variables(arguments.env_file) if arguments.env_file else {}
    python = str(parse_python(arguments.python)) if arguments.python else ""
    return local_objects.prepared(
        body, mounts=mounts, variables=variables, python=python, default_python=default_python, folder=folder
    )


def parse_mount(text: str) -> tuple[str, Path]:
    """``/training=programs``: a path of the image, and the folder or file that stands for it."""
    inside, _, here = text.partition("=")
    if not inside.startswith("/") or inside == "/" or not here:
        rule = "must be PATH=FOLDER, where PATH is the path in the image, as in /training"
        raise LocalFlagError(f"--mount {text}: {rule}")
    return inside.rstrip("/"), _existing(here, f"--mount {text}")


def parse_python(text: str) -> Path:
    """An interpreter or a virtual environment, which has one."""
    program = Path(python_at(text))
    if not os.access(program, os.X_OK) or program.is_dir():
        raise LocalFlagError(f"--python {text}: there is no program {program}")
    return Path(text).absolute()


def _variables(name: str) -> dict[str, str]:
    """The variables of a file; empty lines and those that begin with ``#`` mean nothing. A ``$`` is one."""
    variables = dict[str, str]()
    for number, line in enumerate(_text(name, f"--env-file {name}").splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            variable, equals, value = line.partition("=")
            if not equals or not _VARIABLE.fullmatch(variable.strip()):
                raise LocalFlagError(f"--env-file {name}: line {number} must be NAME=VALUE")
            variables[variable.strip()] = value.replace("$", "$$")
    return variables


def _text(name: str, flag: str) -> str:
    try:
        return _existing(name, flag).read_text(encoding="utf-8-sig")  # editors of Windows begin with a mark
    except UnicodeDecodeError:
        raise LocalFlagError(f"{flag}: is not a text in UTF-8") from None
    except OSError as error:
        raise LocalFlagError(f"{flag}: cannot be read: {error.strerror}") from None


def _existing(name: str, flag: str) -> Path:
    if not Path(name).exists():
        raise LocalFlagError(f"{flag}: there is no {name}")
    return Path(name).absolute()
