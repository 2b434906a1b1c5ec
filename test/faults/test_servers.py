"""Faults 32 and 36 to 40: the apiserver and etcd are asked for too much, killed, stopped, compacted and restored."""

import asyncio
import json
import re
import shutil
import signal
import urllib.request
from contextlib import suppress

import pytest

from lab.control_plane.plane import ControlPlane
from lab.fault_proxy import faults
from lab.fault_proxy.trigger import anything, create, delete, patch, watch
from support import copier, oracle
from support.api import RefusedError
from support.copier_process import CopierProcess, copier_process
from support.resources import CONFIG_MAPS
from support.scaled_clock import ScaledClock
from support.settle import eventually

COPIES = "configmaps"
FROM_ANY_CACHE = re.compile(r"[?&]resourceVersion=0(&|$)")


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory, plane_programs):
    """A plane of this module's own, in place of the session's: its servers are stopped and killed."""
    with ControlPlane.up(tmp_path_factory.mktemp("own") / "plane") as plane:
        yield plane


@pytest.fixture
def apiserver(control_plane):
    return control_plane.servers["kube-apiserver"]


@pytest.fixture
def etcd(control_plane):
    return control_plane.servers["etcd"]


@pytest.mark.parametrize("outage", [2, 10, 300])
async def test_an_apiserver_that_was_killed_is_found_again(proxy, field, start, apiserver, outage):
    """Fault 36 and L4: back after 2, 10 and 300 s; the cache is right again 35 s after that."""
    factor = {2: 1, 10: 2, 300: 20}[outage]
    clock = ScaledClock(factor)
    controller = await start(clock=clock)
    await field.want("w", 3)
    await field.settled(controller)

    await asyncio.to_thread(apiserver.kill)
    await clock.sleep(outage)
    await asyncio.to_thread(apiserver.start)
    began = clock.monotonic()
    await field.want("w", 5)
    await field.settled(controller)

    assert clock.monotonic() - began <= 35 + factor * 3  # what the test's own checks take passes faster, too
    assert [call.target for call in proxy.calls(anything()) if FROM_ANY_CACHE.search(call.target)] == []
    oracle.no_copy_twice(proxy)


async def test_writes_are_finished_after_the_apiserver_was_asked_to_end_amid_them(proxy, field, start, apiserver):
    """Fault 37: SIGTERM while copies are made; what it has begun it may finish."""
    controller = await start()
    ended = proxy.on(create(COPIES), do=faults.call(lambda: apiserver.process.send(signal.SIGTERM)), nth=5)
    await asyncio.gather(*(field.want(f"w{number}", 5) for number in range(4)))
    await proxy.until(ended.has_fired)
    await asyncio.sleep(3)  # the grace period that whoever stops it gives it
    await asyncio.to_thread(apiserver.kill)
    await asyncio.to_thread(apiserver.start)
    await field.settled(controller)

    assert oracle.blind_repeats(proxy) == []
    assert unexplained(proxy) == []


@pytest.mark.parametrize("seconds", [20, 60])
async def test_writes_that_an_etcd_slept_through_are_looked_for(proxy, field, start, etcd, seconds):
    """Fault 38: etcd stands still amid writes; the replies are lost, the writes perhaps not."""
    clock = ScaledClock(10)
    controller = await start(clock=clock)
    asleep = proxy.on(create(COPIES), do=faults.call(etcd.pause), nth=3)
    await field.want("w", 6)
    await proxy.until(asleep.has_fired)
    await clock.sleep(seconds)
    etcd.resume()
    await field.settled(controller)

    assert any(call.upstream_code != 201 for call in proxy.calls(create(COPIES))) or seconds == 20
    assert oracle.blind_repeats(proxy) == []
    assert unexplained(proxy) == []


async def test_an_etcd_that_was_killed_amid_writes_is_caught_up_with(proxy, field, start, etcd):
    """Fault 38: kill and restart."""
    controller = await start()
    await field.want("kept", 2)
    await field.settled(controller)
    is_gone = etcd.process.is_gone
    killed = proxy.on(create(COPIES), do=faults.call(etcd.kill), nth=3)
    await field.want("w", 6)
    await proxy.until(killed.has_fired)
    await eventually(is_gone)
    await asyncio.to_thread(etcd.start)
    await field.settled(controller)

    assert oracle.blind_repeats(proxy) == []
    assert unexplained(proxy) == []
    assert proxy.calls(delete(COPIES)) == ()


