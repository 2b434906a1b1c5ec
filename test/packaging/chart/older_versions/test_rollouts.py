"""Older versions as they are deployed: the API server reaches the webhook through its Service, which heeds readiness.

By the chart and by the overlays, with real controllers of Deployments and EndpointSlices; pods are processes.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.jobs import builders
from support.jobs.older_versions import old_job, path
from support.operators import operator_image
from support.partners.helm import CHART, Helm, is_gone
from support.partners.kubectl import Kubectl
from support.pods.light_node.node import LightNode
from support.resources import CRDS, SECRETS, TFJOBS
from support.settle import eventually

ROOT = CHART.parents[1]
CRD = CRDS.path(name=TFJOBS.qualified)
OLDER = ("v1beta1", "v1alpha1")
NAMESPACE = "tf-operator"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tf-tf-operator-webhook"
PATIENCE = 90
# Seconds where the machine is idle; it may be shared.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def plane(plane_programs, tmp_path_factory):
    """A plane whose API server reaches Services."""
    root = tmp_path_factory.mktemp("deployed") / "plane"
    with ControlPlane.up(root, frozenset({"controller-manager", "services"})) as plane:
        yield plane


@pytest.fixture
def node(plane, tmp_path):
    with LightNode.up(plane, tmp_path / "node", {operator_image.IMAGE: operator_image.COMMAND}) as node:
        yield node


def tf_operator(plane, *arguments):
    """A command of an administrator."""
    command = [sys.executable, "-m", "tf_operator", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("admin"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Chart:
    """The operator by Helm."""

    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tf-tf-operator"
    secret = SECRETS.path(NAMESPACE, "tf-tf-operator-webhook")

    program = "helm-3"
    forced = ()

    def __init__(self, plane, folder, _kubectl):
        self._helm = Helm(self.program, folder, kubeconfig=plane.kubeconfig("admin"))

    def deploy(self, replicas, *versions, namespaces=()):
        """Install or upgrade, and return when all replicas are ready."""
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

    def migrate_and_switch_off(self, replicas):
        """A hook migrates before the rollout."""
        self.deploy(replicas)

    def remove(self, *more):
        self._helm.ok("uninstall", "tf", "--namespace", NAMESPACE, "--ignore-not-found", "--wait", *more)

    def roll_back(self, revision):
        self._helm.ok("rollback", "tf", str(revision), "--namespace", NAMESPACE, "--wait", "--timeout", f"{PATIENCE}s")

    def removal_refused(self):
        """What Helm says."""
        return self._helm.refusal("uninstall", "tf", "--namespace", NAMESPACE)


class Chart4(Chart):
    """By Helm 4, which applies on the server."""

    program = "helm-4"
    forced = ("--force-conflicts",)


class Overlay:
    """The operator by kubectl, as the page on older versions says."""

    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/tf-operator"
    secret = SECRETS.path(NAMESPACE, "tf-operator-webhook")

    def __init__(self, plane, folder, kubectl):
        self._plane, self._folder, self._kubectl = plane, folder / "overlay", kubectl

    def deploy(self, replicas, *versions):
        (self._folder).mkdir(exist_ok=True)
        manifests = os.path.relpath(ROOT / "manifests", self._folder.resolve())
        overlay = {
            "resources": [f"{manifests}/overlays/high-availability"],
            "replicas": [{"name": "tf-operator", "count": replicas}],
        }
        if versions:
            crd = tf_operator(
                self._plane,
                *("crd", f"--older-versions={','.join(versions)}", f"--webhook={NAMESPACE}/tf-operator-webhook"),
            )
            (self._folder / "tfjobs.yaml").write_text(crd)
            (self._folder / "arguments.yaml").write_text(arguments(versions))
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

    def migrate_and_switch_off(self, replicas):
        """As the page on older versions says."""
        assert "0 objects" not in tf_operator(self._plane, "crd", "migrate")
        self.deploy(replicas)

    def remove(self):
        self._kubectl("delete", "--ignore-not-found", "-k", str(self._folder))


def arguments(versions):
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


WAYS = {"chart": Chart, "chart-helm-4": Chart4, "overlay": Overlay}


@pytest.fixture
async def deployed(request, plane, node, tmp_path):
    """A way to deploy the operator, to a cluster without TFJobs."""
    await delete_crd(plane.admin)
    installation = WAYS[request.param](plane, tmp_path, Kubectl(plane.kubeconfig("admin"), tmp_path).run)
    yield installation
    print(node.logs())  # noqa: T201
    installation.remove()
    await delete_crd(plane.admin)


@pytest.fixture(params=[Chart], ids=["helm-3"])
async def chart(request, plane, node, tmp_path):
    await delete_crd(plane.admin)
    installation = request.param(plane, tmp_path, None)
    yield installation
    print(node.logs())  # noqa: T201
    installation.remove()
    await delete_crd(plane.admin)


async def delete_crd(admin):
    def is_deleted():
        try:
            # Without the webhook no job that is stored in an older version could be deleted.
            admin.patch(CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
            admin.delete(CRD)
        except ApiRefusedError as refusal:
            return refusal.status == 404
        return False

    await eventually(is_deleted, within=PATIENCE, every=0.5)


@pytest.fixture
def namespace(plane):
    return plane.make_namespace("older-versions")


async def store_jobs(plane, namespace):
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

        def is_created(version=stored):
            try:
                admin.create(path(version, namespace), old_job(version, f"of-{version}"))
            except ApiRefusedError as refusal:
                return "exists" in str(refusal)
            return False

        await eventually(is_created, within=PATIENCE)
    assert admin.get(CRD)["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]


def is_converted(plane, namespace, name):
    """The API server takes a moment to learn of a certificate's authority."""
    try:
        return plane.admin.get(path("v1beta1", namespace, name))["apiVersion"] == "kubeflow.org/v1beta1"
    except ApiRefusedError:
        return False


