"""Which cluster a command is about, and how the user is told.

What is named wins: ``--context``, ``--kubeconfig``, the variable KUBECONFIG. Then the local server of this user, if one
runs; then what kubectl would take.
"""

import argparse
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

_ANSWER_WITHIN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster: what ``TFJobs`` is given, and the reason."""

    kubeconfig: str | None
    context: str | None
    why: str
    """For ``-v``: ``the context prod (--context)``."""


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
        help="kind of the jobs, as in training.tensorstack.dev; default: tfjob",
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
    """The local server, if one answers."""
    kubeconfig = state_folder(environment) / "kubeconfig"
    if _is_alive(kubeconfig):
        return Target(str(kubeconfig), None, f"the local server ({kubeconfig})")
    return None


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the local server of this user keeps its state."""
    base = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "tf-operator" / "local"


def _is_alive(kubeconfig: Path) -> bool:
    """Whether somebody listens where the file says. A server that was killed leaves its file behind."""
    try:
        found = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        server = urlsplit(str(found["clusters"][0]["cluster"]["server"]))
        with socket.create_connection((str(server.hostname), server.port or 443), timeout=_ANSWER_WITHIN):
            return True
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return False
