"""HorizontalPodAutoscalers of elastic jobs, with the controller of kube-controller-manager and a stub of metrics."""

from pathlib import Path

import pytest
import pytest_asyncio

from support.crds import apply_rights
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.operators.operator_fixture import ONE_OPERATOR
from support.partners import metrics_api
from support.resources import Resource
from support.settle import eventually

pytestmark = [ONE_OPERATOR, pytest.mark.nightly, pytest.mark.real_server("the controller of HPAs")]
ARGUMENTS = ("--horizontal-pod-autoscalers",)
RIGHTS = Path(__file__).resolve().parents[3] / "manifests/rbac/elastic"
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers")
TARGET = {"type": "AverageValue", "averageValue": "100Mi"}
MEMORY = [{"type": "Resource", "resource": {"name": "memory", "target": TARGET}}]
JOB = builders.tfjob("j").workers(1).parameter_servers().dynamic_workers().elastic(1, 3, metrics=MEMORY)
AT_ONCE = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}


async def prepare(admin):
    await apply_rights(admin, RIGHTS.glob("c*.yaml"))


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own, with the controller of HPAs."""
    with fresh_plane("controller-manager", "audit") as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def metrics(operator_fixture):
    async with metrics_api.serving(operator_fixture.plane, operator_fixture.admin) as api:
        yield api


async def hpa(job_namespace, **spec):
    """Wait until there is one with these fields in its spec."""

    async def check():
        autoscaler = await job_namespace.admin.find(HPAS.path(job_namespace.namespace, "j"))
        assert autoscaler is not None, await job_namespace.job()
        assert {name: autoscaler["spec"].get(name) for name in spec} == spec
        return autoscaler

    return await eventually(check, within=PATIENCE)


async def test_an_hpa_resizes_the_job_by_its_metrics_follows_its_edits_and_goes_with_its_pods(job_namespace, metrics):
    metrics.memory = "200Mi"
    await job_namespace.begin_running(JOB)
    uids = await job_namespace.uids()
    await hpa(job_namespace, minReplicas=1, maxReplicas=3)
    path = HPAS.path(job_namespace.namespace, "j")
    await job_namespace.admin.patch(path, AT_ONCE)

    await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1")
    await job_namespace.run("j-worker-1")
    await job_namespace.wait_pods("j-ps-0", *(f"j-worker-{index}" for index in range(3)))
    await job_namespace.run("j-worker-2")
    metrics.memory = "10Mi"
    await job_namespace.wait_pods("j-ps-0", "j-worker-0")
    assert await job_namespace.uids() == uids

    await job_namespace.edit({"spec": {"elasticPolicy": {"maxReplicas": 2}}})
    await hpa(job_namespace, maxReplicas=2, behavior=(await hpa(job_namespace))["spec"]["behavior"])
    await job_namespace.edit_policy(suspend=True)
    job = await job_namespace.wait("j", "Suspended")
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0

    async def is_gone():
        assert await job_namespace.admin.find(path) is None
        return True

    await eventually(is_gone, within=PATIENCE)


async def test_an_hpa_of_another_owner_stays_and_the_job_trains_and_says_so(job_namespace):
    theirs = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "maxReplicas": 2}
    path = HPAS.path(job_namespace.namespace)
    await job_namespace.admin.create(path, {"metadata": {"name": "j"}, "spec": theirs})

    await job_namespace.begin_running(JOB)
    await job_namespace.wait("j", "Running", text="There is no HorizontalPodAutoscaler:")
    assert (await hpa(job_namespace, maxReplicas=2))["metadata"].get("ownerReferences") is None

    await job_namespace.admin.delete(f"{path}/j")
    await hpa(job_namespace, maxReplicas=3)
