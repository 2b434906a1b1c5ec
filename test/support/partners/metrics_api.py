"""A stand-in for metrics-server: an aggregated API that says of each pod that it uses as much memory as a test says."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from lab.control_plane.plane import ControlPlane
from support.api import Api
from support.resources import PODS, SERVICES, Json, Resource

_API = "metrics.k8s.io/v1beta1"
_API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices")
_POD_METRICS = {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"], "singularName": ""}


class MetricsApi:
    """``memory`` is what every pod uses."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self.memory = "100Mi"

    async def discover(self, _: web.Request) -> web.Response:
        return web.json_response({"kind": "APIResourceList", "groupVersion": _API, "resources": [_POD_METRICS]})

    async def list(self, request: web.Request) -> web.Response:
        selector = request.query.get("labelSelector", "")
        pods = await self._admin.list(PODS.path(request.match_info["namespace"]), labelSelector=selector)
        items = [self._of(pod["metadata"]) for pod in pods]
        return web.json_response({"kind": "PodMetricsList", "apiVersion": _API, "metadata": {}, "items": items})

    def _of(self, metadata: Json) -> Json:
        usage = [{"name": "tensorflow", "usage": {"cpu": "1", "memory": self.memory}}]
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        named = {"name": metadata["name"], "namespace": metadata["namespace"]}
        return {"metadata": named, "timestamp": now, "window": "1s", "containers": usage}


@asynccontextmanager
async def serving(plane: ControlPlane, admin: Api) -> AsyncIterator[MetricsApi]:
    """Serve it, and have the kube-apiserver of this plane pass requests on to it."""
    metrics, app = MetricsApi(admin), web.Application()
    app.router.add_get(f"/apis/{_API}", metrics.discover)
    app.router.add_get(f"/apis/{_API}/namespaces/{{namespace}}/pods", metrics.list)
    runner, tls, files = web.AppRunner(app), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), plane.layout
    tls.load_cert_chain(files.serving_cert, files.serving_key)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        await _register(admin, port=runner.addresses[0][1])
        yield metrics
    finally:
        await runner.cleanup()


async def _register(admin: Api, *, port: int) -> None:
    # The API server resolves such a Service by its name alone: no network of pods is needed.
    here = {"metadata": {"name": "metrics"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    await admin.create(SERVICES.path("default"), here)
    service = {"namespace": "default", "name": "metrics", "port": port}
    group, _, version = _API.partition("/")
    spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
    body = {
        "metadata": {"name": f"{version}.{group}"},
        "spec": spec | {"insecureSkipTLSVerify": True, "service": service},
    }
    await admin.create(_API_SERVICES.path(), body)
