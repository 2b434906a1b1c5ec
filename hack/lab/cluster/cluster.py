"""A real one-machine cluster without Docker: a control plane, and nodes in namespaces of their own.

`hack/cluster` and the pytest fixture are two faces of the class Cluster. It is a control plane, with the same directory
and supervisor, to which come a network (network), its first process (machine), and nodes with containerd and kubelet
(node), kube-proxy and CoreDNS.

Invariant: whatever the cluster makes in the kernel is either inside namespaces that end with their first process, which
ends with the supervisor, or published in state.json before it is made.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Self

from lab.cluster import host as cluster_host
from lab.cluster import image as cluster_image
from lab.cluster.builder import FEATURES, Builder, Say
from lab.control_plane import cli as plane_cli
from lab.control_plane import plane as control_plane
from lab.control_plane import setup as plane_setup
from lab.control_plane.access import ADMIN
from lab.control_plane.link import SupervisorLink
from lab.control_plane.plane import ControlPlane, NoPlaneError
from lab.tools.get import programs

PROGRAMS: Final = (*plane_setup.binaries(FEATURES), "kubelet", "kube-proxy", "coredns", "kubectl")


class NotLoadedError(Exception):
    """A node did not take an image archive; the message says why."""


class Cluster:
    """A cluster that is ready: its kubeconfig, its nodes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.dir = plane.dir
        self.has_swept = plane.has_swept

    @classmethod
    def up(cls, root: Path, *, nodes: int = 2, owner: int | None = None, say: Say = lambda _: None) -> Self:
        """Start a cluster in *root*, which must be free, and return when pods can run in it.

        It ends with this process, unless `detach` is called, and in any case with the process *owner*.
        """
        cluster_host.refuse_unfit()
        cluster_host.provide(say)
        say(f"programs: {', '.join(PROGRAMS)}")
        programs(*PROGRAMS)
        image = cluster_image.archive()
        root = root.absolute()
        link = SupervisorLink.start(root, owner)
        plane = ControlPlane(root, link)
        plane.has_swept = link.has_swept
        try:
            Builder(plane, link, nodes=nodes, image=image, say=say).build()
        except BaseException:
            link.end()
            raise
        return cls(plane)

    @classmethod
    def attach(cls, root: Path, *, patience: float = 0.0) -> Self:
        """Use the cluster that somebody else keeps in *root*; wait *patience* seconds if it is starting."""
        plane = ControlPlane.attach(root, patience=patience)
        if "nodes" not in plane.state:
            raise NoPlaneError(f"{root} holds a control plane without nodes")
        return cls(plane)

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig(ADMIN.name)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._plane.state["nodes"])

    def load(self, archive: Path) -> None:
        """Give an image archive (OCI or Docker) to every node; raise NotLoadedError."""
        folders = [self.dir / "nodes" / node for node in self.nodes]
        # Unpacking is most of it, and one node keeps one processor busy with that.
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(_load, archive), folders))

    def detach(self) -> None:
        self._plane.detach()

    def down(self) -> None:
        self._plane.down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()


def take_down(root: Path) -> str:
    """End whatever cluster is in *root*, live, half-started or dead, and say what there was."""
    return control_plane.take_down(root).replace("control plane", "cluster")


def _load(archive: Path, folder: Path) -> None:
    """Import an archive as the node sees its containerd: in its mount namespace, on its usual socket."""
    pid = (folder / "pid").read_text()
    command = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "ctr", "--namespace=k8s.io", "images", "import", "-"]
    with archive.open("rb") as content:
        process = subprocess.run(
            command,
            stdin=content,
            env=os.environ | {"PATH": cluster_host.PATH},
            capture_output=True,
            text=True,
            check=False,
        )
    if process.returncode != 0:
        raise NotLoadedError(f"{folder.name} does not take {archive}: {process.stderr.strip()}")


def status_rows(root: Path) -> list[tuple[str, int, str]]:
    return [(row["name"], row["pid"], row["state"]) for row in plane_cli.status_rows(root)]
