"""Faults 44 to 46: the CRD is deleted and created again, updated, or cannot be converted, while it is in use."""

import time

import pytest

from lab.control_plane.plane import ControlPlane
from lab.fault_proxy import faults
from lab.fault_proxy.trigger import anything, delete, opening, watch
from support import copier, oracle
from support.api import RefusedError
from support.crds import create_crd
from support.resources import CONFIG_MAPS, CRDS
from support.settle import eventually

COPIES = "configmaps"
WIDGETS = "widgets.test.tf-operator.dev"
CRD = CRDS.path(name=copier.WIDGET_CRD["metadata"]["name"])


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory, plane_programs):
    """A plane of this module's own, in place of the session's: others need the CRD as it is."""
    with ControlPlane.up(tmp_path_factory.mktemp("own") / "plane") as plane:
        yield plane


async def test_a_crd_that_was_deleted_and_created_again_is_worked_for_again(proxy, field, start):
    """Fault 44: within 30 s of its return; what was remembered of the old Widgets is forgotten."""
    controller = await start()
    unseen = proxy.on(watch(COPIES, event="ADDED"), do=faults.hold())
    await field.want("w", 3)
    await eventually(lambda: len(oracle.copies_made(proxy)) == 3)
    old = await field.uid("w")
    assert controller.pending_writes.owners == 1, "the copies were seen"

    await field.admin.delete(CRD)
    await eventually(lambda: len(controller.widgets.store) == 0, within=30)
    await eventually(lambda: controller.pending_writes.owners == 0, within=5)
    assert len(controller.copies.store) == 0, "the copies were seen, so there was nothing to forget"
    await proxy.until(lambda: any(call.upstream_code == 404 for call in proxy.calls(opening(WIDGETS))), within=30)
    unseen.release()
    unseen.off()
    await collect_garbage(field)
    await create_crd(field.admin, copier.WIDGET_CRD)
    began = time.monotonic()
    await field.want("w", 2)
    await field.settled(controller)

    assert time.monotonic() - began <= 30
    assert await field.uid("w") != old
    assert sorted(oracle.copies_made(proxy)) == ["w-0", "w-0", "w-1", "w-1", "w-2"]


async def collect_garbage(field):
    """Delete all copies, as the garbage collector does when their owners are gone."""
    for copy in await field.admin.list(CONFIG_MAPS.path(field.namespace), labelSelector=copier.LABEL):
        await field.delete_copy(copy["metadata"]["name"])


class Deletions:
    """A handler that keeps what it was told is gone."""

    def __init__(self):
        self.names = []

    def on_add(self, item):
        pass

    def on_update(self, old, new):
        pass

    def on_delete(self, last, *, final_state_known):
        self.names.append(last.metadata.name)


async def test_an_update_of_the_crd_ends_all_watches_and_nothing_else(proxy, field, start):
    """Fault 45: a new watch, which the apiserver may ask to begin with a picture; nothing seems to be gone."""
    controller = await start()
    await field.want("w", 3)
    await field.settled(controller)
    controller.widgets.add_handler(deletions := Deletions())
    opened = proxy.count(opening(WIDGETS))
    before = oracle.pictures(proxy, WIDGETS)

    column = {"name": "Copies", "type": "integer", "jsonPath": ".spec.copies"}
    version = copier.WIDGET_CRD["spec"]["versions"][0] | {"additionalPrinterColumns": [column]}
    await field.admin.patch(CRD, {"spec": {"versions": [version]}})
    await proxy.until(lambda: proxy.count(opening(WIDGETS)) > opened, within=30)
    await field.want("w", 5)
    await field.settled(controller)

    assert oracle.pictures(proxy, WIDGETS) <= before + 1
    assert deletions.names == []
    assert proxy.calls(delete(COPIES)) == ()
    oracle.no_copy_twice(proxy)


async def test_a_dead_conversion_webhook_costs_news_and_nothing_else(proxy, field, start):
    """Fault 46: one object is stored in another version, so no picture can be taken; the old one is kept till then."""
    controller = await start()
    await field.want("w", 3)
    await field.settled(controller)
    controller.widgets.add_handler(deletions := Deletions())

    await field.admin.patch(CRD, {"spec": {"versions": TWO_VERSIONS, "conversion": DEAD_WEBHOOK}})
    later = copier.widget("later", 2) | {"apiVersion": f"{copier.GROUP}/v2"}
    await eventually(lambda: is_stored(field, later), within=30)
    failed = proxy.on(opening(WIDGETS), do=faults.gone(), at_most=1)
    await proxy.until(failed.has_fired, within=30)
    await proxy.until(lambda: any(call.code in {429, 500} for call in proxy.calls(anything(WIDGETS))), within=30)
    await field.delete_copy("w-1")
    await eventually(lambda: oracle.copies_made(proxy).count("w-1") == 2)

    assert deletions.names == []
    assert proxy.calls(delete(COPIES)) == ()
    await field.admin.patch(CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    await eventually(lambda: is_listed(field), within=30)
    await field.settled(controller)
    assert sorted(oracle.copies_made(proxy)) == ["later-0", "later-1", "w-0", "w-1", "w-1", "w-2"]


(_VERSION,) = copier.WIDGET_CRD["spec"]["versions"]
TWO_VERSIONS = [_VERSION | {"storage": False}, _VERSION | {"name": "v2"}]
DEAD_WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]},
}


async def is_listed(field):
    """Whether all Widgets can be listed again, which the apiserver needs a moment for."""
    try:
        return await field.admin.list(field.widgets)
    except RefusedError:
        return False


async def is_stored(field, widget):
    """Whether this Widget can be created, which a new version needs a moment for."""
    try:
        return await field.admin.create(field.widgets.replace("/v1/", "/v2/"), widget)
    except RefusedError as refused:
        if refused.status not in {404, 429, 500}:
            raise
        return False
