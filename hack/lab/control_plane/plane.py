"""A real Kubernetes control plane for tests: etcd, kube-apiserver, and on request the rest.

`hack/control-plane` and the pytest fixtures are two faces of the class ControlPlane. A plane lives in a directory of
its own (directory), its servers belong to a supervisor process (supervisor), and it ends with `down`, with the process
that started it, or with its owner, whichever comes first: nothing outlives it.
"""

import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, Self

from lab.control_plane import access as plane_access
from lab.control_plane import directory as plane_directory
from lab.control_plane import servers as plane_servers
from lab.control_plane import setup as plane_setup
from lab.control_plane import supervisor
from lab.control_plane.api import BlockingApi, Body
from lab.control_plane.directory import Layout
from lab.control_plane.etcd import Etcd, Store
from lab.control_plane.launch import Launcher
from lab.control_plane.link import SupervisorLink
from lab.control_plane.process import Condition, ProcessId
from lab.tools.get import programs

FEATURES: Final = frozenset(
    {
        *("controller-manager", "scheduler", "audit"),
        *(plane_servers.GANGS, plane_servers.KEEPS_PODS, plane_servers.SERVICES),
    }
)
_DOWN_SECONDS: Final = 20.0
# A supervisor removes the files of its plane, and a cluster may have gigabytes of images.
_SUPERVISOR_SECONDS: Final = 120.0


class NoPlaneError(Exception):
    """There is no plane in the directory that can be used; the message says what there is."""


class Server:
    """One server of a plane: where it is, and what a test may do to it."""

    def __init__(self, plane: "ControlPlane", name: str) -> None:
        self._plane = plane
        self.name = name

    @property
    def record(self) -> Mapping[str, Any]:
        """What the supervisor wrote down about it; changes when the server is restarted."""
        record: Mapping[str, Any] = self._plane.state["servers"][self.name]
        return record

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.record["pid"], self.record["born"])

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.record["port"])

    @property
    def url(self) -> str:
        return str(self.record["url"])

    def pause(self) -> None:
        """SIGSTOP, and wait until it stands still: the port stays open, connections hang."""
        process = self.process
        if not process.send(signal.SIGSTOP):
            raise ProcessLookupError(f"{self.name} (pid {process.pid}) has ended")
        while process.condition() is Condition.RUNNING:
            time.sleep(0.001)

    def resume(self) -> None:
        self.process.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self.process
        process.send(signal.SIGKILL)
        if not process.wait_gone(_DOWN_SECONDS):
            raise TimeoutError(f"{self.name} (pid {process.pid}) ignores SIGKILL")

    def start(self) -> None:
        """Start it again after its end, on the same port, and wait until it is ready."""
        self._plane.launcher.start_again(self.name)


