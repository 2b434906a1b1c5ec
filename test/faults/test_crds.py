"""The CRD is deleted and created again, updated, or cannot be converted, while it is in use."""

import time

import pytest

from lab.control_plane.plane import ControlPlane
from support import oracle
from support.api import RefusedError
from support.crds import create_crd
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import anything, delete, opening, watch
from support.resources import CRDS
from support.settle import eventually

CRD = CRDS.path(name="tfjobs.kubeflow.org")


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory, plane_programs):
    """A plane of this module's own, in place of the session's: others need the CRD as it is."""
    with ControlPlane.up(tmp_path_factory.mktemp("own") / "plane") as plane:
        yield plane


async def test_jobs_of_a_crd_that_was_deleted_and_created_again_are_served(proxy, field, start):
    """Within 30 s of its return; what was remembered of the old jobs is forgotten."""
    field.waived |= {"nothing outlives the job"}  # nobody collects garbage
    operator = await start()
    unseen = proxy.on(watch("pods", event="ADDED"), do=faults.hold())
    await field.want("w", 3)
    await eventually(lambda: field.created().total() == 3)
    old = await field.uid("w")
    caches = await operator.caches()
    assert (caches["owners"], caches["pods"]) == (1, {}), "the pods were seen, so there is nothing to forget"

    crd = await field.admin.get(CRD)
    await field.admin.delete(CRD)
    await eventually(lambda: is_forgotten(operator), within=30)
    await proxy.until(lambda: any(call.upstream_code == 404 for call in proxy.calls(opening("tfjobs"))), within=30)
    unseen.release()
    unseen.off()
    await create_crd(field.admin, {**crd, "metadata": {"name": crd["metadata"]["name"]}, "status": {}})
    began = time.monotonic()
    await field.want("w", 2)
    await field.settled_without_orphans(operator)

    assert time.monotonic() - began <= 30
    assert await field.uid("w") != old
    assert field.created() == {"w-0": 2, "w-1": 2, "w-2": 1}


async def is_forgotten(operator):
    caches = await operator.caches()
    return (caches["jobs"], caches["owners"]) == ({}, 0)


async def test_an_update_of_the_crd_ends_all_watches_and_nothing_else(proxy, field, start):
    """A new watch, which the apiserver may ask to begin with a list; nothing seems to be deleted."""
    operator = await start()
    await field.reach(operator, "w", 3)
    opened, lists = proxy.count(opening("tfjobs")), oracle.lists(proxy, "tfjobs")

    column = {"name": "Generation", "type": "integer", "jsonPath": ".metadata.generation"}
    change = {"op": "add", "path": "/spec/versions/0/additionalPrinterColumns/-", "value": column}
    await field.admin.patch(CRD, [change], "json")
    await proxy.until(lambda: proxy.count(opening("tfjobs")) > opened, within=30)
    await field.reach(operator, "w", 5)

    assert oracle.lists(proxy, "tfjobs") <= lists + 1
    assert (await operator.caches())["deleted"] == {}
    assert proxy.calls(delete("pods")) == ()
    oracle.nothing_twice(proxy)


async def test_a_dead_conversion_webhook_costs_news_and_nothing_else(proxy, field, start):
    """One job is stored in another version, so no list can be read; the old cache is kept until then."""
    operator = await start()
    await field.reach(operator, "w", 3)

    (version,) = (await field.admin.get(CRD))["spec"]["versions"]
    versions = [version | {"storage": False}, version | {"name": "v2"}]
    await field.admin.patch(CRD, {"spec": {"versions": versions, "conversion": DEAD_WEBHOOK}})
    later = await field.job("w")
    later |= {"apiVersion": "kubeflow.org/v2", "metadata": {"name": "later"}}
    later.pop("status")
    await eventually(lambda: is_stored(field, later), within=30)
    failed = proxy.on(opening("tfjobs"), do=faults.gone(), at_most=1)
    await proxy.until(failed.has_fired, within=30)
    await proxy.until(lambda: any(call.code in {429, 500} for call in proxy.calls(anything("tfjobs"))), within=30)
    await field.quiet(1)

    caches = await operator.caches()
    assert (caches["deleted"], caches["jobs"].keys()) == ({}, {"w"})
    assert proxy.calls(delete("pods")) == ()
    await field.admin.patch(CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    await field.settled(operator)
    oracle.nothing_twice(proxy)


DEAD_WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]},
}


async def is_stored(field, job):
    """Whether this job can be created, which a new version needs a moment for."""
    try:
        return await field.admin.create(f"/apis/kubeflow.org/v2/namespaces/{field.namespace}/tfjobs", job)
    except RefusedError as refused:
        if refused.status not in {404, 429, 500}:
            raise
        return False
