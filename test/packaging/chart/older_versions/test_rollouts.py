"""By the chart and by the overlays: rollouts and cold starts, during which older versions are served."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.control_plane.api import ApiRefusedError
from support.jobs import builders
from support.jobs.older_versions import path
from support.operators.deployed import (
    NAMESPACE,
    OLDER,
    PATIENCE,
    Chart,
    Chart4,
    Overlay,
    is_converted,
    is_listed,
    only_v1_is_left,
    scale,
    store_jobs,
)
from support.resources import TFJOBS
from support.settle import eventually

# Seconds where the machine is idle; it may be shared.
pytestmark = pytest.mark.timeout(600)
WAYS = {"chart": Chart, "chart-helm-4": Chart4, "overlay": Overlay}
all_ways = pytest.mark.parametrize("deployed", WAYS.values(), ids=WAYS, indirect=True)
both_ways = pytest.mark.parametrize("deployed", [Chart, Overlay], ids=["chart", "overlay"], indirect=True)


@all_ways
async def test_older_versions_are_switched_on_and_off_by_rollouts_that_end(plane, deployed, namespace):
    deployed.deploy(2)
    plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())

    deployed.deploy(2, "v1beta1")
    await eventually(lambda: is_converted(plane, namespace, "j"), within=PATIENCE)

    deployed.deploy(2)
    assert plane.admin.get(TFJOBS.path(namespace, "j"))["apiVersion"] == "kubeflow.org/v1"
    with pytest.raises(ApiRefusedError, match="404"):
        plane.admin.get(path("v1beta1", namespace, "j"))


@both_ways
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


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.nightly), 2])
@both_ways
async def test_an_operator_starts_cold_on_jobs_that_are_stored_in_older_versions(plane, deployed, namespace, replicas):
    await store_jobs(plane, namespace)
    deployed.deploy(replicas, *OLDER)  # ready before its cache of TFJobs, which is read through it
    await eventually(lambda: is_listed(plane), within=PATIENCE)

    await scale(plane, deployed, 0)
    await scale(plane, deployed, replicas)
    deployed.migrate_and_switch_off(replicas)
    await eventually(lambda: only_v1_is_left(plane), within=PATIENCE)