async def scale(plane, deployed, replicas):
    plane.admin.patch(deployed.deployment, {"spec": {"replicas": replicas}})
    counts = {"replicas": replicas, "readyReplicas": replicas}
    await eventually(
        lambda: {name: plane.admin.get(deployed.deployment)["status"].get(name, 0) for name in counts} == counts,
        within=PATIENCE,
    )


@pytest.mark.parametrize("deployed", WAYS, indirect=True)
async def test_older_versions_are_switched_on_and_off_by_rollouts_that_end(plane, deployed, namespace):
    deployed.deploy(2)
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())

    deployed.deploy(2, "v1beta1")
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)

    deployed.deploy(2)
    assert plane.admin.get(TFJOBS.path(namespace, "j"))["apiVersion"] == "kubeflow.org/v1"
    with pytest.raises(ApiRefusedError, match="404"):
        plane.admin.get(path("v1beta1", namespace, "j"))


@pytest.mark.parametrize("deployed", ["chart", "overlay"], indirect=True)
async def test_a_rollout_that_never_ends_fails_no_request_in_an_older_version(plane, deployed, namespace):
    deployed.deploy(1, "v1beta1")
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)
    (container,) = plane.admin.get(deployed.deployment)["spec"]["template"]["spec"]["containers"]
    broken = {"containers": [{**container, "args": ["run", "--no-such-flag"]}]}
    plane.admin.patch(deployed.deployment, {"spec": {"template": {"spec": broken}}})
    await eventually(lambda: has_failed(plane), within=PATIENCE)

    with ThreadPoolExecutor(16) as pool:  # so many connections
        for _ in range(5):
            assert all(pool.map(lambda _: is_converted(plane, namespace, "j"), range(32)))


def has_failed(plane):
    """Whether a pod has an address and no operator in it."""
    statuses = [pod["status"] for pod in plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]]
    return any(
        "podIP" in status and any(entry["restartCount"] for entry in status.get("containerStatuses", ()))
        for status in statuses
    )


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("deployed", ["chart", "overlay"], indirect=True)
async def test_an_operator_starts_cold_on_jobs_that_are_stored_in_older_versions(plane, deployed, namespace, replicas):
    await store_jobs(plane, namespace)
    deployed.deploy(replicas, *OLDER)  # ready before its cache of TFJobs, which is read through it
    await eventually(lambda: is_listed(plane), within=PATIENCE)

    await scale(plane, deployed, 0)
    await scale(plane, deployed, replicas)
    deployed.migrate_and_switch_off(replicas)
    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)