async def test_an_operator_that_slept_through_a_compaction_relists(proxy, field, control_plane, tmp_path):
    """Fault 39 and L1: it is stopped, its watches end, and what it has missed is compacted away."""
    kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig", client="copier")
    async with copier_process(kubeconfig, field.namespace) as process:
        await process.hear("synced")
        await field.want("w", 4)
        await field.want("gone", 2)
        await process.settled(field.admin, field.namespace)

        process.send(signal.SIGSTOP)
        proxy.now(watch(), do=faults.cut())
        await field.want("w", 2)
        await field.admin.delete(f"{field.widgets}/gone")
        await field.delete_copy("w-0")
        await asyncio.to_thread(control_plane.servers["kube-apiserver"].restart)
        compact(control_plane.etcd_url)
        process.send(signal.SIGCONT)
        await eventually(lambda: is_forgotten(process, "gone"), within=60)
        await eventually(lambda: in_order_without_orphans(process, field), within=60)

        assert [oracle.pictures(proxy, kind) for kind in (COPIES, "widgets")] == [2, 2]
        process.send(signal.SIGTERM)
        assert (await process.ended())[0] == 0
    assert sorted(oracle.copies_made(proxy)) == ["gone-0", "gone-1", "w-0", "w-0", "w-1", "w-2", "w-3"]


