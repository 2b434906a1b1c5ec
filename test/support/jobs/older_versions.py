"""TFJobs in their older versions: a CRD that has them, and an operator that converts them."""

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from lab.control_plane.servers import free_port
from support.operators.operator_process import OperatorProcess, operator
from support.resources import SECRETS, TFJOBS, Json
from support.settle import eventually
from tf_operator.app.webhook import keys
from tf_operator.dialects.kubeflow.versions.conversion import OLDER

_ROOT = Path(__file__).resolve().parents[3]
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
    master = {"replicas": 1, "template": TEMPLATE}
    replicas: Json = {"replicaSpecs": [master]} if version == "v1alpha1" else {"tfReplicaSpecs": {"MASTER": master}}
    body = {"apiVersion": f"kubeflow.org/{version}", "kind": "TFJob", "metadata": {"name": name}}
    return body | {"spec": replicas | spec}


def path(version: str, namespace: str, name: str = "") -> str:
    return TFJOBS.path(namespace, name).replace("/v1/", f"/{version}/")


def define(plane: ControlPlane, *arguments: str) -> None:
    command = [sys.executable, "-m", "tf_operator", "crd", "--apply", f"--kubeconfig={plane.kubeconfig('admin')}"]
    process = subprocess.run([*command, *arguments], check=False, timeout=60, cwd=_ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def secret(namespace: str, webhook_keys: keys.Keys) -> Json:
    data = {name: base64.b64encode(value).decode() for name, value in webhook_keys.data().items()}
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
    plane.grant({**head, "kind": "ClusterRole", "rules": rules})
    plane.grant({**binding, **head, "roleRef": {**binding["roleRef"], "name": "webhook"}})
    plane.grant(yaml.safe_load((RIGHTS / "cluster-role.yaml").read_text()))
    plane.grant(binding)


@asynccontextmanager
async def serving(
    plane: ControlPlane,
    namespace: str,
    webhook_keys: keys.Keys = keys.Keys(),  # noqa: B008 (frozen)
    *,
    kind: str = "TFJob",
    versions: Sequence[str] = tuple(OLDER),
    is_own: bool = False,
    more: tuple[str, ...] = (),
    **options: Any,  # noqa: ANN401 (as operator_process.start takes them)
) -> AsyncIterator[OperatorProcess]:
    """An operator whose webhook the API server knows, for this namespace or for those in the options.

    ``kind``, with these ``versions`` beside its own, is as for ``tf-operator crd``. ``is_own``: the plane ends with it.
    """
    port = free_port()
    await asyncio.to_thread(allow, plane)
    plane.admin.create(SECRETS.path(namespace), secret(namespace, webhook_keys))
    await asyncio.to_thread(
        define, plane, kind, f"--older-versions={','.join(versions)}", f"--webhook=https://{HOST}:{port}"
    )
    arguments = (
        "--leader-elect=false",
        f"--enable-scheme={kind}",
        f"--leader-election-namespace={namespace}",
        f"--conversion-webhook-bind-address={HOST}:{port}",
        f"--conversion-webhook-secret={SECRET}",
        f"--conversion-webhook-host={HOST}",
        f"--conversion-webhook-versions={','.join(versions)}",
        *more,
    )
    try:
        operator_options: Json = {"namespaces": [namespace], "arguments": arguments} | options
        async with operator(plane, **operator_options) as process:
            await eventually(lambda: is_answered(plane, namespace, versions[-1]), within=60)
            yield process
    finally:
        if not is_own:
            await asyncio.to_thread(define, plane)


def is_answered(plane: ControlPlane, namespace: str, version: str) -> bool:
    """A job can be written in this version."""
    try:
        plane.admin.create(path(version, namespace) + "?dryRun=All", old_job(version, "probe"))
    except ApiRefusedError as refusal:
        raise AssertionError(str(refusal)) from refusal
    return True
