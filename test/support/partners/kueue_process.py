"""A real Kueue beside a control plane: its CRDs and webhooks in the plane, its manager as a process on this machine.

The manifests are those of its Go module, as ``kubectl kustomize`` makes them. A Service that is another name of this
host leads the API server to the webhooks, which have the certificate that Kueue makes for itself.
"""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from lab.control_plane.servers import free_port
from lab.tools.get import Toolbox, programs
from support.resources import CRDS, Json, Resource

NAMESPACE: Final = "kueue-system"
_SERVICE: Final = "kueue-webhook-service"
_SECRET: Final = "kueue-webhook-server-cert"
_WAIT: Final = 120.0
_WATCHED: Final = {"workloads", "workloads/status", "clusterqueues", "resourceflavors", "cohorts", "tfjobs"}
"""The resources whose webhooks are installed: those of others would hold up a plane in which no such thing is."""


@dataclass(frozen=True)
class KueueManager:
    """A Kueue that runs."""

    plane: ControlPlane
    version: str
    """Of its API objects."""
    log: Path

    def resource(self, plural: str) -> Resource:
        return Resource("kueue.x-k8s.io", self.version, plural)

    def create(self, plural: str, name: str, spec: Json, *, namespace: str = "") -> None:
        kind = {
            "resourceflavors": "ResourceFlavor",
            "clusterqueues": "ClusterQueue",
            "localqueues": "LocalQueue",
            "topologies": "Topology",
        }[plural]
        resource = self.resource(plural)
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.plane.admin.create(resource.path(namespace), body)

    def create_class(self, name: str, value: int) -> None:
        """A class of priority of Kueue's own."""
        resource = self.resource("workloadpriorityclasses")
        body = {"apiVersion": resource.api_version, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        self.plane.admin.create(resource.path(), {**body, "value": value})


@contextmanager
def kueue_process(
    plane: ControlPlane, folder: Path, *, release: str, integrates_tfjobs: bool
) -> Iterator[KueueManager]:
    """Run Kueue while the body runs."""
    tool = f"kueue-{release}"
    program = programs(tool)[tool]
    port = free_port()
    manifests = _manifests(tool, port)
    _install(plane, manifests)
    served = next(body for body in manifests if body["metadata"]["name"] == "workloads.kueue.x-k8s.io")
    version = next(entry["name"] for entry in served["spec"]["versions"] if entry["storage"])
    frameworks = ["kubeflow.org/tfjob"] if integrates_tfjobs else ["batch/job"]
    configured = _config(version, frameworks, port, folder)
    config = folder / "config.yaml"
    config.write_text(json.dumps(configured), encoding="utf-8")
    log = folder / "kueue.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, f"--config={config}", "--zap-log-level=2", "--feature-gates=VisibilityOnDemand=false"],
            env={"KUBECONFIG": str(plane.kubeconfig("admin")), "PATH": "/usr/bin:/bin"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _hand_over_certificate(plane, folder, process)
            manager = KueueManager(plane, version, log)
            _wait_ready(manager, process)
            yield manager
        finally:
            process.terminate()
            process.wait(timeout=30)


def _manifests(tool: str, port: int) -> list[Json]:
    """What of its manifests the API server has to know."""
    toolbox = Toolbox(os.environ)
    module = toolbox.tools()[tool].module
    command = [toolbox.go().program, "mod", "download", "-json", "sigs.k8s.io/kueue"]
    download = json.loads(subprocess.run(command, cwd=module, capture_output=True, check=True, text=True).stdout)
    kustomize = [programs("kubectl")["kubectl"], "kustomize", f"{download['Dir']}/config/default"]
    text = subprocess.run(kustomize, capture_output=True, check=True, text=True).stdout
    kinds = {"CustomResourceDefinition", "Namespace", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    bodies = [body for body in yaml.safe_load_all(text) if body["kind"] in kinds]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": NAMESPACE}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    return [*(_reachable(body, port) for body in bodies), secret, service]


def _reachable(body: Json, port: int) -> Json:
    """The same with the port of the webhooks, and without those that nobody needs here."""
    if "webhooks" in body:
        body["webhooks"] = [
            hook for hook in body["webhooks"] if any(_WATCHED & set(rule["resources"]) for rule in hook["rules"])
        ]
        for hook in body["webhooks"]:
            hook["clientConfig"]["service"]["port"] = port
    conversion = body.get("spec", {}).get("conversion", {})
    if conversion.get("strategy") == "Webhook":
        conversion["webhook"]["clientConfig"]["service"]["port"] = port
    return body


def _install(plane: ControlPlane, manifests: list[Json]) -> None:
    order = {"Namespace": 0, "CustomResourceDefinition": 1}
    for body in sorted(manifests, key=lambda body: order.get(body["kind"], 2)):
        plane.admin.apply(body)
    for body in manifests:
        if body["kind"] == "CustomResourceDefinition":
            _wait_established(plane, body["metadata"]["name"])


def _wait_established(plane: ControlPlane, name: str) -> None:
    deadline = time.monotonic() + _WAIT
    while "Established" not in conditions(plane.admin.get(CRDS.path(name=name))):
        assert time.monotonic() < deadline, f"{name} is not served"
        time.sleep(0.1)


def _config(version: str, frameworks: list[str], port: int, folder: Path) -> Json:
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    return {
        "apiVersion": f"config.kueue.x-k8s.io/{version}",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": _SERVICE,
            "webhookSecretName": _SECRET,
        },
        "integrations": {"frameworks": frameworks},
    }


def _hand_over_certificate(plane: ControlPlane, folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Put what Kueue has written into its Secret where it looks for it, as a kubelet would."""
    deadline = time.monotonic() + _WAIT
    while True:
        data: Mapping[str, str] = plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}").get("data", {})
        if "tls.crt" in data:
            break
        _check(process, folder / "kueue.log", deadline)
        time.sleep(0.2)
    for name in ("ca.crt", "tls.key", "tls.crt"):
        (folder / "certificates" / name).write_bytes(base64.b64decode(data[name]))


def _wait_ready(manager: KueueManager, process: subprocess.Popen[bytes]) -> None:
    """Until its webhooks answer: they default and check what is created."""
    deadline = time.monotonic() + _WAIT
    while True:
        try:
            manager.create("resourceflavors", "ready", {})
        except ApiRefusedError as refusal:
            if refusal.status == 409:
                return
            _check(process, manager.log, deadline)
            time.sleep(0.5)
        else:
            return


def _check(process: subprocess.Popen[bytes], log: Path, deadline: float) -> None:
    if process.poll() is not None or time.monotonic() > deadline:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise AssertionError("Kueue does not start:\n" + "\n".join(lines))


def conditions(body: Json) -> dict[str, Any]:
    """The conditions of a Workload that are True."""
    entries = body.get("status", {}).get("conditions") or ()
    return {entry["type"]: entry for entry in entries if entry["status"] == "True"}
