"""From an empty cluster and a checkout to a trained model by what docs/start/cluster.md has readers type, and back.

Last of all, as it removes the release of Helm.
"""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from lab.cluster import image_archives
from support import doc_pages
from support.given_cluster import GivenCluster
from support.jobs.real_namespace import small_job
from support.partners.image_registry import BaseImage, ImageRegistry, digest_of
from support.partners.shared_port import shared
from support.settle import eventually

HOME = "tf-operator"
CRDS = ("tfjobs.kubeflow.org", "tfjobs.mlkube.io", "tensorflowtrainingjobs.batch.tensorstack.dev")
KINDS = "deployment,service,serviceaccount,networkpolicy,role,rolebinding,clusterrole,clusterrolebinding,namespace"
START = doc_pages.ROOT / "manifests" / "examples" / "start"


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
        yield f"--image {os.environ['E2E_OPERATOR_IMAGE']}"
        return
    node = int((cluster.dir / "nodes" / cluster.nodes[0] / "pid").read_text())  # all nodes share its network
    with ImageRegistry.up(tmp_path / "registry") as registry, shared(registry.port, node=node):
        registry.put_image("python", "3.11", [base_with_python()])
        yield f"--registry {registry.address}/team --base {registry.address}/python:3.11"


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


@pytest.fixture
def checkout(tmp_path, images):
    """What the reader's checkout has for the page; the job's image is one that the nodes have, with all it imports."""
    folder = tmp_path / "checkout"
    start = folder / START.relative_to(doc_pages.ROOT)
    shutil.copytree(START, start)
    claim, job = yaml.safe_load_all((start / "job.yaml").read_text())
    (container,) = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["image"] = images.training
    container["args"] = [re.sub("^pip .* && ", "", container["args"][0])]
    (start / "job.yaml").write_text(yaml.safe_dump_all([claim, job]))
    return folder


@pytest.fixture
def reader(here, checkout, tmp_path):
    """Type commands that have to succeed, in the checkout, with a kubeconfig for the namespace; what they print."""
    config = json.loads(here.kubectl.run("config", "view", "--minify", "--flatten", "--output=json"))
    (context,) = config["contexts"]
    context["name"] = "my-cluster"
    context["context"]["namespace"] = here.name
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(json.dumps(config | {"current-context": ""}))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    own = {"KUBECONFIG": str(kubeconfig), "DOCKER_CONFIG": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    environment = os.environ | own | {"PATH": path}

    def call(commands):
        shell = ["bash", "-e", "-c", commands]
        process = subprocess.run(shell, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout + process.stderr

    return call


def documented_commands():
    """What the page has readers type first."""
    page = doc_pages.Page("docs/start/cluster.md")
    return next(block.text for block in doc_pages.blocks(page) if block.not_run.endswith(Path(__file__).name))


@pytest.mark.usefixtures("empty")
@pytest.mark.programs("registry")
async def test_two_commands_lead_from_an_empty_cluster_to_a_model_and_a_third_one_leaves_only_jobs(
    reader, image_options, admin, sleeps, here
):
    here.provide_volume("training")
    commands = documented_commands()
    assert commands.count("tfjob ") == 2
    output = reader(commands.replace("--registry REGISTRY", image_options))
    assert "the operator's Deployment tf-operator/tf-operator has 1 of 1 pods available" in output
    assert "FAIL" not in output
    assert re.search(r"3 files, .* packed, sha256:\w{12}", output)
    assert float(re.search(r"Accuracy on 360 held-out digits: ([0-9.]+)%", output)[1]) >= 90

    here.kubectl.create(small_job("j", sleeps))
    await here.wait_state("j", "Running", within=90)
    uids = here.uids("j")
    reader("tfjob uninstall --context my-cluster")

    def remainder():
        selector = "--selector=app.kubernetes.io/managed-by=tfjob"
        return admin.run("get", KINDS, "--all-namespaces", selector, "--output=name")

    await eventually(lambda: remainder() == "", within=90, every=1)
    assert (here.state("training"), here.state("j"), here.uids("j")) == ("Succeeded", "Running", uids)
    assert here.pods("j")["worker-0"]["status"]["phase"] == "Running"

    reader("tfjob delete training --context my-cluster")
    await eventually(lambda: uploads(here) == [], within=60)


def uploads(here):
    """The files that went along with jobs."""
    return [it for it in here.kubectl.list("configmaps") if it["metadata"]["name"].startswith("training-upload-")]
