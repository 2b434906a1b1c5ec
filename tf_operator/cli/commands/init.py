"""``tfjob init``: writes a commented manifest to begin with."""

import argparse
import sys
from pathlib import Path
from typing import Final

from tf_operator.cli import session
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import starter
from tf_operator.cli.run import local_flags
from tf_operator.cli.run.local_flags import LocalFlagError
from tf_operator.client.images import image_name
from tf_operator.job.constants import MOST_REPLICAS

_MOST_GPUS: Final = 64
"""No node has more."""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "init",
        help="write a manifest to start from",
        description="Writes a commented manifest with the replicas that you ask for. It runs as it is with 'tfjob"
        " run': --program names your program; without it, each replica only prints its name.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to write; default: standard output")
    parser.add_argument("--name", default="my-job", metavar="NAME", help="name of the job; default: my-job")
    parser.add_argument("--workers", type=_number, default=1, metavar="N", help="number of workers; default: 1")
    parser.add_argument(
        "--ps",
        type=_number,
        default=0,
        metavar="N",
        help="number of parameter servers; adds a chief, without which TensorFlow 2 trains nothing; default: 0",
    )
    parser.add_argument("--chief", action="store_true", help="add a chief, which alone decides success")
    parser.add_argument(
        "--gpus", type=_gpus, default=0, metavar="N", help="number of GPUs for each worker and the chief; default: 0"
    )
    parser.add_argument("--program", default="", metavar="FILE", help="Python program for all replicas, as in train.py")
    parser.add_argument(
        "--python",
        default="",
        metavar="PATH",
        help="interpreter or virtual environment of the program on this machine; default: as for 'tfjob run'",
    )
    parser.add_argument(
        "--image",
        default="",
        metavar="IMAGE",
        help=f"image for clusters; default: {image_name.TENSORFLOW}, with --gpus {image_name.TENSORFLOW}-gpu",
    )
    parser.set_defaults(run=run)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_REPLICAS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of replicas")
    return int(text)


def _gpus(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_GPUS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Write the manifest; a file that is there is not overwritten."""
    if not (arguments.chief or arguments.workers):
        return session.failed("a job needs a chief or a worker: --workers 1", session.USAGE)
    try:
        text = _manifest(arguments)
        if arguments.file == "-":
            sys.stdout.write(text)
            return 0
        with Path(arguments.file).open("x", encoding="utf-8") as file:
            file.write(text)
    except LocalFlagError as error:
        return session.failed(str(error), session.USAGE)
    except FileExistsError:
        return session.failed(f"{arguments.file} exists already; choose another file", session.USAGE)
    except OSError as error:
        return session.failed(f"cannot write {arguments.file}: {error.strerror}", session.USAGE)
    name = arguments.file
    session.say(f"{name} written. Check it: tfjob plan -f {name}. Run it: tfjob run {name}")
    if arguments.program:
        session.say(f"{arguments.program} gets to a cluster with tfjob run --upload {name}, or in an image")
    return 0


def _manifest(arguments: argparse.Namespace) -> str:
    if arguments.program and not Path(arguments.program).is_file():
        rule = "there is no such file; without --program, an example is written"
        raise LocalFlagError(f"--program {arguments.program}: {rule}")
    return starter.Starter(
        arguments.name,
        image=arguments.image,
        workers=arguments.workers,
        ps=arguments.ps,
        has_chief=arguments.chief or arguments.ps > 0,
        program=arguments.program,
        gpus=arguments.gpus,
        python=str(local_flags.parse_python(arguments.python)) if arguments.python else "",
    ).manifest()
