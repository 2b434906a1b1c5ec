"""Which cluster a command is about, and how the user is told.

What is named wins: ``--context``, ``--kubeconfig``, the variable KUBECONFIG. Then the local server of this user, if one
runs; then what kubectl would take.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tf_operator.local import state
from tf_operator.local.state import StateFolder


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster: what ``TFJobs`` is given, and the reason."""

    kubeconfig: str | None
    context: str | None
    why: str
    """For ``-v``: ``the context prod (--context)``."""
    is_local: bool = False
    """Whether it is a server of this user, in which the operator runs."""


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
    kubeconfig, context = arguments.kubeconfig, arguments.context
    if context:
        return Target(kubeconfig, context, f"the context {context} (--context)")
    if kubeconfig:
        return Target(kubeconfig, None, f"the kubeconfig {kubeconfig} (--kubeconfig)")
    if named_by_variable := environment.get("KUBECONFIG"):
        return Target(None, None, f"the kubeconfig {named_by_variable} (KUBECONFIG)")
    return None


def choose(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Target:
    """The cluster of a command that needs one."""
    return named(arguments, environment) or local(environment) or Target(None, None, "the current context")


def local(environment: Mapping[str, str] = os.environ) -> Target | None:
    """The local server of this user, if it runs."""
    folder = StateFolder(state.default_folder(environment))
    if folder.server() is None:
        return None
    return Target(str(folder.kubeconfig), None, f"the local server of {folder.path}", is_local=True)
