"""TFJobs in their older versions: a CRD that has them, and an operator that converts them."""

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from lab.control_plane.servers import free_port
from support.operator_process import OperatorProcess, operator
from support.resources import SECRETS, TFJOBS, Json
from support.settle import eventually
from tf_operator.app.webhook import keys
from tf_operator.dialects.kubeflow.versions.conversion import OLDER

_ROOT = Path(__file__).resolve().parents[2]
RIGHTS = _ROOT / "manifests/rbac/v1alpha1"
HOST = "localhost"
WITH_SUPPORT = {"PYTHONPATH": os.pathsep.join(sys.path)}
"""The environment of a program of this folder."""
SECRET = "webhook"
TEMPLATE = {
    "spec": {
        "restartPolicy": "OnFailure",
        "containers": [{"name": "tensorflow", "image": "<DOCKER_USERNAME>/tf-mnist"}],
    }
}


def old_job(version: str, name: str = "j", **spec: object) -> Json:
    replicas = {"MASTER": {"replicas": 1, "template": TEMPLATE}}
    body = {"apiVersion": f"kubeflow.org/{version}", "kind": "TFJob", "metadata": {"name": name}}
    return body | {"spec": {"tfReplicaSpecs": replicas} | spec}


def path(version: str, namespace: str, name: str = "") -> str:
    return TFJOBS.path(namespace, name).replace("/v1/", f"/{version}/")


def define(plane: ControlPlane, *arguments: str) -> None:
    command = [sys.executable, "-m", "tf_operator", "crd", "--apply", f"--kubeconfig={plane.kubeconfig('admin')}"]
    done = subprocess.run([*command, *arguments], check=False, timeout=60, cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def secret(namespace: str, found: keys.Keys) -> Json:
    data = {name: base64.b64encode(value).decode() for name, value in found.data().items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}, "data": data}


def allow(plane: ControlPlane) -> None:
    """Give the operator the rights of the chart for older versions: two objects by name, and what v1alpha1 needs."""
    names = {"secrets": ("", SECRET), "customresourcedefinitions": ("apiextensions.k8s.io", TFJOBS.qualified)}
    rules = [
        {"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": ["get", "patch"]}
        for resource, (group, name) in names.items()
    ]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "webhook"}}
    binding = yaml.safe_load((RIGHTS / "cluster-role-binding.yaml").read_text())
    plane.admin.apply({**head, "kind": "ClusterRole", "rules": rules})
    plane.admin.apply({**binding, **head, "roleRef": {**binding["roleRef"], "name": "webhook"}})
    plane.admin.apply(yaml.safe_load((RIGHTS / "cluster-role.yaml").read_text()))
    plane.admin.apply(binding)


@asynccontextmanager
async def serving(
    plane: ControlPlane,
    namespace: str,
    found: keys.Keys = keys.Keys(),  # noqa: B008 (frozen)
    *,
    more: tuple[str, ...] = (),
    **options: Any,  # noqa: ANN401 (as operator_process.start takes them)
) -> AsyncIterator[OperatorProcess]:
    """An operator whose webhook the API server knows, for this namespace or for those in the options."""
    port = free_port()
    await asyncio.to_thread(allow, plane)
    plane.admin.create(SECRETS.path(namespace), secret(namespace, found))
    await asyncio.to_thread(define, plane, f"--older-versions={','.join(OLDER)}", f"--webhook=https://{HOST}:{port}")
    arguments = (
        "--leader-elect=false",
        f"--leader-election-namespace={namespace}",
        f"--conversion-webhook-bind-address={HOST}:{port}",
        f"--conversion-webhook-secret={SECRET}",
        f"--conversion-webhook-host={HOST}",
        *more,
    )
    try:
        chosen: Json = {"namespaces": [namespace], "arguments": arguments} | options
        async with operator(plane, **chosen) as process:
            await eventually(lambda: is_answered(plane, namespace), within=60)
            yield process
    finally:
        await asyncio.to_thread(define, plane)


def is_answered(plane: ControlPlane, namespace: str) -> bool:
    """A job can be written in v1beta1."""
    try:
        plane.admin.create(path("v1beta1", namespace) + "?dryRun=All", old_job("v1beta1", "probe"))
    except ApiRefusedError as refusal:
        raise AssertionError(str(refusal)) from refusal
    return True
