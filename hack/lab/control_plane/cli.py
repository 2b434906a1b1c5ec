"""The command line of hack/control-plane: arguments in, sentences and exit codes out."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from lab.control_plane import directory as plane_directory
from lab.control_plane import plane as control_plane
from lab.control_plane import servers as plane_servers
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.directory import DirectoryRefusedError
from lab.control_plane.launch import ServerFailedError
from lab.control_plane.link import SupervisorLostError
from lab.control_plane.plane import ControlPlane
from lab.control_plane.process import Condition, ProcessId
from lab.tools.catalogue import ToolError

# What can go wrong without a bug in here; OSError is also a time-out.
FAILURES: Final = (
    ApiRefusedError,
    DirectoryRefusedError,
    SupervisorLostError,
    OSError,
    ServerFailedError,
    ToolError,
)
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did what it says, and for `status` when all servers are up."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except FAILURES as error:
        say(f"control-plane: {error}", sys.stderr)
        return 1
    return code


def say(text: str, stream: TextIO | None = None) -> None:
    print(text, file=stream, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="control-plane", description="A real Kubernetes control plane on loopback, for tests and trials."
    )
    commands = parser.add_subparsers(required=True, metavar="up | down | status")
    up = commands.add_parser("up", help="start one and return when it is ready")
    up.set_defaults(run=_up)
    up.add_argument(
        "--with",
        dest="with_",
        type=_features,
        default=frozenset(),
        metavar="PART,PART",
        help=", ".join(sorted(control_plane.FEATURES)),
    )
    up.add_argument("--owner", type=process, metavar="PID", help="end it when this process ends")
    down = commands.add_parser("down", help="end it and remove what it made")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", help="one line for each server; exit 0 when all are up")
    status.set_defaults(run=_status)
    for command in (up, down, status):
        command.add_argument("--dir", type=Path, required=True, help="the plane's own directory")
    return parser


def _features(text: str) -> frozenset[str]:
    features = frozenset(filter(None, text.split(",")))
    if unknown := features - control_plane.FEATURES:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return features


def process(text: str) -> int:
    """Read the number of a process that exists."""
    if ProcessId.of(int(text)).is_gone():
        raise argparse.ArgumentTypeError(f"there is no process {text}")
    return int(text)


def _up(options: argparse.Namespace) -> int:
    try:
        plane = ControlPlane.up(options.dir, options.with_, owner=options.owner)
        plane.detach()
    except KeyboardInterrupt:
        say("control-plane: interrupted; nothing is left running", sys.stderr)
        return INTERRUPTED
    if plane.has_swept:
        say(f"(removed first what a killed control plane had left in {plane.dir})")
    say(f"ready: {plane.api_url}")
    say(f"export KUBECONFIG={plane.kubeconfig('admin')}")
    return 0


def _down(options: argparse.Namespace) -> int:
    say(control_plane.take_down(options.dir))
    return 0


def _status(options: argparse.Namespace) -> int:
    rows = status_rows(options.dir)
    if not rows:
        say(f"there is no control plane in {options.dir}")
    for row in rows:
        say(f"{row['name']:<20} pid {row['pid']:<8} port {row['port'] or '-':<6} {row['state']}")
    return 0 if rows and all(row["state"] == "up" for row in rows) else 1


def status_rows(root: Path) -> list[dict[str, Any]]:
    state = plane_directory.read_state(root)
    if state is None:
        return []
    root = root.absolute()
    supervisor = state["supervisor"] | {"port": None, "state": _supervisor_state(root, state["phase"])}
    servers = [
        record | {"name": name, "state": _server_state(root, record)} for name, record in state["servers"].items()
    ]
    return [
        {key: row[key] for key in ("name", "pid", "port", "state")}
        for row in ({"name": "supervisor"} | supervisor, *servers)
    ]


def _supervisor_state(root: Path, phase: str) -> str:
    if not plane_directory.is_claimed(root):
        return "gone"
    return "up" if phase == "ready" else phase


def _server_state(root: Path, record: Mapping[str, Any]) -> str:
    condition = ProcessId(record["pid"], record["born"]).condition()
    if condition is Condition.GONE:
        return "gone" if record["code"] is None else f"ended with code {record['code']}"
    if condition is Condition.PAUSED:
        return "paused"
    if record["url"] is None:  # one that cannot be asked, as a cluster's node
        return "up"
    is_ready = plane_servers.is_ready(plane_directory.Layout(root), binary=record["binary"], url=record["url"])
    return "up" if is_ready else "not ready"


if __name__ == "__main__":
    sys.exit(main())
