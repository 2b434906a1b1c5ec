"""The order in which a one-machine cluster comes up; used by cluster.py alone.

Namespaces and their first process; the link into them; control groups; the control plane on the host's end of the
link; the nodes, kube-proxy and CoreDNS together; then the wait until pods can run and names resolve. All processes are
started by the supervisor, so that an end at any point of this order is the end of all of them.
"""

import contextlib
import http.client
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import trustme

from lab.cluster import host as cluster_host
from lab.cluster import network as cluster_network
from lab.cluster import settings as cluster_settings
from lab.cluster.cgroups import Hierarchies
from lab.cluster.network import Network
from lab.control_plane import setup as plane_setup
from lab.control_plane.access import ADMIN, CONTROLLER_MANAGER, SCHEDULER, User, role_of
from lab.control_plane.api import ApiRefusedError, BlockingApi
from lab.control_plane.launch import ServerFailedError
from lab.control_plane.link import SupervisorLink
from lab.control_plane.plane import ControlPlane
from lab.control_plane.servers import Reach
from lab.tools.get import programs

FEATURES: Final = frozenset({"controller-manager", "scheduler"})
_PROXY: Final = User("kube-proxy", "system:kube-proxy")
_DNS: Final = User("coredns", "system:coredns")
_READY_SECONDS: Final = 120.0
_TAIL_LINES: Final = 20

Say = Callable[[str], None]


