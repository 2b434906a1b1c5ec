"""A node for a real control plane: its pods are processes of this machine, and `kubectl logs` shows what they print.

It is the node of ``tfjob local``, which the API server reaches as it reaches a kubelet. Images are not used: the
operator's pod, whose command is in its image, gets the command, ports of its own, and the rights of its service
account, from an admission policy.
"""

import asyncio
import math
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trustme
import yaml
from aiohttp import web

from lab.control_plane.plane import ControlPlane
from tf_operator.local.node.logs.node_logs import NodeLogs
from tf_operator.local.node.machine import Interpreter, machine_capacity
from tf_operator.local.node.node_parts import NodeSettings
from tf_operator.local.node.process_node import ProcessNode
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.kubeconfig import KubeConfig

IMAGES = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: images}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - name: image
    expression: "!has(object.spec.containers[0].command) && object.spec.containers[0].image.contains('tf-operator')"
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: |
        [
          JSONPatch{op: "add", path: "/spec/containers/0/command", value: ["python3", "-m", "tf_operator"]},
          JSONPatch{op: "add", path: "/spec/containers/0/args/-", value: "--metrics-bind-address=0.0.0.0:8080"},
          JSONPatch{op: "add", path: "/spec/containers/0/args/-", value: "--health-probe-bind-address=0.0.0.0:8081"},
          JSONPatch{op: "add", path: "/spec/containers/0/env/0", value: Object.spec.containers.env{
            name: "KUBECONFIG", value: "%s"}}
        ]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: images}
spec: {policyName: images}
"""
"""What the image of the operator would bring."""


@asynccontextmanager
async def plane_node(plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    """Run pods until the block is left."""
    clock = SystemClock()
    async with Connection(KubeConfig(str(plane.kubeconfig("admin"))), clock=clock) as connection:
        client = ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))
        python = Interpreter(sys.executable, dict(os.environ), str(folder))
        node = ProcessNode(client, clock=clock, settings=NodeSettings(folder / "node", python, machine_capacity()))
        for body in yaml.safe_load_all(IMAGES % plane.kubeconfig("operator")):
            plane.admin.apply(body)
        async with asyncio.TaskGroup() as tasks, _kubelet(node.logs) as port:
            running = [tasks.create_task(node.run()), tasks.create_task(_be_reached(plane, port))]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()


@asynccontextmanager
async def _kubelet(logs: NodeLogs) -> AsyncIterator[int]:
    """Serve what the API server asks a kubelet for."""

    async def answer(request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (request.match_info[name] for name in ("namespace", "pod", "container"))
        response = web.StreamResponse()
        await response.prepare(request)
        tail = request.query.get("tailLines")
        lines = logs.read(
            *(namespace, pod, container),
            follow=request.query.get("follow") == "true",
            previous=request.query.get("previous") == "true",
            tail_lines=int(tail) if tail else None,
        )
        async for piece in lines:
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _be_reached(plane: ControlPlane, port: int) -> None:
    """Say where the kubelet listens, and that the node lives, again and again: the controller-manager wants to know."""
    admin = plane.admin
    while True:
        for node in (await asyncio.to_thread(admin.get, "/api/v1/nodes"))["items"]:
            status = node["status"] | {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
            now = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
            conditions = status.get("conditions", [])  # none, before the node has said anything
            status["conditions"] = [one | {"lastHeartbeatTime": now} for one in conditions]
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            await asyncio.to_thread(admin.patch, path, {"status": status})
        await asyncio.sleep(1)
