"""``tf-operator crd --apply`` on a real API server: over nothing, over itself, over what kubectl had applied."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lab.control_plane.api import ApiRefusedError
from lab.tools.get import programs
from support.resources import CRDS, TFJOBS
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
NAME = "customresourcedefinition.apiextensions.k8s.io/tfjobs.kubeflow.org"
PATH = CRDS.path(name="tfjobs.kubeflow.org")


def crd(*arguments):
    command = [sys.executable, "-m", "tf_operator", "crd", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


@pytest.fixture
def admin_config(plane):
    return f"--kubeconfig={plane.kubeconfig('admin')}"


async def test_the_definition_is_applied_where_there_is_none_and_served_when_the_command_returns(plane, admin_config):
    admin = plane.admin
    admin.delete(PATH)
    await eventually(lambda: is_answered(admin, PATH, 404), within=60)
    process = crd("--apply", admin_config)

    assert (process.returncode, process.stdout, process.stderr) == (0, f"{NAME} applied\n", "")
    assert admin.get(PATH)["spec"]["names"]["shortNames"] == ["tfj"]
    again = crd("--apply", admin_config)
    assert (again.returncode, again.stdout) == (0, f"{NAME} applied\n")


def is_answered(admin, path, code):
    """Deleting a definition takes a moment, in which it cannot be created again; so does serving what it defines."""
    try:
        admin.get(path)
    except ApiRefusedError as refusal:
        return refusal.status == code
    return code == 200


@pytest.mark.programs("kubectl")
async def test_an_older_definition_that_kubectl_applied_is_replaced_and_stored_jobs_stay(plane, admin_config):
    admin, kubectl = plane.admin, programs("kubectl")["kubectl"]
    output = crd().stdout
    older = output.replace('"shortNames":["tfj"]', '"shortNames":["old"]')
    assert older != output
    await asyncio.to_thread(
        subprocess.run,
        [kubectl, admin_config, "apply", "--force-conflicts", "--server-side", "-f", "-"],
        input=older,
        text=True,
        check=True,
        capture_output=True,
    )
    assert admin.get(PATH)["spec"]["names"]["shortNames"] == ["old"]
    namespace = plane.make_namespace("stays")
    await eventually(lambda: is_answered(admin, TFJOBS.path(namespace), 200), within=60)
    replica = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}}
    admin.create(TFJOBS.path(namespace), {**job, "spec": {"tfReplicaSpecs": {"Worker": replica}}})

    assert crd("--apply", admin_config).returncode == 0
    assert admin.get(PATH)["spec"]["names"]["shortNames"] == ["tfj"]
    assert admin.get(TFJOBS.path(namespace, "j"))["metadata"]["name"] == "j"
