"""The cluster of a replay: an API server, of this process or of another one, and what kubelets and people do on it."""

import re
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from lab.control_plane.api import BlockingApi
from lab.control_plane.plane import ControlPlane
from proof import pods
from proof.bounds import Bound
from proof.planner import NOW
from proof.pods import DRAINED, JOB, NAMESPACE, PodState
from support.embedded.embedded_api import EmbeddedApi
from support.embedded.scripted_transport import client_of
from support.fake_clock import FakeClock
from support.jobs.builders import merge
from support.pods import pod_status
from support.resources import Json
from tf_operator.controller.resources import PODS
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.local.apiserver.in_process import InProcess
from tf_operator.local.apiserver.messages import Response
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request, Resource, Scope
from tf_operator.meta import ObjectKey, parse_time, rfc3339

_KUBELET = "test.example/kubelet"
_MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Remote:
    """The API server of a control plane, used as the one in this process is."""

    def __init__(self, api: BlockingApi, registry: Any) -> None:  # noqa: ANN401
        self._api, self.registry = api, registry

    def handle(self, request: Request) -> Response:
        path = request.path + (f"?{urlencode(request.query)}" if request.query else "")
        body = request.body.decode() if request.body else None
        code, text, _ = self._api._send(request.method, path, body, request.content_type)
        return Response(code, text.encode())


class Stage(EmbeddedApi):
    """One job in it, which the operator has not seen yet."""

    def __init__(self, bound: Bound, plane: ControlPlane | None) -> None:
        super().__init__(FakeClock(SystemClock().now().replace(microsecond=0) if plane else NOW), bound.api)
        self.bound = bound
        self.key = ObjectKey(plane.make_namespace("replay") if plane else NAMESPACE, JOB)
        if plane:
            self.server = cast("Any", Remote(plane.admin, self.server.registry))
            transport = InProcess(self.server, self.clock, edge=self, collects=False)
            self.client = client_of(transport, self.clock, attempts=1)
        self.make_namespace(self.key.namespace)
        body = bound.job.body()
        metadata = {name: body["metadata"][name] for name in {"name", "annotations"} & body["metadata"].keys()}
        job = self.send(requests.create(bound.api.resource, self.key.namespace, body | {"metadata": metadata}))
        self.uid = str(job["metadata"]["uid"])
        self._patch(bound.api.resource, JOB, {"status": bound.start_status()}, subresource="status")

    @property
    def job(self) -> Json:
        return self.find(self.bound.api.resource, self.key) or {}

    def edit(self, patch: Json, *, generation: int) -> None:
        """Somebody changes the job."""
        jobs = self.bound.api.resource
        answer = self._ask(requests.merge_patch(jobs, self.key, patch))
        if answer.code == 422 and not isinstance(self.server, Remote):
            # By another version, to which fewer rules applied.
            self.put(jobs, merge(merge(self.job, patch), {"metadata": {"generation": generation}}))
        else:
            assert answer.code < 300, answer.body

    def hold(self, name: str) -> None:
        """From now on the pod is there until it is gone in the history; it has a node where nobody chooses one."""
        self._patch(PODS, name, {"metadata": {"finalizers": [_KUBELET]}})
        if not self.bound.nodes:
            self._bind(name, "node")

    def _bind(self, name: str, node: str) -> None:
        path = requests.path_of(PODS, ObjectKey(self.key.namespace, name), "binding")
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.send(Request("create", "POST", path, body=msgspec.json.encode(body)))

    def change_pods(self, old_states: tuple[Any, ...], new_states: tuple[Any, ...]) -> None:
        """Pods become something else; those that are in the new states alone are made by others."""
        new_pods = {pod.uid: pod for pod in map(PodState._make, new_states)}
        for old in map(PodState._make, old_states):
            new = new_pods.get(old.uid)
            if new is None:
                self._delete(old.name, grace_seconds=0)
                self._patch(PODS, old.name, {"metadata": {"finalizers": None}})
            elif new != old:
                self._change_pod(old, new)

    def _change_pod(self, old: PodState, new: PodState) -> None:
        if new.is_hidden != old.is_hidden:
            label = None if new.is_hidden else self.bound.api.profile.labels.operator_name
            self._patch(PODS, new.name, {"metadata": {"labels": {OPERATOR_LABEL: label}}})
        if new.node != old.node:
            self._bind(new.name, new.node)
        is_drained = new.leaving == DRAINED != old.leaving
        if is_drained or (new.how, new.restarts) != (old.how, old.restarts):
            stored = self.find(PODS, ObjectKey(self.key.namespace, new.name)) or {}
            patch = pod_status.merge_patch(stored, self._status(new))
            self._patch(PODS, new.name, patch, subresource="status")
        if new.is_terminating and not old.is_terminating:
            self._delete(new.name)

    def _status(self, pod: PodState) -> Json:
        """As its kubelet writes it now."""

        def later(moment: re.Match[bytes]) -> bytes:
            at = parse_time(moment[0].decode())
            assert at
            return rfc3339(at - NOW + self.clock.now()).encode()

        content = _MOMENT.sub(later, msgspec.json.encode(pods.body(pod, self.bound.api)["status"]))
        return cast("Json", msgspec.json.decode(content))

    def _delete(self, name: str, *, grace_seconds: int | None = None) -> None:
        key = ObjectKey(self.key.namespace, name)
        uid = (self.find(PODS, key) or {})["metadata"]["uid"]
        self.send(requests.delete(PODS, key, uid=uid, grace_seconds=grace_seconds))

    def _patch(self, resource: Resource, name: str, patch: Json, *, subresource: str = "") -> None:
        self.send(requests.merge_patch(resource, ObjectKey(self.key.namespace, name), patch, subresource=subresource))

    # --- The same as in this process, by requests

    @property
    def version(self) -> str:
        answer = self._ask(requests.list_page(PODS, Scope(self.key.namespace), limit=1))
        return str(msgspec.json.decode(answer.body)["metadata"]["resourceVersion"])

    def find(self, resource: Resource, key: ObjectKey) -> Json | None:
        answer = self._ask(requests.get(resource, key))
        return cast("Json", msgspec.json.decode(answer.body)) if answer.code < 300 else None

    def of(self, resource: Resource) -> list[Json]:
        answer = self._ask(requests.list_page(resource, Scope(self.key.namespace), limit=500))
        items = msgspec.json.decode(answer.body)["items"] if answer.code < 300 else []
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items]

    def _ask(self, request: Request) -> Response:
        return cast("Response", self.server.handle(request))
