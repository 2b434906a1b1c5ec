"""What the processes of containers use of processors and memory, as objects of the metrics API.

From ``/proc``, so on Linux only. A container is a session: its processes are those of the session of its first one.
Nothing is measured unless somebody asks. Processor time is a rate since the time before, at least ``WINDOW`` seconds
ago, or since the container began.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from tf_operator.local.node.pod import LocalPod
from tf_operator.meta import Body, GroupVersionResource, rfc3339

POD_METRICS: Final = GroupVersionResource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
WINDOW: Final = timedelta(seconds=10)
_PROC: Final = Path("/proc")


class ContainerSession(NamedTuple):
    """A container that runs."""

    name: str
    leader: int
    """The number of its first process, and of its session."""
    began: datetime


class Used(NamedTuple):
    """What a session has used by now."""

    cpu: float = 0.0
    """Seconds of a processor."""
    memory: int = 0
    """Bytes."""


class _Reading(NamedTuple):
    at: datetime
    cpu: float


def is_known(proc: Path = _PROC) -> bool:
    """Whether this system says what processes use."""
    return (proc / "self/stat").exists()


MoreUsage = Callable[[LocalPod, str], dict[str, str]]
"""From a pod and a container to quantities beside those of processes."""


def nothing_more(_pod: LocalPod, _container: str) -> dict[str, str]:
    return {}


class UsageMeter:
    """Remembers of each container what it had used when somebody asked before."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._readings: dict[int, tuple[_Reading, _Reading]] = {}
        """By session: the one that a rate is taken from, and the one that will be next."""

    def metrics(
        self,
        pods: Iterable[tuple[LocalPod, Iterable[ContainerSession]]],
        now: datetime,
        more: MoreUsage = nothing_more,
    ) -> Iterator[Body]:
        used, readings = _by_session(self._proc), self._readings
        self._readings = {}
        for pod, sessions in pods:
            window, containers = timedelta(), list[Body]()
            for session in sessions:
                base, following = readings.get(session.leader, (_Reading(session.began, 0.0),) * 2)
                use = used[session.leader]
                if base.at < session.began or use.cpu < base.cpu:  # another process has the number now
                    base = following = _Reading(session.began, 0.0)
                if now - following.at >= WINDOW:
                    base, following = following, _Reading(now, use.cpu)
                self._readings[session.leader] = base, following
                window = max(now - base.at, timedelta(milliseconds=10))
                cores = (use.cpu - base.cpu) / window.total_seconds()
                usage = {"cpu": f"{cores * 1e9:.0f}n", "memory": f"{use.memory // 1024}Ki"} | more(pod, session.name)
                containers.append({"name": session.name, "usage": usage})
            if containers:
                yield _body(pod, containers, now, window)


def _body(pod: LocalPod, containers: list[Body], now: datetime, window: timedelta) -> Mapping[str, Any]:
    name, namespace, labels = pod.key.name, pod.key.namespace, pod.metadata.labels
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": rfc3339(now), "labels": labels}
    return {
        "kind": POD_METRICS.kind,
        "apiVersion": POD_METRICS.api_version,
        "metadata": metadata,
        "timestamp": rfc3339(now),
        "window": f"{window.total_seconds():.3f}s",
        "containers": containers,
    }


def _by_session(proc: Path) -> Mapping[int, Used]:
    """What sessions use: the processes that they have, and those that these have waited for."""
    by_leader: defaultdict[int, Used] = defaultdict(Used)
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            # The name in parentheses may hold anything, so the fields are counted from its end.
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            total = by_leader[int(fields[3])]
            cpu = sum(map(int, fields[11:15])) / ticks
            by_leader[int(fields[3])] = Used(total.cpu + cpu, total.memory + int(fields[21]) * page)
    return by_leader