class Builder:
    """The order in which a cluster comes up."""

    def __init__(self, plane: ControlPlane, link: SupervisorLink, *, nodes: int, image: Path, say: Say) -> None:
        self._layout = plane.layout
        self._plane = plane
        self._link = link
        self._nodes = tuple(f"node-{number + 1}" for number in range(nodes))
        self._image = image
        self._say = say
        self._awaited: list[str] = []

    def build(self) -> None:
        self._say("network and control groups")
        machine = self._start_machine()
        network = self._make_network(machine)
        hierarchies = Hierarchies.of_this_machine()
        self._link.ask("publish", facts={"cgroups": [str(path) for path in hierarchies.paths(network.name)]})
        hierarchies.make(network.name, self._nodes)
        self._say(f"control plane at {network.host}")
        self._start_plane(network)
        self._say(f"nodes: containerd, kubelet ({', '.join(self._nodes)}); kube-proxy, CoreDNS")
        for number, node in enumerate(self._nodes, start=1):
            self._start_node(network, machine, number=number, node=node)
        self._start_proxy(network, machine)
        self._start_dns(network, machine)
        self._wait_usable(network)
        self._link.ask("publish", facts={"nodes": list(self._nodes), "phase": "ready"})

    def _start_machine(self) -> int:
        apart = [_program("unshare"), "--net", "--pid", "--fork", "--kill-child", "--"]
        machine = self._spawn("machine", [*apart, *_python("lab.cluster.machine")])
        self._wait("the cluster has namespaces", partial(_is_apart, machine))
        return machine

    def _make_network(self, machine: int) -> Network:
        with cluster_network.choosing() as network:
            self._link.ask("publish", facts={"link": network.name})
            cluster_network.join(network, machine, len(self._nodes))
        return network

    def _start_plane(self, network: Network) -> None:
        self._layout.pki.mkdir()
        certificate, key = self._make_kubelet_client()
        reach = Reach(
            host=network.host,
            services=network.services,
            endpoint_reconciler="lease",
            admission=("NodeRestriction",),
            flags=(
                "--allow-privileged=true",
                f"--kubelet-client-certificate={certificate}",
                f"--kubelet-client-key={key}",
                "--kubelet-preferred-address-types=InternalIP",
            ),
        )
        kubelets = (User(node, f"system:node:{node}", ("system:nodes",)) for node in self._nodes)
        plane_setup.start_servers(
            self._layout,
            self._link,
            FEATURES,
            install=_install,
            users=(ADMIN, CONTROLLER_MANAGER, SCHEDULER, _PROXY, _DNS, *kubelets),
            reach=reach,
        )

    def _make_kubelet_client(self) -> tuple[Path, Path]:
        """The certificate by which kubelets know kube-apiserver; a request without it is refused."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._kubelet_clients))
        certificate_of_kubelet = authority.issue_cert(
            "kube-apiserver", common_name="kube-apiserver", organization_name="system:masters"
        )
        certificate, key = self._layout.pki / "kubelet-client.crt", self._layout.pki / "kubelet-client.key"
        certificate_of_kubelet.cert_chain_pems[0].write_to_path(str(certificate))
        key.touch(mode=0o600)
        certificate_of_kubelet.private_key_pem.write_to_path(str(key))
        return certificate, key

    @property
    def _kubelet_clients(self) -> Path:
        return self._layout.pki / "kubelet-clients.crt"

    def _start_node(self, network: Network, machine: int, *, number: int, node: str) -> None:
        folder = self._layout.root / "nodes" / node
        (folder / "cni").mkdir(parents=True)
        cgroup = f"/{network.name}/{node}"
        (folder / "containerd.toml").write_text(cluster_settings.containerd())
        (folder / "cni" / "10-pods.conflist").write_text(cluster_settings.cni(network, number))
        (folder / "kubelet.json").write_text(cluster_settings.kubelet(network, number, cgroup=cgroup))
        (folder / "address").write_text(network.node(number))
        shutil.copy(self._layout.kubeconfig(node), folder / "kubeconfig")
        shutil.copy(self._kubelet_clients, folder)
        shutil.copy(self._image, folder / "pause.tar")
        arguments = [f"--name={node}", f"--dir={folder}", f"--kubelet={programs('kubelet')['kubelet']}"]
        apart = [_program("unshare"), "--mount", "--uts", "--propagation=private", "--"]
        self._spawn(node, [*_inside(machine), *apart, *_python("lab.cluster.node"), *arguments])

    def _start_proxy(self, network: Network, machine: int) -> None:
        flags = cluster_settings.kube_proxy(network, self._layout.kubeconfig(_PROXY.name))
        # It finds nft and the others where root does.
        path = ["/usr/bin/env", f"PATH={cluster_host.PATH}"]
        self._spawn("kube-proxy", [*_inside(machine), *path, programs("kube-proxy")["kube-proxy"], *flags])

    def _start_dns(self, network: Network, machine: int) -> None:
        settings = self._layout.pki / "Corefile"
        settings.write_text(cluster_settings.coredns(network, self._layout.kubeconfig(_DNS.name)))
        self._spawn("coredns", [*_inside(machine), programs("coredns")["coredns"], f"-conf={settings}"])

    def _wait_usable(self, network: Network) -> None:
        admin = self._plane.admin
        for node in self._nodes:
            self._wait(f"{node} is Ready", partial(_is_ready, admin, node))
        self._wait("kube-proxy is healthy", partial(_answers, network.machine, 10256, "/healthz"))
        self._wait("CoreDNS is ready", partial(_answers, network.dns, cluster_settings.DNS_READY_PORT, "/ready"))
        admin.wait_for("/api/v1/namespaces/default/serviceaccounts/default")

    def _spawn(self, name: str, argv: list[str]) -> int:
        log = str(self._layout.log(name))
        self._awaited.append(name)
        pid: int = self._link.ask("spawn", name=name, binary=name, argv=argv, port=None, url=None, log=log)["pid"]
        return pid

    def _wait(self, condition: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; raise ServerFailedError as soon as a server that is needed for it has ended."""
        deadline = time.monotonic() + _READY_SECONDS
        while not is_so():
            for name in self._awaited:
                code = self._link.ask("exited", name=name)["code"]
                if code is not None:
                    raise ServerFailedError(name, f"ended with code {code}", self._tail(name))
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {_READY_SECONDS:.0f} s it is not so that {condition}\n{self._tails()}")
            time.sleep(0.1)
        self._say(condition)

    def _tail(self, name: str) -> str:
        """The end of a server's log; a node has one for each of its programs, too."""
        own = sorted((self._layout.root / "nodes" / name / "log").glob("*.log"))
        return "\n".join(
            f"{path.name}: {line}"
            for path in (self._layout.log(name), *own)
            for line in path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        )

    def _tails(self) -> str:
        return "\n".join(self._tail(name) for name in self._awaited)


def _install(admin: BlockingApi) -> None:
    for manifest in role_of(_DNS, cluster_settings.DNS_RULES):
        admin.apply(manifest)


def _is_apart(process: int) -> bool:
    with contextlib.suppress(OSError):  # one that has ended is in no namespace at all
        return Path(f"/proc/{process}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    return False


def _is_ready(admin: BlockingApi, node: str) -> bool:
    try:
        conditions = admin.get(f"/api/v1/nodes/{node}")["status"].get("conditions", ())
    except ApiRefusedError as refusal:
        if refusal.status == 404:
            return False
        raise
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def _answers(host: str, port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _inside(machine: int) -> list[str]:
    """How to run a program in the cluster's network and among its processes."""
    spaces = [f"--net=/proc/{machine}/ns/net", f"--pid=/proc/{machine}/ns/pid_for_children"]
    return [_program("nsenter"), *spaces, "--"]


def _python(module: str) -> list[str]:
    # -S: it needs nothing that is installed, and starts three times as fast without looking.
    return ["/usr/bin/env", f"PATH={cluster_host.PATH}", sys.executable, "-P", "-S", "-m", module]


def _program(name: str) -> str:
    path = shutil.which(name, path=cluster_host.PATH)
    assert path is not None, "cluster_host.provide has seen to it"
    return path
