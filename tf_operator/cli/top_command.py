"""``tfjob top``: the CPU and memory that the replicas of a job use."""

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tf_operator.cli import session, target
from tf_operator.client import AsyncTFJobs, JobPod, NotFound, NotPossible, display, pods
from tf_operator.machinery.transport import requests, responses
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import Body, key_of
from tf_operator.planning import quantity

if TYPE_CHECKING:
    from tf_operator.cli.grammar import Commands

_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
_MEBIBYTE: Final = 1024 * 1024


def add_command(commands: "Commands") -> None:
    """Put ``top`` into the grammar."""
    parser = commands.add_parser(
        "top",
        help="show the CPU and memory that a job uses",
        description="Shows what the replicas of a job use, as the metrics API says: in a cluster that of the"
        " metrics-server, without one that of the node, on Linux.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="JOB", help="name of the job")
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _top))


async def _top(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    job = await jobs.get(session.name_of(arguments.name, jobs))
    found = await jobs.pods(job)
    # The metrics API has lists without a version.
    scope = pods.scope_of(job)
    request = Request("list", "GET", requests.path(_METRICS, scope.namespace), scope.query())
    try:
        listed = responses.read_object(await jobs.client.send(request)).get("items")
    except NotFound:
        raise NotPossible("there is no metrics API: a cluster needs the metrics-server, this machine Linux") from None
    sys.stdout.writelines(table(found, listed if isinstance(listed, list) else []))
    return 0


def table(found: tuple[JobPod, ...], metrics: list[Body]) -> list[str]:
    """A line for each replica of which there are figures."""
    usage = {key_of(body).name: body for body in metrics}
    rows = [[pod.replica, pod.name, *_used(usage[pod.name]), pod.node] for pod in found if pod.name in usage]
    return list(display.table(["REPLICA", "POD", "CPU", "MEMORY", "NODE"], rows))


def _used(body: Body) -> tuple[str, str]:
    containers = body.get("containers")
    usages = [_usage(entry) for entry in containers] if isinstance(containers, list) else []
    cpu, memory = (sum(_amount(usage.get(name)) for usage in usages) for name in ("cpu", "memory"))
    return f"{round(cpu * 1000)}m", f"{round(memory / _MEBIBYTE)}Mi"


def _usage(container: object) -> Mapping[str, Any]:
    found = container.get("usage") if isinstance(container, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _amount(found: object) -> float:
    parsed = quantity.parse(found)
    return float(parsed) if parsed is not None else 0.0
