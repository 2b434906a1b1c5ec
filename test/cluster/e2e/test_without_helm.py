"""``tfjob install`` in an empty cluster: image, operator, jobs; and its removal, which leaves them. Last of all."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.cluster import image_archives
from support.given_cluster import GivenCluster
from support.jobs.real_namespace import Program, small_job
from support.partners.image_registry import BaseImage, ImageRegistry, digest_of
from support.partners.shared_port import shared
from support.settle import eventually

TFJOB = Path(sys.executable).with_name("tfjob")
HOME = "tf-operator"
CRDS = ("tfjobs.kubeflow.org", "tfjobs.mlkube.io", "tensorflowtrainingjobs.batch.tensorstack.dev")
KINDS = "deployment,service,serviceaccount,networkpolicy,role,rolebinding,clusterrole,clusterrolebinding,namespace"


def base_with_python():
    """The base of the operator's image here, as official images of Python are: they say which, and where it is."""
    with tarfile.open(image_archives.archive("operator")) as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))
        layer = archive.extractfile(manifest["Layers"][0]).read()
        architecture = json.load(archive.extractfile(manifest["Config"]))["architecture"]
    link = io.BytesIO()
    with tarfile.open(fileobj=link, mode="w") as archive:
        info = tarfile.TarInfo("usr/local/bin/python3")
        info.type, info.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        archive.addfile(info)
    layers = (layer, link.getvalue())
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHON_VERSION=3.11"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(it) for it in layers]},
    }
    return BaseImage(tuple(gzip.compress(it, compresslevel=1) for it in layers), config)


@pytest.fixture
def image_options(cluster, tmp_path):
    """How an image gets into the cluster: by a registry beside it, or it is there already."""
    if GivenCluster.from_environment() is not None:
        yield ["--image", os.environ["E2E_OPERATOR_IMAGE"]]
        return
    node = int((cluster.dir / "nodes" / cluster.nodes[0] / "pid").read_text())  # all nodes share its network
    with ImageRegistry.up(tmp_path / "registry") as registry, shared(registry.port, node=node):
        registry.put_image("python", "3.11", [base_with_python()])
        yield ["--registry", f"{registry.address}/team", "--base", f"{registry.address}/python:3.11"]


@pytest.fixture
def tfjob(cluster, tmp_path):
    """Type a command that has to succeed; what it prints."""
    environment = os.environ | {"DOCKER_CONFIG": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}

    def call(*words):
        command = [TFJOB, *words, "--kubeconfig", str(cluster.kubeconfig)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return call


@pytest.fixture
def here(new_namespace):
    """A namespace of the test's, as in conftest.py, without the release."""
    return new_namespace()


@pytest.fixture
def empty(operator_release, admin):
    """A cluster in which nothing of the operator is left."""
    operator_release.helm.ok("uninstall", "tf", "--namespace", HOME, "--ignore-not-found", "--wait")
    admin.run("delete", "namespace", HOME, "--ignore-not-found")
    admin.run("delete", "crd", *CRDS, "--ignore-not-found")


@pytest.mark.usefixtures("empty")
@pytest.mark.programs("registry")
async def test_an_empty_cluster_runs_jobs_after_one_command_and_another_one_leaves_them_alone(
    tfjob, image_options, admin, counts, here
):
    text = tfjob("install", *image_options)
    assert "the operator's Deployment tf-operator/tf-operator has 1 of 1 pods available" in text
    assert "FAIL" not in text
    here.kubectl.create(small_job("k", counts))
    here.kubectl.create(small_job("j", Program(counts.image, "import time; time.sleep(3600)")))
    await here.wait_state("k", "Succeeded", within=90)
    await here.wait_state("j", "Running", within=90)
    uids = here.uids("j")

    tfjob("uninstall")

    def remainder():
        selector = "--selector=app.kubernetes.io/managed-by=tfjob"
        return admin.run("get", KINDS, "--all-namespaces", selector, "--output=name")

    await eventually(lambda: remainder() == "", within=90, every=1)
    assert (here.state("j"), here.uids("j")) == ("Running", uids)
    assert here.pods("j")["worker-0"]["status"]["phase"] == "Running"
