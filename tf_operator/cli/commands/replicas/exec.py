"""``tfjob exec``: a command in the folder and the environment of a replica that runs on this machine."""

import argparse
import os
import signal
import sys
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.commands.replicas import process
from tf_operator.cli.commands.replicas.process import ReplicaProcess
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, JobPod
from tf_operator.local.node.processes import network

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of shells."""
_DEFAULTS: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them, and its heirs would."""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "exec",
        help="run a command beside a replica on this machine",
        description="Runs a command in the folder and with the variables of a replica on this machine, as in"
        " tfjob exec JOB -- bash. Needs Linux. In a cluster, use kubectl exec.",
        epilog="exit codes: that of the command; 126 or 127 if it cannot be started",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the command, after --")
    process.add_arguments(parser)
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)
    replicas = list[ReplicaProcess]()

    def kubectl(pod: JobPod, container: str) -> list[str]:
        options = ["-n", pod.namespace, pod.name, "-c", container, "-it"]
        return ["kubectl", "exec", *options, "--", *arguments.command]

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        replicas.append(await process.find(jobs, arguments, choice, kubectl))
        return 0

    code = session.run(arguments, verb, choice=choice)
    return _become(arguments.command, replicas[0]) if replicas else code


def _become(command: list[str], place: ReplicaProcess) -> int:
    """Replace this process, so that terminal and signals are the command's; returns where it cannot be started."""
    sys.stdout.flush()
    try:
        network.enter(place.network)
    except OSError as error:
        return session.failed(f"cannot enter the network of the job: {error.strerror}", _NOT_EXECUTABLE)
    try:
        os.chdir(place.folder)
    except OSError as error:
        return session.failed(f"cannot go to {place.folder}: {error.strerror}", _NOT_EXECUTABLE)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, place.variables)  # noqa: S606 (the user's own command)
    except FileNotFoundError:
        return session.failed(f"there is no program {command[0]}", _NOT_FOUND)
    except OSError as error:
        return session.failed(f"cannot start {command[0]}: {error.strerror}", _NOT_EXECUTABLE)
