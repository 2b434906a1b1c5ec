"""One pod as a process of this machine: what a kubelet does with it, in a thread of its own.

The process has the arguments and the environment of the pod's only container, a fresh token of its service account, and
an address of its own. It is Ready as its readiness probe says, started again when it ends, but for a restartPolicy of
Never, or when its liveness probe fails, and gets SIGTERM and its grace period when the pod is deleted.
"""

import base64
import functools
import http.client
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lab import Json
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from lab.control_plane.process import die_with
from support.pods.light_node.services import listening_at

ADDRESS: Final = "LIGHT_NODE_ADDRESS"
ROOT: Final = "LIGHT_NODE_ROOT"
SERVICE_ACCOUNT: Final = "var/run/secrets/kubernetes.io/serviceaccount"
_TICK: Final = 0.1
"""Seconds between two readiness probes, whatever the pod says: tests do not wait for periods of 5 s."""
_BACK_OFF: Final = 1.0
"""Seconds before a container that has ended starts again; a kubelet waits for 10, and then for longer."""


class Pod:
    """A pod that is bound to the node; ``start`` begins its life, ``end`` its termination."""

    def __init__(self, plane: ControlPlane, body: Json, folder: Path, command: Sequence[str]) -> None:
        metadata = body["metadata"]
        self.name, self.namespace, self.uid = (str(metadata[field]) for field in ("name", "namespace", "uid"))
        self.ip = f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        self._plane, self._admin, self._folder = plane, plane.admin, folder
        self._spec: Json = body["spec"]
        (self._container,) = self._spec["containers"]
        self._command = [*command, *map(self._in_folder, self._container.get("args", ()))]
        self._started_at = self._running_since = _now()
        self._restarts, self._is_ready = 0, False
        self._is_ending = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)

    @property
    def log(self) -> Path:
        """What the process has printed, in all its lives."""
        return self._folder / "log"

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Terminate the process, and then remove the pod."""
        self._is_ending.set()

    def join(self) -> None:
        self._thread.join()

    def kill(self) -> None:
        """SIGKILL the process, as when it is out of memory."""
        if self._process:
            self._process.kill()

    def _live(self) -> None:
        for volume in self._spec["volumes"]:
            self._mount(volume)
        while not self._is_ending.is_set():
            self._run_once()
            if self._spec.get("restartPolicy") == "Never":
                self._is_ending.wait()
            elif not self._is_ending.is_set():
                self._restarts += 1
                self._is_ending.wait(_BACK_OFF)
        gone = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self._request("DELETE", gone, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    def _run_once(self) -> None:
        """From the start of the process to its end."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment(),
                preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 (one system call)
            )
        self._process, self._running_since = process, _now()
        self._write_running()
        liveness, readiness = (_Probe(self._container, name, self.ip) for name in ("livenessProbe", "readinessProbe"))
        while process.poll() is None and not self._is_ending.wait(_TICK):
            if (is_ready := readiness.is_passed()) != self._is_ready:
                self._is_ready = is_ready
                self._write_running()
            if liveness.is_due() and not liveness.is_passed():
                self._terminate(process)
        self._terminate(process)
        self._is_ready = False
        end = {
            "exitCode": process.returncode,
            "finishedAt": _now(),
            "reason": "Error" if process.returncode else "Completed",
        }
        self._write_status({"terminated": end})

    def _terminate(self, process: "subprocess.Popen[bytes]") -> None:
        process.send_signal(signal.SIGTERM)  # nothing happens to one that has ended
        try:
            process.wait(self._spec.get("terminationGracePeriodSeconds", 30))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _environment(self) -> dict[str, str]:
        api = urlsplit(self._plane.api_url)
        fields = {"metadata.name": self.name, "metadata.namespace": self.namespace, "status.podIP": self.ip}
        listed = {entry["name"]: entry.get("value", "") for entry in self._container.get("env", ())}
        for entry in self._container.get("env", ()):
            if "valueFrom" in entry:
                listed[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        cluster = {"KUBERNETES_SERVICE_HOST": str(api.hostname), "KUBERNETES_SERVICE_PORT": str(api.port)}
        own = {ADDRESS: listening_at(self.ip), ROOT: str(self._folder)}
        own |= {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        return {**cluster, **own, **listed}

    def _mount(self, volume: Json) -> None:
        """The files of the service account, or of a Secret; all other volumes are beyond such a node."""
        if volume["name"].startswith("kube-api-access"):
            self._mount_account()
            return
        (path,) = [mount["mountPath"] for mount in self._container["volumeMounts"] if mount["name"] == volume["name"]]
        data = self._admin.get(f"/api/v1/namespaces/{self.namespace}/secrets/{volume['secret']['secretName']}")["data"]
        folder = Path(self._in_folder(path))
        folder.mkdir(parents=True)
        for item in volume["secret"]["items"]:
            (folder / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))

    def _in_folder(self, argument: str) -> str:
        """An argument with the paths that the container has, as they are on this machine."""
        for mount in self._container.get("volumeMounts", ()):
            argument = argument.replace(mount["mountPath"], f"{self._folder}{mount['mountPath']}")
        return argument

    def _mount_account(self) -> None:
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self._spec['serviceAccountName']}"
        token = self._admin.create(f"{account}/token", {"spec": {"expirationSeconds": 3607}})["status"]["token"]
        folder = self._folder / SERVICE_ACCOUNT
        folder.mkdir(parents=True)
        files = {"token": token, "namespace": self.namespace, "ca.crt": self._plane.ca_file.read_text()}
        for name, text in files.items():
            (folder / name).write_text(text)

    def _write_running(self) -> None:
        self._write_status({"running": {"startedAt": self._running_since}})

    def _write_status(self, state: Json) -> None:
        is_running = "running" in state
        phase = "Running"
        if self._spec.get("restartPolicy") == "Never" and not is_running:
            phase = "Failed" if state["terminated"]["exitCode"] else "Succeeded"
        readiness = str(self._is_ready and is_running)
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": readiness, "Ready": readiness}
        container = {
            "name": self._container["name"],
            "image": self._container["image"],
            "imageID": "",
            "ready": self._is_ready and is_running,
            "started": is_running,
            "restartCount": self._restarts,
            "state": state,
        }
        status = {
            "phase": phase,
            "podIP": self.ip,
            "podIPs": [{"ip": self.ip}],
            "startTime": self._started_at,
            "conditions": [{"type": name, "status": value} for name, value in conditions.items()],
            "containerStatuses": [container],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"
        self._request("PATCH", path, {"metadata": {"uid": self.uid}, "status": status})

    def _request(self, method: str, path: str, body: Json) -> None:
        """Whoever has removed the pod meanwhile, or put another one in its place, is right."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            self._admin.request(method, path, body, kind=kind)
        except ApiRefusedError as refusal:
            if refusal.status not in {404, 409}:
                raise


class _Probe:
    """A probe by HTTP; one that the container does not have is always passed."""

    def __init__(self, container: Json, name: str, ip: str) -> None:
        self._probe: Json = container.get(name) or {}
        action = self._probe.get("httpGet", {})
        ports = {entry["name"]: entry["containerPort"] for entry in container.get("ports", ())}
        self._port = int(ports.get(action.get("port"), action.get("port", 0)))
        self._path, self._host = str(action.get("path", "/")), listening_at(ip)
        self._due_at: float = time.monotonic() + self._probe.get("initialDelaySeconds", 0)
        self._failures = 0
        # Liveness begins as passed, readiness as failed.
        self._is_passed: bool = name == "livenessProbe" or not self._probe

    def is_due(self) -> bool:
        return time.monotonic() >= self._due_at

    def is_passed(self) -> bool:
        """Ask now; what holds after this answer and those before."""
        if not self._probe:
            return True
        self._due_at = time.monotonic() + self._probe.get("periodSeconds", 10)
        self._failures = 0 if self._answers() else self._failures + 1
        if self._failures == 0:
            self._is_passed = True
        elif self._failures >= self._probe.get("failureThreshold", 3):
            self._is_passed = False
        return self._is_passed

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._probe.get("timeoutSeconds", 1))
        try:
            connection.request("GET", self._path)
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
