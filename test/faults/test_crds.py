"""Faults 44 and 45: the CRD is deleted and made anew, or updated, while it is in use."""

import time

import pytest

from support import copier, oracle
from support.control_plane import ControlPlane
from support.crds import create_crd
from support.fault_trigger import anything, delete, opening
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


async def test_a_crd_that_was_deleted_and_made_anew_is_worked_for_again(proxy, field, start):
    """Fault 44: within 30 s of its return; what was remembered of the old Widgets is forgotten."""
    controller = await start()
    await field.want("w", 3)
    await field.settled(controller)
    old = await field.uid("w")

    await field.admin.delete(CRD)
    await eventually(lambda: len(controller.widgets.store) == 0, within=30)
    await proxy.until(lambda: any(call.upstream_code == 404 for call in proxy.calls(opening(WIDGETS))), within=30)
    await collect_garbage(field)
    await eventually(lambda: controller.own_writes.owners == 0)
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

    def on_delete(self, last, *, is_final):
        self.names.append(last.metadata.name)


async def test_an_update_of_the_crd_ends_all_watches_and_nothing_else(proxy, field, start):
    """Fault 45: a new watch, which the apiserver may ask to begin with a picture; nothing seems to be gone."""
    controller = await start()
    await field.want("w", 3)
    await field.settled(controller)
    controller.widgets.add_handler(deletions := Deletions())
    opened = proxy.count(opening(WIDGETS))
    before = pictures(proxy)

    column = {"name": "Copies", "type": "integer", "jsonPath": ".spec.copies"}
    version = copier.WIDGET_CRD["spec"]["versions"][0] | {"additionalPrinterColumns": [column]}
    await field.admin.patch(CRD, {"spec": {"versions": [version]}})
    await proxy.until(lambda: proxy.count(opening(WIDGETS)) > opened, within=30)
    await field.want("w", 5)
    await field.settled(controller)

    assert pictures(proxy) <= before + 1
    assert deletions.names == []
    assert proxy.calls(delete(COPIES)) == ()
    oracle.no_copy_twice(proxy)


def pictures(proxy):
    """How often a picture of the Widgets was asked for."""
    return sum(call.verb == "list" or "sendInitialEvents" in call.target for call in proxy.calls(anything(WIDGETS)))
