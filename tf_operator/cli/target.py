"""Which cluster a command is for, and how the user is told.

``client.cluster`` chooses. ``kubectl tfjob`` follows kubectl's choice. A command that changes something says where; one
that reads says which cluster it is for, once, when that is another one than the last command's.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tf_operator.cli import completion
from tf_operator.client import AsyncTFJobs, NotPossible, cluster, last_cluster
from tf_operator.client.cluster import ClusterChoice, Origin
from tf_operator.client.last_cluster import LastCluster

NAMING: Final = "--context NAME"
_KIND: Final = "tfjob"
_PLUGINS: Final = frozenset({"kubectl-tfjob", "kubectl_complete-tfjob"})


def add_arguments(parser: argparse.ArgumentParser, *, changes: bool, of_operator: str = "") -> None:
    """Put the choice of a cluster and a namespace into the grammar of a command; whether it changes the cluster.

    ``of_operator``: the namespace where a command for the operator, and not for jobs, is done if none is named.
    """
    group = parser.add_argument_group("cluster")
    whose = f"namespace of the operator; default: {of_operator}" if of_operator else "namespace; default: the context's"
    group.add_argument("-n", "--namespace", default=of_operator, metavar="NAME", help=whose)
    group.add_argument(
        "--context",
        metavar="NAME",
        type=_name,
        help="context of the kubeconfig, or in-cluster for the account of this pod",
    )
    group.add_argument(
        "--kubeconfig", metavar="FILE", type=_name, help="kubeconfig; default: KUBECONFIG or ~/.kube/config"
    )
    if not of_operator:
        group.add_argument(
            "--kind", default=_KIND, metavar="KIND", help=f"kind of the jobs, as in tfjob.mlkube.io; default: {_KIND}"
        )
    group.add_argument("-v", "--verbose", action="store_true", help="report which cluster is used")
    parser.set_defaults(changes=changes, **({"kind": _KIND} if of_operator else {}))


def _name(text: str) -> str:
    """A name that was given. One out of a variable that is empty must not mean the cluster that is current."""
    if not text:
        raise argparse.ArgumentTypeError(f"is {cluster.EMPTY}")
    return text


def is_plugin() -> bool:
    """Whether kubectl has started this: its users expect the cluster that kubectl would use."""
    return Path(sys.argv[0]).name in _PLUGINS


def named(arguments: argparse.Namespace) -> ClusterChoice | None:
    if is_plugin():
        return choose(arguments)
    return cluster.named(arguments.kubeconfig, arguments.context)


def choose(arguments: argparse.Namespace) -> ClusterChoice:
    return cluster.choose(arguments.kubeconfig, arguments.context, follows_kubectl=is_plugin())


def check(arguments: argparse.Namespace, choice: ClusterChoice) -> None:
    """Raise ``NotPossible`` for a command that would change a cluster which is only what is left."""
    if arguments.changes and choice.objection:
        raise NotPossible(choice.objection.sentence(NAMING))


def remember(jobs: AsyncTFJobs, choice: ClusterChoice, environment: Mapping[str, str] = os.environ) -> str:
    """Remember the cluster of this command; what to say if the last one was for another, else nothing."""
    if environment.get(completion.COMPLETING):
        return ""
    last = last_cluster.read(environment)
    is_named = choice.origin is Origin.NAMED or is_plugin()
    now = LastCluster(jobs.host, jobs.cluster, (last.origin if last else "") if is_named else choice.origin)
    if now != last:
        last_cluster.write(now, environment)
    if last and last.address != now.address:
        return f"this is {now.name} ({choice.reason}); the previous command used {last.name}"
    if choice.objection and last is None:
        return f"this is {now.name} ({choice.reason}): {choice.objection.problem}"
    return ""
