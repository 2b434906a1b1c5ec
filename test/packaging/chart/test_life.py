"""The life of a release on a real API server, with each Helm: install, upgrade, roll back, uninstall, install again.

No pod runs there, but the controllers make them, so Pod Security has its say. Each test ends without a release, a CRD
or a namespace that would be in the way of the next one.
"""

import json
import shutil
import subprocess
import time

import pytest

from lab.control_plane.api import ApiRefusedError
from support.jobs import builders
from support.partners.helm import CHART, INSTALLED, PROGRAMS, Helm, is_gone, parsed
from support.resources import CRDS, TFJOBS
from support.settle import eventually

MANIFEST = CHART.parents[1] / "manifests" / "crd" / "tfjobs.yaml"
CRD = CRDS.path(name="tfjobs.kubeflow.org")
# Helm 4 applies on the server, where kubectl owns what it has written before.
FORCE = {"helm-3": (), "helm-4": ("--force-conflicts",)}
TAKING_OVER = {name: ("--take-ownership", *force, "--set", "crds.takeOver=true") for name, force in FORCE.items()}


def is_served(admin):
    """Established, discovered and handled: the apiserver comes to each a moment after the one before."""
    conditions = admin.get(CRD).get("status", {}).get("conditions") or ()
    is_established = any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
    return is_established and not any(
        is_gone(admin, path) for path in ("/apis/kubeflow.org/v1", TFJOBS.path("default"))
    )


async def delete(admin, path):
    """Delete what is there, and wait until it is not."""
    try:
        admin.delete(path)
    except ApiRefusedError as refusal:
        if refusal.status != 404:
            raise
    await eventually(lambda: is_gone(admin, path), within=30)


@pytest.fixture(scope="module", autouse=True)
def _crd_for_the_next_module(plane):
    yield
    plane.admin.apply(*parsed(MANIFEST.read_text()))
    while not is_served(plane.admin):
        time.sleep(0.1)


@pytest.fixture(params=PROGRAMS)
async def release(request, plane, tmp_path):
    """A Helm on a cluster without the CRD."""
    await delete(plane.admin, CRD)
    helm = Helm(request.param, tmp_path, kubeconfig=plane.kubeconfig("admin"))
    yield helm
    for entry in json.loads(helm.ok("list", "--all-namespaces", "--output", "json")):
        helm.ok("uninstall", entry["name"], "--namespace", entry["namespace"], "--wait=false")


@pytest.fixture
def namespace(request, plane):
    """A namespace that lets in only what Pod Security calls restricted."""
    name = plane.make_namespace(request.node.name)
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    plane.admin.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    return name


@pytest.fixture
def next_chart(tmp_path):
    """The chart of the next release: its TFJobs have one more field."""
    chart = tmp_path / "next" / "tf-operator"
    shutil.copytree(CHART, chart)
    path = chart / "templates" / "crd.yaml"
    text = path.read_text()
    properties = "\n            properties:\n"
    spec = text.index(properties, text.index("\n          spec:\n")) + len(properties)
    field = "              colour: {type: string, description: Of what colour the job is.}\n"
    path.write_text(text[:spec] + field + text[spec:])
    return chart


def pods(plane, namespace):
    return plane.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]


def explain(kubectl, field):
    """What kubectl says of a field, or that there is none."""
    try:
        return kubectl("explain", f"tfjobs.spec.{field}")
    except subprocess.CalledProcessError as failure:
        return failure.stderr


