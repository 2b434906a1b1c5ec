"""The command line of hack/cluster: arguments in, sentences and exit codes out."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.cluster import cluster
from lab.cluster import network as cluster_network
from lab.cluster.cgroups import NoCgroupsError
from lab.cluster.cluster import Cluster, NotLoadedError
from lab.cluster.host import UnfitHostError
from lab.cluster.network import NoFreeRangeError
from lab.control_plane import cli as plane_cli
from lab.control_plane.directory import DirectoryRefusedError
from lab.control_plane.plane import NoPlaneError

_FAILURES: Final = (*plane_cli.FAILURES, NoCgroupsError, NoFreeRangeError, NotLoadedError)
_UNFIT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did what it says, 2 when this machine or this user cannot have a cluster."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except UnfitHostError as error:
        return _complain(str(error), _UNFIT)
    except (DirectoryRefusedError, NoPlaneError) as error:
        # They come from below, where nobody knows of nodes.
        return _complain(str(error).replace("control plane", "cluster"), 1)
    except _FAILURES as error:
        return _complain(str(error), 1)
    except KeyboardInterrupt:
        return _complain("interrupted", plane_cli.INTERRUPTED)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster", description="A real one-machine Kubernetes cluster without Docker."
    )
    commands = parser.add_subparsers(required=True, metavar="up | load | status | down")
    up = commands.add_parser("up", help="start one and return when pods can run in it")
    up.set_defaults(run=_up)
    up.add_argument("--nodes", type=_nodes, default=2, metavar="N", help="how many nodes (default: 2)")
    up.add_argument("--owner", type=plane_cli.process, metavar="PID", help="end it when this process ends")
    load = commands.add_parser("load", help="give an image archive to every node")
    load.set_defaults(run=_load)
    load.add_argument("archives", type=Path, nargs="+", metavar="IMAGE.tar", help="an OCI or Docker archive")
    status = commands.add_parser("status", help="a line for each node and each server; exit 0 when all are up")
    status.set_defaults(run=_status)
    down = commands.add_parser("down", help="end it and remove what it made")
    down.set_defaults(run=_down)
    for command in (up, load, status, down):
        command.add_argument("--dir", type=Path, required=True, help="the cluster's own directory")
    return parser


def _nodes(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= cluster_network.MOST_NODES:
        raise argparse.ArgumentTypeError(f"between 1 and {cluster_network.MOST_NODES} nodes, not {text}")
    return int(text)


def _up(options: argparse.Namespace) -> int:
    start = time.monotonic()

    def say(line: str) -> None:
        plane_cli.say(f"{time.monotonic() - start:6.1f} s  {line}")

    try:
        running = Cluster.up(options.dir, nodes=options.nodes, owner=options.owner, say=say)
        running.detach()
    except KeyboardInterrupt:
        return _complain("interrupted; nothing is left running", plane_cli.INTERRUPTED)
    if running.has_swept:
        say(f"(removed first what a killed cluster had left in {running.dir})")
    say("ready")
    for name, value in cluster_network.around_proxies(os.environ).items():
        plane_cli.say(f"export {name}={value}")
    plane_cli.say(f"export KUBECONFIG={running.kubeconfig}")
    return 0


def _load(options: argparse.Namespace) -> int:
    for absent in (archive for archive in options.archives if not archive.is_file()):
        return _complain(f"there is no file {absent}", 1)
    running = Cluster.attach(options.dir)
    for archive in options.archives:
        running.load(archive)
        plane_cli.say(f"every node has {archive.name}")
    return 0


def _status(options: argparse.Namespace) -> int:
    rows = cluster.status_rows(options.dir)
    if not rows:
        plane_cli.say(f"there is no cluster in {options.dir}")
    for name, pid, state in rows:
        plane_cli.say(f"{name:<20} pid {pid:<8} {state}")
    return 0 if rows and all(state == "up" for _, _, state in rows) else 1


def _down(options: argparse.Namespace) -> int:
    plane_cli.say(cluster.take_down(options.dir))
    return 0


def _complain(text: str, code: int) -> int:
    plane_cli.say(f"hack/cluster: {text}", sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
