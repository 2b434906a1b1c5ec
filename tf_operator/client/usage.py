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
_GPU: Final = "nvidia.com/gpu"
_GPU_MEMORY: Final = "nvidia.com/gpu-memory"
_GPU_MEMORY_TOTAL: Final = "nvidia.com/gpu-memory-total"
"""All from the local node; a metrics-server measures none. Those of one GPU have its index at the end."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """What one GPU does."""

    index: str
    """As nvidia-smi counts; ``0:1`` is the second instance of the first GPU."""
    used: float | None
    """Parts of its time; ``None`` for an instance, which nobody measures."""
    memory: int
    """Bytes in use."""
    total_memory: int


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
    gpu: float | None = None
    """GPUs' worth of time; ``None`` if it has none, or nobody measures it."""
    gpu_memory: int | None = None
    """Bytes."""
    gpus: tuple[GpuUsage, ...] = ()
    """Each of them, on this machine: ``index``, ``used``, ``memory``, ``total_memory``."""


class UsageList(tuple[ReplicaUsage, ...]):
    """What the replicas of a job use. ``print`` shows it as ``tfjob top`` does, a notebook shows it as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        columns, rows = self._table()
        return "".join(display.table(columns, rows)).rstrip("\n")

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        return display.html_table([name.title().replace("Gpu", "GPU") for name in columns], rows)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """GPUs have columns if any replica has one."""
        has_gpus = any(usage.gpu_memory is not None for usage in self)
        columns = ["REPLICA", "POD", "CPU", "MEMORY", *(["GPU", "GPU MEMORY"] if has_gpus else []), "NODE"]
        return columns, [_cells(usage, has_gpus=has_gpus) for usage in self]


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
    return UsageList(_usage(pod, by_name[pod.name]) for pod in job_pods if pod.name in by_name)


def texts(usage: ReplicaUsage) -> tuple[str, str, str, str]:
    """CPU and memory, GPU and its memory, as they are shown: ``250m``, ``512Mi``, ``71%``, ``-``."""
    return f"{round(usage.cpu * 1000)}m", _mebibytes(usage.memory), *gpu_texts(usage.gpu, usage.gpu_memory)


def gpu_texts(used: float | None, memory: int | None) -> tuple[str, str]:
    """As in ``71%`` and ``512Mi``."""
    return "-" if used is None else f"{round(used * 100)}%", "-" if memory is None else _mebibytes(memory)


def _cells(usage: ReplicaUsage, *, has_gpus: bool) -> list[str]:
    cells = texts(usage)
    return [usage.replica, usage.pod, *(cells if has_gpus else cells[:2]), usage.node]


def _mebibytes(size: int) -> str:
    return f"{round(size / _MEBIBYTE)}Mi"


def _usage(pod: JobPod, body: Body) -> ReplicaUsage:
    containers = list(_containers(body))

    def total(name: str) -> float | None:
        """That of the containers of which there is a figure."""
        amounts = [_amount(container[name]) for container in containers if name in container]
        return sum(amounts) if amounts else None

    gpu_memory = total(_GPU_MEMORY)
    return ReplicaUsage(
        pod.replica,
        pod.name,
        total("cpu") or 0.0,
        round(total("memory") or 0),
        pod.node,
        gpu=total(_GPU),
        gpu_memory=None if gpu_memory is None else round(gpu_memory),
        gpus=tuple(gpu for container in containers for gpu in _gpus(container)),
    )


def _gpus(container: Mapping[str, Any]) -> Iterator[GpuUsage]:
    begin = f"{_GPU_MEMORY_TOTAL}."
    for name in (name for name in container if name.startswith(begin)):
        place = name.removeprefix(begin)
        time, memory = (container.get(f"{measured}.{place}") for measured in (_GPU, _GPU_MEMORY))
        used = None if time is None else _amount(time)
        yield GpuUsage(place.replace("-", ":"), used, round(_amount(memory)), round(_amount(container[name])))


def _containers(body: Body) -> Iterator[Mapping[str, Any]]:
    usages = (entry.get("usage") for entry in objects_of(body.get("containers")))
    return (usage for usage in usages if isinstance(usage, Mapping))


def _amount(value: object) -> float:
    amount = quantity.parse(value)
    return float(amount) if amount is not None else 0.0