class ControlPlane:
    """A plane that is ready: addresses, credentials, servers."""

    def __init__(self, root: Path, link: SupervisorLink | None) -> None:
        self.dir = root
        self.layout = Layout(root)
        self.has_swept = False
        self._link = link

    @classmethod
    def up(cls, root: Path, with_: AbstractSet[str] = frozenset(), *, owner: int | None = None) -> Self:
        """Start a plane in *root*, which must be free, and return when it is ready.

        It ends with this process, unless `detach` is called, and in any case with the process *owner*.
        Raise DirectoryRefusedError, ServerFailedError or ToolError, and then nothing is left.
        """
        if unknown := with_ - FEATURES:
            raise ValueError(f"no such part: {', '.join(sorted(unknown))}")
        root = root.absolute()
        programs(*plane_setup.binaries(with_))
        link = SupervisorLink.start(root, owner)
        plane = cls(root, link)
        plane.has_swept = link.has_swept
        try:
            plane_setup.set_up(plane.layout, link, with_)
        except BaseException:
            link.end()
            raise
        return plane

    @classmethod
    def attach(cls, root: Path, *, patience: float = 0.0) -> Self:
        """Use the plane that somebody else keeps in *root*; wait *patience* seconds if it is starting."""
        root = root.absolute()
        deadline = time.monotonic() + patience
        while True:
            is_live = plane_directory.is_claimed(root)
            state = plane_directory.read_state(root)
            if is_live and state is not None and state["phase"] == "ready":
                return cls(root, None)
            if not is_live:
                raise NoPlaneError(f"there is no {'live ' if state else ''}control plane in {root}")
            if time.monotonic() > deadline:
                raise NoPlaneError(f"the control plane in {root} is still starting")
            time.sleep(0.1)

    @property
    def state(self) -> dict[str, Any]:
        state = plane_directory.read_state(self.dir)
        if state is None:
            raise NoPlaneError(f"the control plane in {self.dir} has been taken down")
        return state

    @property
    def servers(self) -> dict[str, Server]:
        """The servers by name, in the order in which they were first started."""
        return {name: Server(self, name) for name in self.state["servers"]}

    @property
    def launcher(self) -> Launcher:
        if self._link is None:
            raise NoPlaneError(f"the control plane in {self.dir} belongs to another process")
        return Launcher(self.layout, self._link)

    @property
    def features(self) -> frozenset[str]:
        return frozenset(self.state["features"])

    @property
    def api_url(self) -> str:
        return self.servers[plane_servers.APISERVER].url

    @property
    def etcd_url(self) -> str:
        """Plain HTTP; its JSON gateway is below /v3/."""
        return self.servers[plane_servers.ETCD].url

    def store(self) -> Store:
        """What has been written, in its order."""
        return Etcd(self.etcd_url)

    @property
    def ca_file(self) -> Path:
        """PEM with what a client must trust, for every API server of the plane."""
        return self.layout.serving_cert

    @property
    def audit_log(self) -> Path:
        """One JSON record a line for each request of the operator to the first API server."""
        return self.layout.audit_log(plane_servers.APISERVER)

    @property
    def admin(self) -> BlockingApi:
        return self.api("admin")

    def api(self, user: str, *, server: str = plane_servers.APISERVER) -> BlockingApi:
        """Blocking access for one of the users admin, operator, kubelet."""
        return BlockingApi(self.servers[server].url, token=self.token(user), authority=self.ca_file)

    def token(self, user: str) -> str:
        return plane_access.read_tokens(self.layout.tokens)[user]

    def kubeconfig(self, user: str, *, server: str = plane_servers.APISERVER) -> Path:
        """Kubeconfig of one of the users admin, operator, kubelet at one of the API servers."""
        name = user if server == plane_servers.APISERVER else f"{user}@{server}"
        return self.layout.kubeconfig(name)

    def add_apiserver(self, name: str, *, etcd_url: str | None = None) -> Server:
        """Start one more API server, on the same data, through *etcd_url* if there is a hop to it."""
        plane_setup.add_apiserver(
            self.layout, self.launcher, self.features, name=name, etcd_url=etcd_url or self.etcd_url
        )
        return self.servers[name]

    def grant(self, *manifests: Body) -> None:
        """Apply roles and their bindings."""
        for manifest in manifests:
            self.admin.apply(manifest)

    def make_namespace(self, purpose: str) -> str:
        """Make a fresh namespace in which pods can be created at once, and return its name.

        *purpose*, say the name of a test, is the readable half of it; a namespace is never used twice.
        """
        name = namespace_name(purpose)
        admin = self.admin
        admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if "controller-manager" in self.features:
            admin.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        return name

    def detach(self) -> None:
        """Let the plane outlive this process: from now on only `down` and its owner's death end it."""
        if self._link is not None:
            self._link.detach()
            self._link = None

    def down(self) -> None:
        """End the plane and remove what it made; nothing happens if that is done already."""
        if self._link is not None:
            self._link.end()
            self._link = None
        take_down(self.dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()


def namespace_name(purpose: str) -> str:
    """A DNS label that begins with a letter and is never the same twice."""
    readable = re.sub(r"[^a-z0-9]+", "-", purpose.lower()).lstrip("0123456789-")[:40].rstrip("-")
    return f"{readable or 'test'}-{secrets.token_hex(4)}"


def take_down(root: Path) -> str:
    """End whatever plane is in *root*, live, half-started or dead, and say what there was.

    Raise DirectoryRefusedError when the directory is not a plane's.
    """
    root = root.absolute()
    state = plane_directory.read_state(root)
    if state is None:
        return f"there is no control plane in {root}"
    is_live = plane_directory.is_claimed(root)
    if is_live:
        _end_supervisor(ProcessId(state["supervisor"]["pid"], state["supervisor"]["born"]))
    foreign = supervisor.sweep(root) if root.exists() else []
    subject = "the control plane" if is_live else "what a killed control plane had left"
    remainder = f"; {root} stays, it holds {', '.join(foreign)}" if foreign else ""
    return f"removed {subject} in {root}{remainder}"


def _end_supervisor(process: ProcessId) -> None:
    """Ask the supervisor to end everything; kill one that does not, whereupon the kernel kills its servers."""
    process.send(signal.SIGTERM)
    process.send(signal.SIGCONT)
    if not process.wait_gone(_SUPERVISOR_SECONDS):
        process.send(signal.SIGKILL)
        process.wait_gone(_DOWN_SECONDS)
    with contextlib.suppress(ChildProcessError):  # it is a child only of the process that started it
        os.waitpid(process.pid, os.WNOHANG)
