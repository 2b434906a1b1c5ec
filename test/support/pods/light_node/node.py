"""A node of a plane whose pods are processes of this machine; ``services`` leads to them.

    with LightNode.up(plane, folder, {"localhost/tf-operator": command}) as node:
        ...                                    # what is deployed there runs, while the body does

It takes every pod whose image it has a command for, and lets all others wait.
"""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from lab import Json
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.pods.light_node import services
from support.pods.light_node.pod import Pod

_TICK: Final = 0.1
_HEARTBEAT_SECONDS: Final = 10.0
"""The controller-manager takes a node for lost after 40 s without one, and its pods for not ready."""


class LightNode:
    """Made by ``LightNode.up``."""

    def __init__(self, plane: ControlPlane, folder: Path, commands: Mapping[str, Sequence[str]]) -> None:
        self.name = f"light-{secrets.token_hex(4)}"
        self._plane, self._admin, self._folder, self._commands = plane, plane.admin, folder, commands
        self._pods: dict[str, Pod] = {}
        self._stop = threading.Event()
        self._heartbeat_at = time.monotonic()
        self._failure: BaseException | None = None

    @classmethod
    @contextmanager
    def up(cls, plane: ControlPlane, folder: Path, commands: Mapping[str, Sequence[str]]) -> Iterator[Self]:
        """A node while the body runs; ``commands``, by image without tag, start a container before its arguments."""
        node = cls(plane, folder, commands)
        thread = threading.Thread(target=node._work, name=node.name, daemon=True)
        with services.proxied(plane):
            node._admin.create("/api/v1/nodes", {"metadata": {"name": node.name}, "status": _status()})
            thread.start()
            try:
                yield node
            finally:
                node._stop.set()
                thread.join()
                node._end_all()
        if node._failure:
            raise node._failure

    @property
    def pods(self) -> list[Pod]:
        """Those that have not ended."""
        return list(self._pods.values())

    def logs(self) -> str:
        """What all pods have printed, for the report of a test that fails."""
        return "\n".join(f"--- {path.parent.name}\n{path.read_text()}" for path in sorted(self._folder.glob("*/log")))

    def _work(self) -> None:
        try:
            while not self._stop.wait(_TICK):
                self._look()
        except BaseException as failure:  # noqa: BLE001 (raised again at the end of the block)
            self._failure = failure

    def _look(self) -> None:
        if time.monotonic() >= self._heartbeat_at:
            self._admin.patch(f"/api/v1/nodes/{self.name}/status", {"status": _status()})
            self._heartbeat_at = time.monotonic() + _HEARTBEAT_SECONDS
        pods_by_uid = {pod["metadata"]["uid"]: pod for pod in self._admin.get("/api/v1/pods")["items"]}
        for uid in self._pods.keys() - pods_by_uid.keys():  # removed by force, or gone at last
            self._pods.pop(uid).end()
        for uid, pod in pods_by_uid.items():
            node = pod["spec"].get("nodeName")
            if not node and self._command(pod):
                self._bind(pod)
            elif node == self.name and uid not in self._pods:
                self._start(pod)
            elif uid in self._pods and "deletionTimestamp" in pod["metadata"]:
                self._pods[uid].end()

    def _command(self, pod: Json) -> Sequence[str]:
        image = str(pod["spec"]["containers"][0]["image"])
        return self._commands.get(image.rpartition(":")[0], ())

    def _bind(self, pod: Json) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        try:
            self._admin.create(path, {"metadata": {"name": metadata["name"]}, "target": target})
        except ApiRefusedError as refusal:
            if refusal.status not in {404, 409}:  # it is deleted meanwhile
                raise

    def _start(self, body: Json) -> None:
        folder = self._folder / str(body["metadata"]["name"])
        folder.mkdir(parents=True)
        pod = Pod(self._plane, body, folder, self._command(body))
        self._pods[pod.uid] = pod
        pod.start()

    def _end_all(self) -> None:
        for pod in self.pods:
            pod.end()
        for pod in self.pods:
            pod.join()
        self._admin.delete(f"/api/v1/nodes/{self.name}")


def _status() -> Json:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now, "reason": "LightNode"}]}
