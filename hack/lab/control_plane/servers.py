"""What each server of a control plane is started with, and how it shows that it is ready.

Pure descriptions (a ServerSpec) and one question to a running server. Flags may hold `{port}`: the port is
chosen when the server is started, and again when somebody else was faster.
"""

import hashlib
import http.client
import json
import os
import random
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lab.control_plane.access import CONTROLLER_MANAGER, OPERATOR, SCHEDULER, VIEWER
from lab.control_plane.directory import Layout
from lab.tools import catalogue

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
# Below the ports of NodePort services (30000 and up) and those that the kernel gives to clients (32768 up).
_PORTS: Final = range(20000, 30000)
_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the servers of a plane are reached, and which flags kube-apiserver gets beyond those of every plane.

    As it stands, for tests on this machine alone; a cluster has nodes that need an address of their own to come to.
    """

    host: str = _HOST
    services: str = "10.96.0.0/16"
    # Loopback may not be published as the endpoint of the `kubernetes` service, and nobody needs it there.
    endpoint_reconciler: str = "none"
    admission: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


ON_LOOPBACK: Final = Reach()
GANGS: Final = "gangs"
"""The feature of a plane that has kube-scheduler's own gang scheduling."""
KEEPS_PODS: Final = "keeps-pods"
"""The feature of a plane in which a pod without a node that is being deleted is not failed by a controller."""
SERVICES: Final = "services"
"""The feature of a plane whose API server reaches Services, such as those of webhooks, through a light node."""
_WITHOUT: Final = {GANGS: "node-lifecycle-controller", KEEPS_PODS: "pod-garbage-collector-controller"}
"""Controllers that are off; by feature."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server: *name* is unique in the plane, *binary* is what hack/tool calls the program."""

    name: str
    binary: str
    flags: tuple[str, ...]
    host: str = _HOST

    def argv(self, program: str, port: int) -> list[str]:
        return [program, *(flag.replace("{port}", str(port)) for flag in self.flags)]

    def url(self, port: int) -> str:
        return f"{'http' if self.binary == ETCD else 'https'}://{self.host}:{port}"


def etcd(layout: Layout) -> ServerSpec:
    """An etcd whose member name is its plane's own, so that another server on our port is not taken for it."""
    member = _member(layout)
    return ServerSpec(
        ETCD,
        ETCD,
        (
            f"--name={member}",
            f"--data-dir={layout.etcd_data}",
            # The data never outlives the plane.
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://{_HOST}:{{port}}",
            f"--advertise-client-urls=http://{_HOST}:{{port}}",
            # Nobody ever talks to the peer port of a single member: let the kernel choose one.
            f"--listen-peer-urls=http://{_HOST}:0",
            f"--initial-advertise-peer-urls=http://{_HOST}:0",
            f"--initial-cluster={member}=http://{_HOST}:0",
            # Nothing is compacted (see kube_apiserver), so leave room for the history of a long session.
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ),
    )


def kube_apiserver(
    layout: Layout, *, etcd_url: str, features: Iterable[str], name: str = APISERVER, reach: Reach = ON_LOOPBACK
) -> ServerSpec:
    """An API server that keeps all history in *etcd_url*, readable as JSON."""
    return ServerSpec(
        name,
        APISERVER,
        (
            f"--etcd-servers={etcd_url}",
            # The history recorder reads every revision since the start, and reads it as JSON.
            "--etcd-compaction-interval=0",
            "--storage-media-type=application/json",
            f"--bind-address={reach.host}",
            "--secure-port={port}",
            f"--advertise-address={reach.host}",
            f"--endpoint-reconciler-type={reach.endpoint_reconciler}",
            f"--service-cluster-ip-range={reach.services}",
            # It makes its own serving certificate in cert-dir at the first start, before it wants the keys
            # for service account tokens: one key pair serves both.
            f"--cert-dir={layout.pki}",
            f"--service-account-key-file={layout.serving_key}",
            f"--service-account-signing-key-file={layout.serving_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={layout.tokens}",
            "--authorization-mode=Node,RBAC",
            *_admission(features, reach),
            *_audit(layout, name, features),
            *((f"--egress-selector-config-file={layout.egress}",) if SERVICES in features else ()),
            *gates(features),
            *(("--runtime-config=api/all=true",) if GANGS in features else ()),
            *reach.flags,
        ),
        reach.host,
    )


def controller_manager(layout: Layout, reach: Reach = ON_LOOPBACK, features: Iterable[str] = ()) -> ServerSpec:
    """All controllers that are on by default, each with its own service account, as clusters have it.

    For gangs there are nodes without a kubelet, which nobody may take for lost. A server that is compared with another
    one has no controller that writes at moments of its own: that of pods looks every 20 s.
    """
    without = sorted(f"-{_WITHOUT[feature]}" for feature in _WITHOUT.keys() & features)
    return ServerSpec(
        "controller-manager",
        "kube-controller-manager",
        (
            *_client_of_apiserver(layout, CONTROLLER_MANAGER.name, reach),
            "--use-service-account-credentials=true",
            f"--root-ca-file={layout.serving_cert}",
            f"--flex-volume-plugin-dir={layout.volume_plugins}",
            # Instead of every 15 s; it costs nothing where there are no autoscalers.
            "--horizontal-pod-autoscaler-sync-period=1s",
            *gates(features),
            f"--controllers={','.join(['*', *without])}",
        ),
        reach.host,
    )