async def test_a_release_is_installed_upgraded_rolled_back_removed_and_installed_again_and_no_job_is_lost(
    release, plane, namespace, next_chart, kubectl
):
    admin, here = plane.admin, ("--namespace", namespace)
    notes = release.ok("install", "tf", INSTALLED, *here)
    assert f"kubectl --namespace {namespace} rollout status deployment/tf-tf-operator" in notes
    await eventually(lambda: len(pods(plane, namespace)) == 2 and is_served(admin), within=30)
    uid = admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())["metadata"]["uid"]

    release.ok("upgrade", "tf", next_chart, *here)
    await eventually(lambda: "Of what colour the job is." in explain(kubectl, "colour"), within=30)

    release.ok("rollback", "tf", "1", *here)
    await eventually(lambda: 'field "colour" does not exist' in explain(kubectl, "colour"), within=30)

    release.ok("uninstall", "tf", *here)
    assert is_gone(admin, f"/apis/apps/v1/namespaces/{namespace}/deployments/tf-tf-operator")
    assert is_gone(admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles/tf-tf-operator")
    assert admin.get(TFJOBS.path(namespace, "j"))["metadata"]["uid"] == uid

    release.ok("install", "tf", INSTALLED, *here)
    assert admin.get(TFJOBS.path(namespace, "j"))["metadata"]["uid"] == uid


async def test_an_upgrade_that_changes_the_lease_runs_no_two_operators_at_once_and_the_next_one_keeps_a_standby(
    release, plane, namespace
):
    here = ("--namespace", namespace)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/tf-tf-operator"
    release.ok("install", "tf", CHART, *here, "--set", "leaderElection.enabled=false,replicaCount=1")
    assert plane.admin.get(path)["spec"]["strategy"] == {"type": "Recreate"}

    strategies = []
    for lease in ("", "", "another", "another"):
        values = {"leaderElection": {"leaseName": lease}}
        release.ok("upgrade", "tf", CHART, *here, "--reset-values", values=values)
        strategies.append(plane.admin.get(path)["spec"]["strategy"]["type"])

    assert strategies == ["Recreate", "RollingUpdate"] * 2


@pytest.mark.parametrize("how", [("--server-side",), ()], ids=["on the server", "by its client"])
async def test_an_older_crd_that_kubectl_has_applied_is_taken_over_when_helm_and_the_chart_are_told_so_and_upgraded(
    *, release, plane, namespace, kubectl, next_chart, how
):
    """As on the way from Kubeflow's operator, whose CRD is not ours."""
    older = MANIFEST.read_text().replace("startupDeadlineSeconds", "anotherField")
    kubectl("apply", *how, "--filename=-", stdin=older)
    here = ("--namespace", namespace)

    refusal = release.refusal("install", "tf", CHART, *here)
    assert "belongs to somebody who did not use Helm" in refusal
    assert " ".join(TAKING_OVER[release.name]) in refusal
    release.ok("install", "tf", CHART, *here, *TAKING_OVER[release.name])
    assert plane.admin.get(CRD)["metadata"]["annotations"]["meta.helm.sh/release-name"] == "tf"
    field = "runPolicy.startupDeadlineSeconds"
    await eventually(lambda: "FIELD: startupDeadlineSeconds" in explain(kubectl, field), within=30)

    release.ok("upgrade", "tf", next_chart, *here, *(FORCE[release.name] if how else ()))
    await eventually(lambda: "Of what colour the job is." in explain(kubectl, "colour"), within=30)


async def test_a_release_of_another_name_takes_over_what_an_uninstalled_one_has_left(release, plane, namespace):
    here = ("--namespace", namespace)
    release.ok("install", "old", CHART, *here)
    release.ok("uninstall", "old", *here)

    assert f"belongs to the Helm release old in namespace {namespace}" in release.refusal(
        "install", "new", CHART, *here
    )
    release.ok("install", "new", CHART, *here, *TAKING_OVER[release.name])

    assert plane.admin.get(CRD)["metadata"]["annotations"]["meta.helm.sh/release-name"] == "new"


async def test_a_second_operator_is_refused_until_the_first_one_is_stopped(release, plane, namespace, kubectl):
    other = plane.make_namespace("kubeflow")
    kubectl("create", "deployment", "training-operator", f"--namespace={other}", "--image=kubeflow/training-operator")
    here = ("--namespace", namespace)

    refusal = release.refusal("install", "tf", CHART, *here)
    command = f"scale deployment training-operator --namespace {other} --replicas=0"
    assert f"kubectl --namespace {other} scale deployment training-operator --replicas=0" in refusal
    kubectl(*command.split())

    release.ok("install", "tf", CHART, *here)
    kubectl("delete", "deployment", "training-operator", f"--namespace={other}")


async def test_a_namespace_that_does_not_exist_is_named(release, namespace):
    assert 'namespaces "nowhere" not found' in release.refusal("install", "tf", CHART, "--namespace", "nowhere")
    served = ("--set", "watch.namespaces={missing}")
    assert 'namespaces "missing" not found' in release.refusal(
        "install", "tf", CHART, "--namespace", namespace, *served
    )


async def test_someone_with_rights_in_one_namespace_only_can_install_for_that_namespace(
    release, plane, namespace, kubectl, tmp_path
):
    kubectl("create", "serviceaccount", "tenant", f"--namespace={namespace}")
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART.parents[1] / "manifests" / "crd"))
    account = f"--serviceaccount={namespace}:tenant"
    kubectl("create", "rolebinding", "tenant", f"--namespace={namespace}", "--clusterrole=cluster-admin", account)
    token = kubectl("create", "token", "tenant", f"--namespace={namespace}").strip()
    config = json.loads(plane.kubeconfig("admin").read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "tenant.kubeconfig"
    path.write_text(json.dumps(config))
    tenant = Helm(release.name, tmp_path, kubeconfig=path)
    values = {
        "watch": {"namespaces": [namespace]},
        "crds": {"enabled": False},
        "rbac": {"userRoles": False},
        "conflictCheck": False,
    }

    tenant.ok("install", "tf", CHART, "--namespace", namespace, values=values)
    await eventually(lambda: len(pods(plane, namespace)) == 2, within=30)
    tenant.ok("uninstall", "tf", "--namespace", namespace)
