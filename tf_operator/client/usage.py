"""The CPU and memory that the replicas of a job use, as the metrics API says."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tf_operator import quantity
from tf_operator.client import display, pods
from tf_operator.client.job import Job, NotPossible
from tf_operator.client.pods import JobPod
from tf_operator.machinery.transport import requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import NotFound
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import Body, key_of, list_of, objects_of

_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
_MEBIBYTE: Final = 1024 * 1024
_COLUMNS: Final = ("REPLICA", "POD", "CPU", "MEMORY", "NODE")


@dataclass(frozen=True, slots=True)
class ReplicaUsage:
    """The CPU and memory that one replica uses."""

    replica: str
    """``worker-0``."""
    pod: str
    cpu: float
    """Cores."""
    memory: int
    """Bytes."""
    node: str = ""


class UsageList(tuple[ReplicaUsage, ...]):
    """What the replicas of a job use. ``print`` shows it as ``tfjob top`` does, a notebook shows it as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return "".join(display.table(_COLUMNS, list(map(_cells, self)))).rstrip("\n")

    def _repr_html_(self) -> str:
        return display.html_table([name.title() for name in _COLUMNS], map(_cells, self))


async def read(client: ApiClient, job: Job, job_pods: Iterable[JobPod]) -> UsageList:
    """What these pods of a job use; ``NotPossible`` where nobody measures it."""
    # The metrics API has lists without a version.
    scope = pods.scope_of(job)
    request = Request("list", "GET", requests.path(_METRICS, scope.namespace), scope.query())
    try:
        items = responses.read_object(await client.send(request)).get("items")
    except NotFound:
        raise NotPossible("there is no metrics API: a cluster needs the metrics-server, this machine Linux") from None
    return usage_of(job_pods, list_of(items))


def usage_of(job_pods: Iterable[JobPod], metrics: Iterable[Body]) -> UsageList:
    """The replicas of which there are figures."""
    by_name = {key_of(body).name: body for body in metrics}
    return UsageList(
        ReplicaUsage(pod.replica, pod.name, *_total(by_name[pod.name]), pod.node)
        for pod in job_pods
        if pod.name in by_name
    )


def _cells(usage: ReplicaUsage) -> tuple[str, ...]:
    cpu, memory = f"{round(usage.cpu * 1000)}m", f"{round(usage.memory / _MEBIBYTE)}Mi"
    return (usage.replica, usage.pod, cpu, memory, usage.node)


def _total(body: Body) -> tuple[float, int]:
    containers = list(_containers(body))
    cpu, memory = (sum(_amount(container.get(name)) for container in containers) for name in ("cpu", "memory"))
    return cpu, round(memory)


def _containers(body: Body) -> Iterator[Mapping[str, Any]]:
    usages = (entry.get("usage") for entry in objects_of(body.get("containers")))
    return (usage for usage in usages if isinstance(usage, Mapping))


def _amount(value: object) -> float:
    amount = quantity.parse(value)
    return float(amount) if amount is not None else 0.0
