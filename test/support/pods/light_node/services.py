"""Services of a plane without kube-proxy: the API server dials their ClusterIPs through this proxy.

As kube-proxy does it, a connection goes to any endpoint that is ready; to those that still serve while they terminate
when there is no other; and nowhere when there is none. Which endpoints are ready, the EndpointSlices say, which the
controller-manager writes: from the pods' readiness, or regardless of it where the Service wants that.
"""

import random
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lab import Json
from lab.control_plane.api import BlockingApi
from lab.control_plane.plane import ControlPlane

_CONNECT_SECONDS: Final = 5.0
_CHUNK: Final = 64 * 1024


class ServiceError(Exception):
    """A connection leads nowhere; the message says why."""


def listening_at(pod_ip: str) -> str:
    """Where the program of a pod listens: EndpointSlices take no loopback addresses, and this machine has no others."""
    return f"127.{pod_ip.partition('.')[2]}"


@contextmanager
def proxied(plane: ControlPlane) -> Iterator[None]:
    """Lead connections of the plane's API server to Services while the body runs."""
    path = plane.layout.services_socket
    path.unlink(missing_ok=True)
    with _Server(str(path), plane.admin) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            path.unlink(missing_ok=True)


def endpoint(admin: BlockingApi, address: str, port: int) -> tuple[str, int]:
    """Where a connection to a ClusterIP goes; raises ``ServiceError``."""
    service = _service(admin, address)
    metadata = service["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    port_name = next((entry.get("name", "") for entry in service["spec"]["ports"] if entry["port"] == port), None)
    if port_name is None:
        raise ServiceError(f"the Service {name} has no port {port}")
    selector = f"labelSelector=kubernetes.io/service-name={metadata['name']}"
    path = f"/apis/discovery.k8s.io/v1/namespaces/{metadata['namespace']}/endpointslices?{selector}"
    listed = [entry for piece in admin.get(path)["items"] for entry in _endpoints(piece, port_name)]
    ready = [target for target, conditions in listed if conditions.get("ready")]
    leaving = [target for target, conditions in listed if conditions.get("serving") and conditions.get("terminating")]
    if not (ready or leaving):
        raise ServiceError(f"the Service {name} has no endpoint that is ready")
    return random.choice(ready or leaving)


def _service(admin: BlockingApi, address: str) -> Json:
    for service in admin.get("/api/v1/services")["items"]:
        if service["spec"].get("clusterIP") == address:
            return dict(service)
    raise ServiceError(f"no Service has the ClusterIP {address}")


def _endpoints(piece: Json, port_name: str) -> Iterator[tuple[tuple[str, int], Json]]:
    for port in piece.get("ports") or ():
        if port.get("name", "") == port_name:
            for entry in piece.get("endpoints") or ():
                yield (listening_at(entry["addresses"][0]), port["port"]), entry.get("conditions", {})


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, admin: BlockingApi) -> None:
        super().__init__(path, _Connection)
        self.admin = admin


class _Connection(socketserver.StreamRequestHandler):
    """One CONNECT of the API server, and the bytes that follow it."""

    server: _Server

    def handle(self) -> None:
        target = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass  # no header matters
        host, _, port = target.rpartition(":")
        try:
            there = socket.create_connection(endpoint(self.server.admin, host, int(port)), _CONNECT_SECONDS)
        except (ServiceError, OSError) as error:
            self.wfile.write(f"HTTP/1.1 503 {error}\r\n\r\n".encode())
            return
        with there:
            there.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(there, self.connection), daemon=True)
            back.start()
            _copy(self.connection, there)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Until one side closes; then the other is told."""
    with suppress(OSError):
        while piece := source.recv(_CHUNK):
            sink.sendall(piece)
    for side in (source, sink):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
