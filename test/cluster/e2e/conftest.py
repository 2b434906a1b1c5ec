"""The real thing: the operator installed by its own chart, as a pod, in a cluster whose pods are real.

Without E2E_KUBECONFIG the cluster is made on this machine (root on Linux), and the images are built and loaded. With
it, the cluster is somebody else's: E2E_OPERATOR_IMAGE and E2E_TRAINING_IMAGE say where it finds the images, and
E2E_STORAGE_CLASS or E2E_VOLUMES where volumes come from that several pods can write to: see CONTRIBUTING.md.
"""

import json
import os
import re
import secrets
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab.cluster import image_archives
from support import release_files
from support.given_cluster import GivenCluster
from support.jobs.real_namespace import Program, RealNamespace
from support.partners.helm import INSTALLED, Helm
from support.partners.kubectl import Kubectl
from support.report import report
from support.settle import eventually

HOME = "tf-operator"
RELEASE = "tf"
# All that the operator can serve; nothing of it may be noticed by jobs of TFJob v1.
APIS = {
    "kubeflow": {"oldVersions": ["v1beta2", "v1beta1", "v1alpha2", "v1alpha1"]},
    "mlkube": {"enabled": True},
    "t9k": {"enabled": True},
}
CRDS = ("tfjobs.kubeflow.org", "tfjobs.mlkube.io", "tensorflowtrainingjobs.batch.tensorstack.dev")
# Tests that train take a minute or two, on two cores that everything shares; the first one has the cluster made.
TEST_SECONDS = 1500


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Print what explains a failure: events, statuses and logs of the test's namespaces and of the operator."""
    outcome = yield
    kubectl = item.funcargs.get("admin") if hasattr(item, "funcargs") else None
    if outcome.failed and kubectl is not None:
        outcome.sections.append(("the cluster", report(kubectl, [*item.funcargs.get("namespaces", ()), HOME])))
    return outcome


class Images:
    """Where the cluster finds them. That of trainings is large: it is there once a test asks for it."""

    def __init__(self, cluster, operator):
        self._cluster = cluster
        self.operator = operator

    @cached_property
    def training(self):
        if GivenCluster.from_environment() is not None:
            return os.environ["E2E_TRAINING_IMAGE"]
        self._cluster.load(image_archives.archive("training"))
        return image_archives.RECIPES["training"].name


@pytest.fixture(scope="session")
def images(cluster):
    """The images, on every node."""
    if GivenCluster.from_environment() is not None:
        return Images(cluster, os.environ["E2E_OPERATOR_IMAGE"])
    released = release_files.find("tf-operator-*-image.tar")
    cluster.load(released or image_archives.archive("operator"))
    return Images(cluster, _name(released) if released else image_archives.RECIPES["operator"].name)


def _name(archive):
    """What an OCI archive's image is called."""
    with tarfile.open(archive) as tar:
        (image,) = json.load(tar.extractfile("index.json"))["manifests"]
    return image["annotations"]["io.containerd.image.name"]


@pytest.fixture(scope="session")
def admin(cluster, tmp_path_factory):
    """The administrator's kubectl, in no namespace."""
    return Kubectl(Path(cluster.kubeconfig), tmp_path_factory.mktemp("kubectl"))


@dataclass(frozen=True, slots=True)
class Operator:
    """The release, and how to query it."""

    helm: Helm
    kubectl: Kubectl
    values: dict[str, object]

    def leader(self):
        """The pod that leads: the Lease has its name."""
        lease = self.kubectl.get("lease", f"{RELEASE}-tf-operator")
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return holder.partition("_")[0]

    async def wait_ready(self):
        self.kubectl.run("rollout", "status", f"deployment/{RELEASE}-tf-operator", "--timeout=90s")
        return await eventually(self.leader, within=60, every=0.5)


