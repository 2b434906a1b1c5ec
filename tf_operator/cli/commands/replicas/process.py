"""The process of a replica on this machine.

There is no container to enter: Linux says in ``/proc`` where the process runs and with which variables.
"""

import argparse
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_operator.cli import session
from tf_operator.client import AsyncTFJobs, JobPod, NotPossible, cluster
from tf_operator.client.cluster import ClusterChoice
from tf_operator.local.node.processes import network
from tf_operator.meta import mapping_of, objects_of, text_of

_STATUSES: Final = ("initContainerStatuses", "containerStatuses")
_MARK: Final = "TF_OPERATOR_TERMINATION_LOG"
"""A variable of each container on this machine, whose value names the pod and the container."""


@dataclass(frozen=True, slots=True)
class ReplicaProcess:
    replica: str
    folder: str
    variables: dict[str, str]
    network: tuple[str, ...] = ()
    """The paths of the network of its job, if it has one; empty for that of this machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Put the choice of a replica into the grammar of a command."""
    parser.add_argument("--replica", default="", metavar="REPLICA", help="only this replica, as in worker-0")
    parser.add_argument(
        "-c", "--container", default="", metavar="NAME", help="container; default: the training container"
    )


async def find(
    jobs: AsyncTFJobs,
    arguments: argparse.Namespace,
    choice: ClusterChoice,
    kubectl: Callable[[JobPod, str], list[str]],
) -> ReplicaProcess:
    """The process; ``NotPossible`` for one in a cluster, with the command that does it there, for pod and container."""
    name = session.name_of(arguments.name, jobs)
    pod = _one(name, [pod for pod in await jobs.pods(name) if arguments.replica in {"", pod.replica}])
    container = arguments.container or pod.container
    if not cluster.is_local(choice, jobs.host):
        raise NotPossible(f"{pod.replica} is not on this machine: {shlex.join(kubectl(pod, container))}")
    return _read(pod, container)


def _one(job: str, pods: list[JobPod]) -> JobPod:
    if len(pods) == 1:
        return pods[0]
    if not pods:
        raise NotPossible(f"{job} has no such pod; tfjob explain {job} says why")
    raise NotPossible(f"{job} has several replicas, name one with --replica: {', '.join(pod.replica for pod in pods)}")


def _read(pod: JobPod, container: str) -> ReplicaProcess:
    status = mapping_of(pod.body.get("status"))
    states = [entry for kind in _STATUSES for entry in objects_of(status.get(kind)) if entry.get("name") == container]
    running = next((entry for entry in states if mapping_of(entry.get("state")).get("running")), None)
    if running is None:
        raise NotPossible(f"{pod.replica} has no container {container} that runs")
    process = Path("/proc", text_of(running, "containerID").removeprefix("process://").lstrip("/"))
    try:
        text = (process / "environ").read_bytes()
        folder = str((process / "cwd").readlink())
        namespaces = network.paths_of(process)
    except OSError:
        text, folder, namespaces = b"", "", ()
    variables = dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if b"=" in entry)
    # Another process may have its number by now.
    if not variables.get(_MARK, "").endswith(f"/{pod.uid[-12:]}/messages/{container}"):
        raise NotPossible(f"the process of {pod.replica} has ended, or this system has no /proc")
    return ReplicaProcess(pod.replica, folder, variables, namespaces)
