"""``tfjob exec``: a command in the folder and the environment of a replica that runs on this machine.

There is no container to enter: the replica is a process of the user. Linux says in ``/proc`` where it runs and with
which variables; a command that has the same finds what the program has found.
"""

import argparse
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, JobPod, NotPossible, cluster
from tf_operator.client.cluster import ClusterChoice
from tf_operator.meta import mapping_of, objects_of, text_of

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of shells."""
_STATUSES: Final = ("initContainerStatuses", "containerStatuses")
_MARK: Final = "TF_OPERATOR_TERMINATION_LOG"
"""A variable of each container on this machine, whose value names the pod and the container."""


@dataclass(frozen=True, slots=True)
class _Place:
    folder: str
    variables: dict[str, str]


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
    parser.add_argument("--replica", default="", metavar="REPLICA", help="only this replica, as in worker-0")
    parser.add_argument(
        "-c", "--container", default="", metavar="NAME", help="container; default: the training container"
    )
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)
    places = list[_Place]()

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        places.append(await _find(jobs, arguments, choice))
        return 0

    code = session.run(arguments, verb, choice=choice)
    return _become(arguments.command, places[0]) if places else code


async def _find(jobs: AsyncTFJobs, arguments: argparse.Namespace, choice: ClusterChoice) -> _Place:
    name = session.name_of(arguments.name, jobs)
    pod = _one(name, [pod for pod in await jobs.pods(name) if arguments.replica in {"", pod.replica}])
    container = arguments.container or pod.container
    if not cluster.is_local(choice, jobs.host):
        command = shlex.join(["kubectl", "exec", "-n", pod.namespace, pod.name, "-c", container, "-it", "--"])
        raise NotPossible(f"{pod.replica} is not on this machine: {command} {shlex.join(arguments.command)}")
    return _read(pod, container)


def _one(job: str, pods: list[JobPod]) -> JobPod:
    if len(pods) == 1:
        return pods[0]
    if not pods:
        raise NotPossible(f"{job} has no such pod; tfjob explain {job} says why")
    raise NotPossible(f"{job} has several replicas, name one with --replica: {', '.join(pod.replica for pod in pods)}")


def _read(pod: JobPod, container: str) -> _Place:
    status = mapping_of(pod.body.get("status"))
    states = [entry for kind in _STATUSES for entry in objects_of(status.get(kind)) if entry.get("name") == container]
    running = next((entry for entry in states if mapping_of(entry.get("state")).get("running")), None)
    if running is None:
        raise NotPossible(f"{pod.replica} has no container {container} that runs")
    process = Path("/proc", text_of(running, "containerID").removeprefix("process://").lstrip("/"))
    try:
        text = (process / "environ").read_bytes()
        folder = str((process / "cwd").readlink())
    except OSError:
        text, folder = b"", ""
    variables = dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if b"=" in entry)
    # Another process may have its number by now.
    if not variables.get(_MARK, "").endswith(f"/{pod.uid[-12:]}/messages/{container}"):
        raise NotPossible(f"the process of {pod.replica} has ended, or this system has no /proc")
    return _Place(folder, variables)


def _become(command: list[str], place: _Place) -> int:
    """Replace this process, so that terminal and signals are the command's; returns where it cannot be started."""
    sys.stdout.flush()
    try:
        os.chdir(place.folder)
    except OSError as error:
        return session.failed(f"cannot go to {place.folder}: {error.strerror}", _NOT_EXECUTABLE)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and its heirs would
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, place.variables)  # noqa: S606 (the user's own command)
    except FileNotFoundError:
        return session.failed(f"there is no program {command[0]}", _NOT_FOUND)
    except OSError as error:
        return session.failed(f"cannot start {command[0]}: {error.strerror}", _NOT_EXECUTABLE)
