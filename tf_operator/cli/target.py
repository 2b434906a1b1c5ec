"""Which cluster a command is about, and how the user is told.

What is named wins: ``--context``, ``--kubeconfig``, the variable KUBECONFIG. Then the local server of this user, if one
runs; then what kubectl would take.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tf_operator.local import kubeconfig, state
from tf_operator.local.state import StateFolder


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster: what ``TFJobs`` is given, and the reason."""

    kubeconfig: str | None
    context: str | None
    why: str
    """For ``-v``: ``the context prod (--context)``."""
    folder: StateFolder | None = None
    """That of the local server whose kubeconfig it is, even if the server does not run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Put the choice of a cluster and a namespace into the grammar of a command."""
    group = parser.add_argument_group("cluster")
    group.add_argument("-n", "--namespace", default="", metavar="NAME", help="namespace; default: that of the context")
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    group.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; default: KUBECONFIG or ~/.kube/config")
    group.add_argument(
        "--kind",
        default="tfjob",
        metavar="KIND",
        help="kind of the jobs, as in tfjob.mlkube.io; default: tfjob",
    )
    group.add_argument("-v", "--verbose", action="store_true", help="say which cluster is used")


def named(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Target | None:
    """The cluster that the user names; ``None`` when none is named."""
    file, context, by_variable = arguments.kubeconfig, arguments.context, environment.get("KUBECONFIG", "")
    folder = _folder_of(file or by_variable, environment) if context in {None, "", kubeconfig.CONTEXT} else None
    if context:
        return Target(file, context, f"the context {context} (--context)", folder)
    if file:
        return Target(file, None, f"the kubeconfig {file} (--kubeconfig)", folder)
    if by_variable:
        return Target(None, None, f"the kubeconfig {by_variable} (KUBECONFIG)", folder)
    return None


def choose(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Target:
    """The cluster of a command that needs one."""
    return named(arguments, environment) or local(environment) or Target(None, None, "the current context")


def local(environment: Mapping[str, str] = os.environ) -> Target | None:
    """The local server of this user, if it runs."""
    folder = StateFolder(state.default_folder(environment))
    if folder.server() is None:
        return None
    return Target(str(folder.kubeconfig), None, f"the local server of {folder.path}", folder)


def is_local(chosen: Target, address: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a server of this user, in which the operator runs, serves at the address of a cluster.

    This machine says so, and no object in the cluster, which one of its tenants could forge.
    """
    running = (chosen.folder or StateFolder(state.default_folder(environment))).server()
    return running is not None and running.address == address


def stopped(chosen: Target, environment: Mapping[str, str] = os.environ) -> str:
    """What to say when a cluster cannot be reached because it is a local server that does not run; else nothing."""
    folder = chosen.folder
    if folder is None or folder.server():
        return ""
    is_default = folder.path == StateFolder(state.default_folder(environment)).path
    start = "tfjob local up" if is_default else f"tfjob local up --state-dir {folder.path}"
    other = "" if chosen.kubeconfig else " (or unset KUBECONFIG)"
    return f"the local server of {folder.path} does not run: {start} starts it{other}"


def _folder_of(file: str, environment: Mapping[str, str]) -> StateFolder | None:
    """The folder of the local server that has written this kubeconfig, which may be gone."""
    path = Path(file).absolute()
    folder = StateFolder(path.parent)
    is_one = folder.exists() or folder.path == StateFolder(state.default_folder(environment)).path
    return folder if is_one and path == folder.kubeconfig else None