@pytest.fixture(scope="session")
def operator_release(cluster, images, admin, tmp_path_factory):
    """Helm, and the values with which the operator is installed."""
    repository, _, tag = images.operator.rpartition(":")
    helm = Helm("helm-4", tmp_path_factory.mktemp("helm"), kubeconfig=Path(cluster.kubeconfig))
    values = {"image": {"repository": repository, "tag": tag}, "apis": APIS, "elastic": {"restartInPlace": True}}
    values |= {"progress": {"enabled": True}, "networkPolicy": {"jobs": "requested"}}
    if GivenCluster.from_environment() is None:
        server = admin.run("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")
        values["networkPolicy"]["apiServerPorts"] = [443, urlsplit(server).port]
    there = [name for name in CRDS if admin.get("customresourcedefinition", name) is not None]
    assert there == [], "this cluster has training jobs already: the tests want one where nobody is disturbed"
    yield Operator(helm, admin.within(HOME), values)
    helm.run("uninstall", RELEASE, "--namespace", HOME, "--ignore-not-found", "--wait")
    admin.run("delete", "namespace", HOME, "--ignore-not-found", "--wait=false")
    admin.run("delete", "customresourcedefinition", *CRDS, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="session")
def installed(operator_release):
    """The operator, installed by Helm and ready; the test of its removal is the last one."""
    told = operator_release.helm.ok(
        *("install", RELEASE, INSTALLED, "--namespace", HOME, "--create-namespace", "--wait", "--timeout", "90s"),
        values=operator_release.values,
    )
    assert "STATUS: deployed" in told
    return operator_release


@pytest.fixture
async def operator(installed):
    """The operator with all its replicas ready, whatever the test before did to it."""
    await installed.wait_ready()
    return installed


@pytest.fixture
def namespaces():
    """The names of a test's namespaces, for the report."""
    return []


@contextmanager
def temporary_namespaces(admin, purpose, tmp_path_factory):
    """Make namespaces; they, their pods and their volumes begin to go at the end."""
    folder = os.environ.get("E2E_VOLUMES", "")
    if not folder and GivenCluster.from_environment() is None:
        folder = str(tmp_path_factory.mktemp("volumes"))
    word = re.sub(r"[^a-z0-9]+", "-", purpose.removeprefix("test_"))[:30].strip("-")
    temporary = []

    def make(suffix=""):
        name = f"e2e-{word}{suffix}-{secrets.token_hex(2)}"
        admin.run("create", "namespace", name)
        temporary.append(RealNamespace(admin.within(name), folder, os.environ.get("E2E_STORAGE_CLASS", "")))
        return temporary[-1]

    yield make
    for it in temporary:
        admin.run("delete", "namespace", it.name, "--wait=false")
        for volume in it.made_volumes:
            admin.run("delete", "persistentvolume", volume, "--wait=false")


@pytest.fixture
def new_namespace(request, admin, namespaces, tmp_path_factory):
    """Make namespaces for one test."""
    with temporary_namespaces(admin, request.node.name, tmp_path_factory) as make:

        def make_reported(suffix=""):
            namespace = make(suffix)
            namespaces.append(namespace.name)
            return namespace

        yield make_reported


@pytest.fixture(scope="module")
def new_shared_namespace(installed, admin, tmp_path_factory):
    """Make namespaces for all tests of a module."""
    with temporary_namespaces(admin, "shared", tmp_path_factory) as make:
        yield make


@pytest.fixture
def here(operator, new_namespace):
    """A namespace for the test, in a cluster that the operator serves."""
    return new_namespace()


@pytest.fixture
def sleeps(images):
    """A program that does nothing until the file /tmp/end is there; a test ends it when it has seen enough."""
    lines = "import os, time\nwhile not os.path.exists('/tmp/end'): time.sleep(0.2)"
    return Program(images.operator, lines)


@pytest.fixture
def counts(images):
    """A program that ends well at once."""
    return Program(images.operator, "print('done')")