def compact(etcd_url):
    """Forget all history."""
    revision = post(f"{etcd_url}/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    post(f"{etcd_url}/v3/kv/compaction", {"revision": revision, "physical": True})


def post(url, body):
    """Ask etcd's gateway."""
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as reply:
        return json.loads(reply.read())


async def test_an_etcd_restored_from_a_snapshot_is_believed(proxy, field, start, control_plane, tmp_path):
    """Fault 40: the versions go back. The old history is given up within 60 s, and nothing is deleted for it."""
    controller = await start()
    await field.want("kept", 6)
    await field.want("changed", 2)
    await field.settled(controller)
    before = await uids_of_copies(field)
    await asyncio.to_thread(take_snapshot, control_plane, tmp_path / "snapshot")

    await live_on(field)
    await field.settled(controller)
    reached = int(controller.widgets.store.resource_version_in(field.namespace))
    await asyncio.to_thread(restore_snapshot, control_plane, tmp_path / "snapshot")

    now = await field.admin.get(field.widgets, limit="1")
    assert int(now["metadata"]["resourceVersion"]) < reached, "the versions did not go back"
    await eventually(lambda: is_forgotten(controller, "late"), within=60)
    await eventually(lambda: in_order_without_orphans(controller, field), within=60)
    assert await uids_of_copies(field) == before


async def test_an_object_at_etcds_limit_holds_up_nobody_but_itself(proxy, field, start):
    """Fault 32: there is no room for its status; the others are worked for, and this one is not asked for in vain."""
    controller = await start()
    await fill(field, "full")
    refused = patch("widgets.test.tf-operator.dev/status", name="full")
    await proxy.until(lambda: any(call.upstream_code == 500 for call in proxy.calls(refused)), within=30)
    await field.want("w", 3)
    await eventually(lambda: has_copies(controller, field, 3), within=30)

    assert {error.name for error in controller.failures} == {"TooLarge"}
    assert not controller.failures[0].outcome_unknown
    await field.want("full", 1, note="")
    await field.settled(controller)
    oracle.no_copy_twice(proxy)


async def test_a_write_with_too_many_annotations_is_sent_once_a_pass_and_holds_up_nobody(proxy, field, start):
    """Fault 32: 422; the apiserver has looked at it, and nothing is in doubt."""
    controller = await start()
    await field.want("full", 1, load=300_000)
    await field.want("w", 3)
    await eventually(lambda: has_copies(controller, field, 3), within=30)

    def refusals():
        return [call for call in proxy.calls(create(COPIES, name="full-0")) if call.code == 422]

    await proxy.until(lambda: len(refusals()) >= 3, within=30)
    assert {failure.name for failure in controller.failures} == {"Invalid"}
    assert abs(len(refusals()) - len(controller.failures)) <= 1, "the client repeats what is refused"
    assert controller.live_reads == 0, "nothing was in doubt"
    await field.want("full", 1, load=0)
    await field.settled(controller)
    oracle.no_copy_twice(proxy)


async def test_a_write_of_more_than_three_megabytes_is_known_to_be_refused(field, start):
    """Fault 32: 413, by an apiserver that hangs up before it has read it all. Past the proxy, which cannot do that."""
    controller = await start(past_proxy=True)
    await field.want("full", 1, load=3_500_000)
    await field.want("w", 3)
    await eventually(lambda: has_copies(controller, field, 3), within=30)
    await eventually(lambda: len(controller.failures) >= 3, within=30)

    assert {failure.name for failure in controller.failures} == {"TooLarge"}
    assert controller.live_reads == 0, "nothing was in doubt"
    await field.want("full", 1, load=0)
    await field.settled(controller)


async def fill(field, name):
    """Store a Widget that has room for hardly anything more: the largest that etcd takes."""
    for size in range(1_572_864, 1_500_000, -50):
        with suppress(RefusedError):
            return await field.want(name, 1, note="x" * size)
    raise AssertionError("etcd takes nothing")


def has_copies(controller, field, count):
    """Whether the Widget w has its copies."""
    return all(controller.copies.store.get(field.key(f"w-{number}")) for number in range(count))


async def caches_of(controller):
    return await controller.caches() if isinstance(controller, CopierProcess) else controller


async def is_forgotten(controller, name):
    """Whether the controller knows that there is no such Widget any more, and makes no copies for it."""
    return name not in {widget.metadata.name for widget in (await caches_of(controller)).widgets.store}


async def in_order_without_orphans(controller, field):
    """In order, after the orphans are gone, as they would be in a cluster with a garbage collector.

    The pictures of the two kinds do not come at the same moment: copies may be made for a Widget that is no more.
    """
    living = {widget["metadata"]["uid"] for widget in await field.admin.list(field.widgets)}
    for copy in await field.admin.list(CONFIG_MAPS.path(field.namespace), labelSelector=copier.LABEL):
        if copy["metadata"]["ownerReferences"][0]["uid"] not in living:
            await field.delete_copy(copy["metadata"]["name"])
    return await oracle.in_order(await caches_of(controller), field.admin, field.namespace)


async def live_on(field):
    """What a restored snapshot knows nothing of: a Widget that grew, another one, and many versions."""
    await field.want("changed", 4)
    await field.want("late", 2)
    for note in range(150):
        await field.want("kept", 6, note=note)


def take_snapshot(plane, folder):
    """Keep what etcd has on disk."""
    plane.servers["etcd"].kill()
    shutil.copytree(plane.layout.etcd_data, folder)
    plane.servers["etcd"].start()


def restore_snapshot(plane, folder):
    """Put back what was kept; the apiserver is started again, as the procedure demands."""
    plane.servers["kube-apiserver"].kill()
    plane.servers["etcd"].kill()
    shutil.rmtree(plane.layout.etcd_data)
    shutil.copytree(folder, plane.layout.etcd_data)
    plane.servers["etcd"].start()
    plane.servers["kube-apiserver"].start()


async def uids_of_copies(field):
    """The UIDs of all copies by name: what was deleted and created again has another one."""
    copies = await field.admin.list(CONFIG_MAPS.path(field.namespace), labelSelector=copier.LABEL)
    return {copy["metadata"]["name"]: copy["metadata"]["uid"] for copy in copies}


def unexplained(proxy):
    """Copies that were found to exist already although no reply about them had been lost before."""
    doubtful, found = set(), []
    for call in proxy.calls(create(COPIES)):
        name = json.loads(call.body)["metadata"]["name"]
        if call.upstream_code == 409 and name not in doubtful:
            found.append(name)
        if call.upstream_code not in {201, 409}:
            doubtful.add(name)
    return found
