"""What kube-state-metrics and the kubelet would say of pods, for a Prometheus that has neither.

Of kube-state-metrics it has what dashboards ask for, under the documented names and labels, from the pods that there
are at the moment. What containers use is made up: each pod keeps a level of its own, so that its graph is steady.
"""

import contextlib
import math
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab import Json
from lab.control_plane.api import BlockingApi

_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_MIB = 2**20


class PodMetrics:
    """The metrics of all pods in some namespaces."""

    def __init__(self, api: BlockingApi, namespaces: Iterable[str]) -> None:
        self._api = api
        self._namespaces = tuple(namespaces)

    @classmethod
    @contextlib.contextmanager
    def up(cls, api: BlockingApi, namespaces: Iterable[str]) -> Iterator[str]:
        """Serve them while the body runs; yields ``host:port``."""
        metrics = cls(api, namespaces)

        class Door(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = metrics.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name is the library's)
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def page(self) -> str:
        """The text that Prometheus reads."""
        lines: list[str] = []
        for namespace in self._namespaces:
            for pod in self._api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
                lines += _state(pod)
                if pod["status"].get("phase") == "Running":
                    lines += _usage(pod, time.time())
        return "\n".join([*lines, ""])


def _state(pod: Json) -> Iterator[str]:
    """As kube-state-metrics has it."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        yield _sample("kube_pod_owner", pod, 1, owner_kind=owner["kind"], owner_name=owner["name"])
    for phase in _PHASES:
        yield _sample("kube_pod_status_phase", pod, int(pod["status"].get("phase") == phase), phase=phase)
    for container in pod["spec"]["containers"]:
        for resource, amount in container.get("resources", {}).get("requests", {}).items():
            labels = {"container": container["name"], "resource": resource.replace(".", "_").replace("/", "_")}
            if amount.isdecimal():
                yield _sample("kube_pod_container_resource_requests", pod, int(amount), **labels)
    yield from _containers(pod)


def _containers(pod: Json) -> Iterator[str]:
    for status in pod["status"].get("containerStatuses", ()):
        name = status["name"]
        yield _sample("kube_pod_container_status_restarts_total", pod, status["restartCount"], container=name)
        if waiting := status.get("state", {}).get("waiting"):
            labels = {"container": name, "reason": waiting.get("reason", "")}
            yield _sample("kube_pod_container_status_waiting_reason", pod, 1, **labels)
        if ended := status.get("lastState", {}).get("terminated"):
            labels = {"container": name, "reason": ended.get("reason", "")}
            yield _sample("kube_pod_container_status_last_terminated_reason", pod, 1, **labels)


def _usage(pod: Json, now: float) -> Iterator[str]:
    """As the kubelet's cAdvisor has it."""
    level = zlib.crc32(pod["metadata"]["name"].encode()) % 100 / 100
    busy = (1 + 3 * level) * now + 8 * math.sin(now / 20 + 6 * level)
    yield _sample("container_cpu_usage_seconds_total", pod, busy, container="tensorflow")
    memory = (600 + 900 * level + 40 * math.sin(now / 30 + 6 * level)) * _MIB
    yield _sample("container_memory_working_set_bytes", pod, memory, container="tensorflow")
    sent = (20 + 60 * level) * _MIB * now
    yield _sample("container_network_receive_bytes_total", pod, sent, interface="eth0")
    yield _sample("container_network_transmit_bytes_total", pod, sent * 0.8, interface="eth0")


def _sample(name: str, pod: Json, value: float, **labels: str) -> str:
    metadata = pod["metadata"]
    every = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"], **labels}
    pairs = ",".join(f'{key}="{text}"' for key, text in every.items())
    return f"{name}{{{pairs}}} {value:.3f}"
