"""A few jobs on an embedded API server, whose operator and node are the test: what clients and commands read, change.

The server is written to without an event loop, so that a command under test may have its own.
"""

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import msgspec

from support.jobs.builders import merge, tfjob
from support.resources import Json
from tf_operator.client import AsyncTFJobs
from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.in_process import InProcess
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import ObjectKey

TFJOBS = registry.DEFAULT.resource
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
RUNNING = {"name": "tensorflow", "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
RETRIED = "OnFailure"
SPEC = {"containers": [{"name": "tensorflow", "image": "i"}], "nodeName": "n"}


@cache
def kinds() -> tuple[Kind, ...]:
    """Made once: the rules of a CRD take long to be compiled."""
    return (*catalog.KINDS, *custom_kinds.defined(registry.DEFAULT.crd.load(*registry.DEFAULT.conversion.versions)))


class EmbeddedJobs:
    """The server; ``logs`` has what the replicas have printed, by pod, and ``asked`` how it was read."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.server = ApiServer(clock, kinds=kinds())
        self.logs: dict[str, list[bytes | Exception]] = {}
        self.log_options: list[Json] = []
        self._send(requests.create(NAMESPACES, "", {"metadata": {"name": "default"}}))

    def client(self, **options: Any) -> AsyncTFJobs:  # noqa: ANN401
        transport = LogTransport(InProcess(self.server, self.clock), self, self.clock)
        return AsyncTFJobs(transport=transport, clock=self.clock, **options)

    def job(self, name: str = "j", *, status: Json | None = None, **spec: object) -> Json:
        """A job with a chief and a worker, and this status."""
        body = merge(tfjob(name).chief(restart=RETRIED).workers(1, restart=RETRIED).body(), {"spec": spec})
        stored = self._send(requests.create(TFJOBS, "default", body))
        return self.report(name, **status) if status else stored

    def report(self, name: str = "j", *kinds: str, **status: object) -> Json:
        """The operator writes these conditions, the last of which is the state, and these fields."""
        written = [{"type": kind, "status": "True", "message": f"It is {kind}."} for kind in ("Created", *kinds)]
        return self._write(TFJOBS, name, {"status": {"conditions": written, **status}}, "status")

    def pod(self, job: Json, replica: str, phase: str = "Running", **status: object) -> Json:
        """A pod of a job, as its operator makes them."""
        name = f"{job['metadata']['name']}-{replica}"
        labels = {
            "training.kubeflow.org/operator-name": "tfjob-controller",
            "training.kubeflow.org/job-name": job["metadata"]["name"],
        }
        owner = {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}
        owners = [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **owner}]
        body = {"metadata": {"name": name, "labels": labels, "ownerReferences": owners}, "spec": SPEC}
        self._send(requests.create(PODS, "default", body))
        return self.move(name, phase, **status)

    def move(self, pod: str, phase: str, **status: object) -> Json:
        """The node writes a pod's status."""
        running = {"containerStatuses": [RUNNING]} if phase == "Running" else {}
        return self._write(PODS, pod, {"status": {"phase": phase, **running, **status}}, "status")

    def event(self, subject: Json, reason: str, message: str) -> None:
        metadata = subject["metadata"]
        involved = {"kind": subject["kind"], "name": metadata["name"], "uid": metadata["uid"], "namespace": "default"}
        body = {"metadata": {"generateName": "e-"}, "involvedObject": involved, "reason": reason, "message": message}
        self._send(requests.create(EVENTS, "default", body | {"type": "Warning"}))

    def find(self, resource: Resource, name: str) -> Json | None:
        answer = self.server.handle(requests.get(resource, ObjectKey("default", name)))
        assert isinstance(answer, Response)
        return msgspec.json.decode(answer.body, type=dict[str, Any]) if answer.code == 200 else None

    async def read(self, namespace: str, pod: str, container: str, **options: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
        """The log of a pod (a ``LogSource``); whoever follows gets nothing after it."""
        self.log_options.append(options)
        for line in self.logs.get(pod, []):
            if isinstance(line, Exception):
                raise line
            yield line

    def _write(self, resource: Resource, name: str, patch: Json, subresource: str) -> Json:
        return self._send(requests.merge_patch(resource, ObjectKey("default", name), patch, subresource=subresource))

    def _send(self, request: Request) -> Json:
        answer = self.server.handle(request)
        assert isinstance(answer, Response)
        assert answer.code < 300, answer.body
        return msgspec.json.decode(answer.body, type=dict[str, Any])