async def test_an_operator_that_gets_its_rights_late_starts_cold_all_the_same(plane, node, chart, namespace):
    """As by tools that apply in an order of their own."""
    await store_jobs(plane, namespace)
    chart.deploy(0, *OLDER)  # an operator that had its rights would store the jobs in v1
    binding = plane.admin.get(BINDING)
    plane.admin.delete(BINDING)
    plane.admin.patch(chart.deployment, {"spec": {"replicas": 1}})
    await eventually(lambda: "stored versions unknown" in node.logs(), within=PATIENCE)
    assert not is_listed(plane)

    del binding["metadata"]["resourceVersion"]
    plane.admin.create(BINDING.rpartition("/")[0], binding)
    await eventually(lambda: is_listed(plane), within=PATIENCE)


def is_listed(plane):
    try:
        listed = {job["metadata"]["name"] for job in plane.admin.get(TFJOBS.path())["items"]}
    except ApiRefusedError:
        return False
    return listed == {"of-v1alpha1", "of-v1beta1"}


def only_v1_is_left(plane):
    """And jobs can be read without the operator, once kube-apiserver has opened the changed CRD again."""
    crd = plane.admin.get(CRD)
    served = [version["name"] for version in crd["spec"]["versions"]]
    return is_listed(plane) and (served, crd["status"]["storedVersions"]) == (["v1"], ["v1"])


async def test_an_operator_for_namespaces_converts_without_a_right_on_the_crd(plane, chart, namespace):
    await store_jobs(plane, namespace)
    for _ in range(2):  # an upgrade keeps the certificate
        chart.deploy(1, *OLDER, namespaces=[namespace])
        assert len(plane.admin.get(TFJOBS.path())["items"]) == 2

    user = f"system:serviceaccount:{NAMESPACE}:tf-tf-operator"
    attributes = {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "name": TFJOBS.qualified}
    for verb in ("get", "patch", "update"):
        spec = {"user": user, "resourceAttributes": attributes | {"verb": verb}}
        review = plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        assert not review["status"]["allowed"], verb


@pytest.mark.parametrize("chart", [Chart, Chart4], ids=["helm-3", "helm-4"], indirect=True)
async def test_a_release_is_removed_and_what_it_leaves_depends_on_no_webhook(plane, chart, namespace):
    await store_jobs(plane, namespace)
    chart.deploy(1, *OLDER)
    chart.remove()

    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)
    chart.deploy(1, *OLDER)
    await eventually(lambda: is_converted(plane, namespace, "of-v1alpha1"), within=PATIENCE)
    chart.remove()
    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)
    empty = f"/api/v1/namespaces/{plane.make_namespace('empty')}"
    plane.admin.delete(empty)
    await eventually(lambda: is_gone(plane.admin, empty), within=PATIENCE)


async def test_a_release_whose_webhook_does_not_answer_is_not_removed(plane, chart, namespace):
    await store_jobs(plane, namespace)
    chart.deploy(0, *OLDER)

    assert "pre-delete" in chart.removal_refused()
    assert plane.admin.get(CRD)["spec"]["conversion"]["strategy"] == "Webhook"
    chart.remove("--no-hooks")


@pytest.mark.parametrize("chart", [Chart, Chart4], ids=["helm-3", "helm-4"], indirect=True)
async def test_switching_older_versions_on_and_off_can_be_rolled_back(plane, chart, namespace):
    chart.deploy(1)
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
    chart.deploy(1, "v1beta1")
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)

    tf_operator(plane, "crd", "migrate", "--last")  # Helm 4 would leave what the operator has written there
    chart.roll_back(1)
    assert [version["name"] for version in plane.admin.get(CRD)["spec"]["versions"]] == ["v1"]
    assert plane.admin.get(CRD)["spec"]["conversion"]["strategy"] == "None"

    chart.roll_back(2)
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)


@pytest.mark.parametrize("chart", [Chart, Chart4], ids=["helm-3", "helm-4"], indirect=True)
async def test_an_operator_of_the_cluster_becomes_one_of_namespaces_and_back(plane, chart, namespace):
    """Its certificate is then Helm's, and the operator's again."""
    await store_jobs(plane, namespace)
    for namespaces in ((), (namespace,), ()):
        chart.forced = type(chart).forced  # the operator has written what Helm now has values for
        chart.deploy(1, *OLDER, namespaces=namespaces)
        await eventually(lambda: is_listed(plane), within=PATIENCE)
