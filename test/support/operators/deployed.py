"""The operator, deployed as its documentation says, and what is served of older versions then.

By the chart with either Helm, and by an overlay with kubectl.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from lab.control_plane.api import ApiRefusedError, BlockingApi
from lab.control_plane.plane import ControlPlane
from support.jobs.older_versions import old_job, path
from support.partners.helm import CHART, Helm
from support.partners.kubectl import Kubectl
from support.resources import CRDS, TFJOBS
from support.settle import eventually

_ROOT: Final = CHART.parents[1]
CRD: Final = CRDS.path(name=TFJOBS.qualified)
OLDER: Final = ("v1beta1", "v1alpha1")
NAMESPACE: Final = "tf-operator"
PATIENCE: Final = 90
"""Seconds where the machine is idle; it may be shared."""


def tf_operator(plane: ControlPlane, *arguments: str) -> str:
    """A command of an administrator."""
    command = [sys.executable, "-m", "tf_operator", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("admin"))}
    process = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


class Deployed(Protocol):
    """A way to deploy the operator."""

    deployment: str

    def deploy(self, replicas: int, *versions: str) -> None:
        """Install or upgrade, and return when all replicas are ready."""

    def migrate_and_switch_off(self, replicas: int) -> None:
        """As the page on older versions says."""

    def remove(self) -> None: ...


class Chart:
    """The operator by Helm."""

    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tf-tf-operator"
    program = "helm-3"
    forced: tuple[str, ...] = ()

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._helm = Helm(self.program, folder, kubeconfig=plane.kubeconfig("admin"))

    def deploy(self, replicas: int, *versions: str, namespaces: Sequence[str] = ()) -> None:
        values = {
            "replicaCount": replicas,
            "apis": {"kubeflow": {"oldVersions": list(versions)}},
            "crds": {"takeOver": True},
            "watch": {"namespaces": list(namespaces)},
        }
        taking = ("--create-namespace", "--take-ownership", "--wait", "--timeout", f"{PATIENCE}s")
        release = ("upgrade", "--install", "tf", CHART, "--namespace", NAMESPACE)
        self._helm.ok(*release, *taking, *self.forced, values=values)
        self.forced = ()  # from now on all that is there is the release's

    def migrate_and_switch_off(self, replicas: int) -> None:
        """A hook migrates before the rollout."""
        self.deploy(replicas)

    def remove(self, *more: str) -> None:
        self._helm.ok("uninstall", "tf", "--namespace", NAMESPACE, "--ignore-not-found", "--wait", *more)

    def roll_back(self, revision: int) -> None:
        self._helm.ok("rollback", "tf", str(revision), "--namespace", NAMESPACE, "--wait", "--timeout", f"{PATIENCE}s")

    def removal_refused(self) -> str:
        """What Helm says."""
        return self._helm.refusal("uninstall", "tf", "--namespace", NAMESPACE)


class Chart4(Chart):
    """By Helm 4, which applies on the server."""

    program = "helm-4"
    forced = ("--force-conflicts",)


class Overlay:
    """The operator by kubectl, as the page on older versions says."""

    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tf-operator"

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder / "overlay"
        self._kubectl = Kubectl(plane.kubeconfig("admin"), folder).run

    def deploy(self, replicas: int, *versions: str) -> None:
        self._folder.mkdir(exist_ok=True)
        manifests = os.path.relpath(_ROOT / "manifests", self._folder.resolve())
        overlay: dict[str, Any] = {
            "resources": [f"{manifests}/overlays/high-availability"],
            "replicas": [{"name": "tf-operator", "count": replicas}],
        }
        if versions:
            crd = tf_operator(
                self._plane,
                *("crd", f"--older-versions={','.join(versions)}", f"--webhook={NAMESPACE}/tf-operator-webhook"),
            )
            (self._folder / "tfjobs.yaml").write_text(crd)
            (self._folder / "arguments.yaml").write_text(_arguments(versions))
            overlay |= {
                "components": [f"{manifests}/webhook"],
                "patches": [{"path": "tfjobs.yaml"}, {"path": "arguments.yaml"}],
            }
        else:
            tf_operator(self._plane, "crd", "--apply")
        (self._folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        self._kubectl("apply", "--server-side", "--force-conflicts", "-k", str(self._folder))
        self._kubectl(
            *("rollout", "status", "deployment/tf-operator", f"--namespace={NAMESPACE}", f"--timeout={PATIENCE}s")
        )

    def migrate_and_switch_off(self, replicas: int) -> None:
        assert "0 objects" not in tf_operator(self._plane, "crd", "migrate")
        self.deploy(replicas)

    def remove(self) -> None:
        self._kubectl("delete", "--ignore-not-found", "-k", str(self._folder))


def _arguments(versions: Sequence[str]) -> str:
    flags = [
        "run",
        "--conversion-webhook-bind-address=:9443",
        "--conversion-webhook-secret=tf-operator-webhook",
        f"--conversion-webhook-host=tf-operator-webhook.{NAMESPACE}.svc",
        f"--conversion-webhook-versions={','.join(versions)}",
    ]
    spec = {"template": {"spec": {"containers": [{"name": "operator", "args": flags}]}}}
    metadata = {"name": "tf-operator", "namespace": NAMESPACE}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


async def delete_crd(admin: BlockingApi) -> None:
    def is_deleted() -> bool:
        try:
            # Without the webhook no job that is stored in an older version could be deleted.
            admin.patch(CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
            admin.delete(CRD)
        except ApiRefusedError as refusal:
            return refusal.status == 404
        return False

    await eventually(is_deleted, within=PATIENCE, every=0.5)


async def store_jobs(plane: ControlPlane, namespace: str) -> None:
    """A definition of an older operator, which stores v1alpha1 and then v1beta1, and a job in each."""
    admin = plane.admin
    await delete_crd(admin)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "TFJob", "plural": "tfjobs", "singular": "tfjob"}
    for stored in reversed(OLDER):
        versions = [{"name": name, "served": True, "storage": name == stored, "schema": schema} for name in OLDER]
        spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": versions}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        admin.apply({**head, "metadata": {"name": TFJOBS.qualified}, "spec": spec})

        def is_created(version: str = stored) -> bool:
            try:
                admin.create(path(version, namespace), old_job(version, f"of-{version}"))
            except ApiRefusedError as refusal:
                return "exists" in str(refusal)
            return False

        await eventually(is_created, within=PATIENCE)
    assert admin.get(CRD)["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]


def is_converted(plane: ControlPlane, namespace: str, name: str) -> bool:
    """The API server takes a moment to learn of a certificate's authority."""
    try:
        return bool(plane.admin.get(path("v1beta1", namespace, name))["apiVersion"] == "kubeflow.org/v1beta1")
    except ApiRefusedError:
        return False


async def scale(plane: ControlPlane, deployed: Deployed, replicas: int) -> None:
    plane.admin.patch(deployed.deployment, {"spec": {"replicas": replicas}})
    counts = {"replicas": replicas, "readyReplicas": replicas}
    await eventually(
        lambda: {name: plane.admin.get(deployed.deployment)["status"].get(name, 0) for name in counts} == counts,
        within=PATIENCE,
    )


def is_listed(plane: ControlPlane) -> bool:
    try:
        names = {job["metadata"]["name"] for job in plane.admin.get(TFJOBS.path())["items"]}
    except ApiRefusedError:
        return False
    return names == {"of-v1alpha1", "of-v1beta1"}


def only_v1_is_left(plane: ControlPlane) -> bool:
    """And jobs can be read without the operator, once kube-apiserver has opened the changed CRD again."""
    crd = plane.admin.get(CRD)
    served = [version["name"] for version in crd["spec"]["versions"]]
    return is_listed(plane) and (served, crd["status"]["storedVersions"]) == (["v1"], ["v1"])
