"""Beside the rest of Kubeflow: the users of its profiles may use TFJobs, and find them where Kubeflow's kinds are."""

import subprocess

import pytest
import yaml

from support.jobs import builders
from support.partners.helm import CHART, one
from support.resources import TFJOBS
from support.settle import eventually

RBAC = CHART.parents[1] / "manifests" / "rbac"
FAMILY = "rbac.authorization.kubeflow.org/aggregate-to-"
# As Kubeflow has them: each collects by its own label, and the larger role collects the smaller one.
PROFILE_ROLES = {"kubeflow-view": "kubeflow-edit", "kubeflow-edit": "kubeflow-admin", "kubeflow-admin": ""}
MAY = {
    "kubeflow-view": ("get", "list", "watch"),
    "kubeflow-edit": ("get", "create", "patch", "delete"),
    "kubeflow-admin": ("get", "create", "patch", "delete"),
}


def profile_role(name, collected_by):
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {f"{FAMILY}{collected_by}": "true"} if collected_by else {}},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {f"{FAMILY}{name}": "true"}}]},
        "rules": [],
    }


@pytest.fixture
def profile_roles(plane):
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    for name, collected_by in PROFILE_ROLES.items():
        plane.admin.create(path, profile_role(name, collected_by))
    yield
    for name in PROFILE_ROLES:
        plane.admin.delete(f"{path}/{name}")


@pytest.mark.usefixtures("profile_roles")
async def test_users_of_a_kubeflow_profile_may_use_tfjobs_and_viewers_only_read_them(plane, kubectl, request):
    namespace = plane.make_namespace(request.node.name)
    for role in PROFILE_ROLES:
        kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}", f"--namespace={namespace}")

    def may(role, verb):
        try:
            return kubectl("auth", "can-i", verb, "tfjobs.kubeflow.org", f"--as={role}", f"--namespace={namespace}")
        except subprocess.CalledProcessError:  # it exits with 1 to say no
            return ""

    await eventually(lambda: all(may(role, verb) for role, verbs in MAY.items() for verb in verbs), within=30)
    assert not may("kubeflow-view", "create")


@pytest.mark.parametrize("role", ["view", "edit"])
def test_the_roles_of_the_chart_are_collected_as_those_of_the_manifests_are(helm_3, role):
    expected = yaml.safe_load((RBAC / f"user-role-{role}.yaml").read_text())["metadata"]["labels"]
    labels = one(helm_3.objects(), "ClusterRole", f"tf-tf-operator-{role}")["metadata"]["labels"]

    assert {name for name in labels if "aggregate-to" in name} == {name for name in expected if "aggregate-to" in name}


async def test_kubectl_get_kubeflow_lists_tfjobs(plane, kubectl, request):
    namespace = plane.make_namespace(request.node.name)
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("found").workers(1).body())

    def listed():
        """The discovery of kinds, which kubectl asks first, follows a new CRD a moment later."""
        try:
            return kubectl("get", "kubeflow", f"--namespace={namespace}", "--output=name")
        except subprocess.CalledProcessError as failure:
            raise AssertionError(failure.stderr) from failure

    assert await eventually(listed, within=30) == "tfjob.kubeflow.org/found\n"