def scheduler(layout: Layout, reach: Reach = ON_LOOPBACK, features: Iterable[str] = ()) -> ServerSpec:
    flags = (*_client_of_apiserver(layout, SCHEDULER.name, reach), *gates(features))
    return ServerSpec("scheduler", "kube-scheduler", flags, reach.host)


def scheduler_plugins(layout: Layout, config: Path, reach: Reach = ON_LOOPBACK) -> ServerSpec:
    """A second scheduler, with plugins; its kubeconfig, and what it runs, are in the file."""
    own = (flag for flag in _client_of_apiserver(layout, SCHEDULER.name, reach) if not flag.startswith("--kubeconfig"))
    name = "scheduler-plugins"
    # Nothing but time wakes the pods of a gang that was rejected whole, in five minutes without this.
    retry = "--pod-max-in-unschedulable-pods-duration=15s"
    return ServerSpec(name, name, (f"--config={config}", retry, *own), reach.host)


def gates(features: Iterable[str]) -> tuple[str, ...]:
    """The flag for the feature gates of gang scheduling, of the minor that is run."""
    minor = catalogue.kubernetes_minor(catalogue.FOLDER, catalogue.table(catalogue.FOLDER), os.environ)
    of_minor = {"1.36": "GenericWorkload=true,GangScheduling=true"}
    return (f"--feature-gates={of_minor.get(minor, 'GenericWorkload=true')}",) if GANGS in features else ()


def audit_policy() -> str:
    """One record for each request of the operator or the viewer: a watch when its answer begins, all else at its end.

    A watch may end long after the test that counts it; the end of one that began earlier is no request.
    """
    rule = {"level": "Metadata", "users": [OPERATOR.login, VIEWER.login]}
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            rule | {"verbs": ["watch"], "omitStages": ["RequestReceived", "ResponseComplete"]},
            rule | {"omitStages": ["RequestReceived", "ResponseStarted"]},
            {"level": "None"},
        ],
    }
    return json.dumps(policy, indent=1)


def egress(layout: Layout) -> str:
    """kube-apiserver dials ClusterIPs by this socket: without kube-proxy they lead nowhere."""
    transport = {"uds": {"udsName": str(layout.services_socket)}}
    through = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
    config = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
    return json.dumps(config | {"egressSelections": [through]}, indent=1)


def free_port(host: str = _HOST) -> int:
    """A port of *host* that nobody listens on at this moment."""
    for port in random.sample(_PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port of {host} in {_PORTS}")


def is_ready(layout: Layout, *, binary: str, url: str) -> bool:
    """Ask the server at *url*; its answer also proves that it is ours, by etcd's name or a certificate."""
    try:
        if binary == ETCD:
            return _is_our_etcd(layout, url)
        return _ask(layout, url, "GET", "/readyz" if binary == APISERVER else "/healthz")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _is_our_etcd(layout: Layout, url: str) -> bool:
    status, answer = _ask(layout, url, "POST", "/v3/cluster/member/list", "{}")
    return status == 200 and _member(layout).encode() in answer


def _ask(layout: Layout, url: str, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = (
        http.client.HTTPConnection(parts.netloc, timeout=5)
        if parts.scheme == "http"
        else http.client.HTTPSConnection(
            parts.netloc, timeout=5, context=ssl.create_default_context(cafile=str(layout.serving_cert))
        )
    )
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _member(layout: Layout) -> str:
    return f"plane-{hashlib.sha256(str(layout.root).encode()).hexdigest()[:12]}"


def _client_of_apiserver(layout: Layout, user: str, reach: Reach) -> tuple[str, ...]:
    return (
        f"--kubeconfig={layout.kubeconfig(user)}",
        "--leader-elect=false",
        f"--bind-address={reach.host}",
        "--secure-port={port}",
        f"--tls-cert-file={layout.serving_cert}",
        f"--tls-private-key-file={layout.serving_key}",
    )


def _admission(features: Iterable[str], reach: Reach) -> tuple[str, ...]:
    """What clusters have, and the check that makes owner references need a right."""
    plugins = ("OwnerReferencesPermissionEnforcement", *reach.admission)
    flags = [f"--enable-admission-plugins={','.join(plugins)}"]
    if "controller-manager" not in features:
        # Without a controller-manager no namespace gets its default ServiceAccount, and this plugin would
        # refuse every pod.
        flags.append("--disable-admission-plugins=ServiceAccount")
    return tuple(flags)


def _audit(layout: Layout, name: str, features: Iterable[str]) -> tuple[str, ...]:
    if "audit" not in features:
        return ()
    return (
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log(name)}",
        # Written before the request is answered, so counts are exact at once; never rotated under a reader.
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
    )
