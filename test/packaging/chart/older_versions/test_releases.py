"""Releases of the chart that serve older versions: installed, changed, rolled back and removed."""

import pytest

from support.jobs import builders
from support.operators.deployed import (
    CRD,
    NAMESPACE,
    OLDER,
    PATIENCE,
    Chart,
    Chart4,
    is_converted,
    is_listed,
    only_v1_is_left,
    store_jobs,
    tf_operator,
)
from support.partners.helm import is_gone
from support.resources import TFJOBS
from support.settle import eventually

BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tf-tf-operator-webhook"
# Seconds where the machine is idle; it may be shared.
pytestmark = pytest.mark.timeout(600)
# Helm 4 switches older versions on and off in each CI run (test_rollouts.py).
both_helms = pytest.mark.parametrize(
    "deployed",
    [pytest.param(Chart, id="helm-3"), pytest.param(Chart4, id="helm-4", marks=pytest.mark.nightly)],
    indirect=True,
)


async def test_an_operator_that_gets_its_rights_late_starts_cold_all_the_same(plane, node, deployed, namespace):
    """As by tools that apply in an order of their own."""
    await store_jobs(plane, namespace)
    deployed.deploy(0, *OLDER)  # an operator that had its rights would store the jobs in v1
    binding = plane.admin.get(BINDING)
    plane.admin.delete(BINDING)
    plane.admin.patch(deployed.deployment, {"spec": {"replicas": 1}})
    await eventually(lambda: "stored versions unknown" in node.logs(), within=PATIENCE)
    assert not is_listed(plane)

    del binding["metadata"]["resourceVersion"]
    plane.admin.create(BINDING.rpartition("/")[0], binding)
    await eventually(lambda: is_listed(plane), within=PATIENCE)


async def test_an_operator_for_namespaces_converts_without_a_right_on_the_crd(plane, deployed, namespace):
    await store_jobs(plane, namespace)
    for _ in range(2):  # an upgrade keeps the certificate
        deployed.deploy(1, *OLDER, namespaces=[namespace])
        assert len(plane.admin.get(TFJOBS.path())["items"]) == 2

    user = f"system:serviceaccount:{NAMESPACE}:tf-tf-operator"
    attributes = {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "name": TFJOBS.qualified}
    for verb in ("get", "patch", "update"):
        spec = {"user": user, "resourceAttributes": attributes | {"verb": verb}}
        review = plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        assert not review["status"]["allowed"], verb


@both_helms
async def test_a_release_is_removed_and_what_it_leaves_depends_on_no_webhook(plane, deployed, namespace):
    await store_jobs(plane, namespace)
    deployed.deploy(1, *OLDER)
    deployed.remove()

    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)
    deployed.deploy(1, *OLDER)
    await eventually(lambda: is_converted(plane, namespace, "of-v1alpha1"), within=PATIENCE)
    deployed.remove()
    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)
    empty = f"/api/v1/namespaces/{plane.make_namespace('empty')}"
    plane.admin.delete(empty)
    await eventually(lambda: is_gone(plane.admin, empty), within=PATIENCE)


async def test_a_release_whose_webhook_does_not_answer_is_not_removed(plane, deployed, namespace):
    await store_jobs(plane, namespace)
    deployed.deploy(0, *OLDER)

    assert "pre-delete" in deployed.removal_refused()
    assert plane.admin.get(CRD)["spec"]["conversion"]["strategy"] == "Webhook"
    deployed.remove("--no-hooks")


@both_helms
async def test_switching_older_versions_on_and_off_can_be_rolled_back(plane, deployed, namespace):
    deployed.deploy(1)
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
    deployed.deploy(1, "v1beta1")
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)

    tf_operator(plane, "crd", "migrate", "--last")  # Helm 4 would leave what the operator has written there
    deployed.roll_back(1)
    assert [version["name"] for version in plane.admin.get(CRD)["spec"]["versions"]] == ["v1"]
    assert plane.admin.get(CRD)["spec"]["conversion"]["strategy"] == "None"

    deployed.roll_back(2)
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)


@both_helms
async def test_an_operator_of_the_cluster_becomes_one_of_namespaces_and_back(plane, deployed, namespace):
    """Its certificate is then Helm's, and the operator's again."""
    await store_jobs(plane, namespace)
    for namespaces in ((), (namespace,), ()):
        deployed.forced = type(deployed).forced  # the operator has written what Helm now has values for
        deployed.deploy(1, *OLDER, namespaces=namespaces)
        await eventually(lambda: is_listed(plane), within=PATIENCE)
