"""The apiserver and etcd are asked for too much, killed, stopped, compacted and restored."""

import asyncio
import json
import re
import shutil
import signal
import urllib.request
from contextlib import suppress

import pytest

from lab.control_plane.plane import ControlPlane
from support import oracle
from support.api import RefusedError
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.trigger import anything, create, delete, patch, watch
from support.resources import PODS, TFJOBS
from support.settle import eventually
from support.stopwatch import Stopwatch

FROM_ANY_CACHE = re.compile(r"[?&]resourceVersion=0(&|$)")
IS_RECORDED = False
"""A restored etcd has no history that could be judged."""


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


@pytest.mark.parametrize("outage", [2, 300])
async def test_an_apiserver_that_was_killed_is_found_again(proxy, field, start, apiserver, outage):
    """Back after 2 and 300 s; the cache is correct again 35 s after that."""
    speed = {2: 1, 300: 20}[outage]
    operator = await start(speed=speed)
    await field.reach(operator, "w", 3)

    await asyncio.to_thread(apiserver.kill)
    await asyncio.sleep(outage / speed)
    await asyncio.to_thread(apiserver.start)
    async with Stopwatch() as passed:
        await eventually(lambda: is_wanted(field, "w", 5), within=30)
        await eventually(lambda: field.has_pods("w", 5), within=60)
        assert speed * passed.seconds <= 35 + speed * 3  # what the test's own checks take passes as fast
    await field.settled(operator)
    assert [call.target for call in proxy.calls(anything()) if FROM_ANY_CACHE.search(call.target)] == []
    oracle.nothing_twice(proxy)


async def test_writes_are_finished_after_the_apiserver_was_asked_to_end_amid_them(proxy, field, start, apiserver):
    """SIGTERM while pods are created; what it has begun it may finish."""
    operator = await start()
    ended = proxy.on(create("pods"), do=faults.call(lambda: apiserver.process.send(signal.SIGTERM)), nth=11)
    await asyncio.gather(*(field.want(f"w{number}", 5) for number in range(3)))
    await proxy.until(ended.has_fired)
    await asyncio.sleep(2)  # the grace period that whoever stops it gives it
    await asyncio.to_thread(apiserver.kill)
    await asyncio.to_thread(apiserver.start)
    await field.settled(operator)

    assert oracle.blind_repeats(proxy) == []
    assert oracle.unexplained(proxy) == []


async def test_writes_during_which_etcd_hung_are_looked_for(proxy, field, start, etcd):
    """For a minute; the replies are lost, the writes perhaps not."""
    operator = await start(speed=10)
    asleep = proxy.on(create("pods"), do=faults.call(etcd.pause), nth=3)
    await field.want("w", 6)
    await proxy.until(asleep.has_fired)
    await asyncio.sleep(60 / 10)
    etcd.resume()
    await field.settled(operator)

    assert any(call.upstream_code != 201 for call in proxy.calls(create("pods")))
    assert oracle.blind_repeats(proxy) == []
    assert oracle.unexplained(proxy) == []


async def test_an_etcd_that_was_killed_amid_writes_is_caught_up_with(proxy, field, start, etcd):
    operator = await start()
    await field.reach(operator, "kept", 2)
    killed = proxy.on(create("pods"), do=faults.call(etcd.kill), nth=3)
    await field.want("w", 6)
    await proxy.until(killed.has_fired)
    await eventually(etcd.process.is_gone)
    await asyncio.to_thread(etcd.start)
    await field.settled(operator)

    assert oracle.blind_repeats(proxy) == []
    assert oracle.unexplained(proxy) == []
    assert proxy.calls(delete("pods")) == ()


async def test_an_operator_that_slept_through_a_compaction_relists(proxy, field, start, control_plane):
    """It is stopped, its watches end, and what it has missed is compacted away."""
    operator = await start()
    await field.want("w", 4)
    await field.reach(operator, "gone", 2)
    old_counts = [oracle.lists(proxy, kind) for kind in ("pods", "tfjobs")]

    operator.signal(signal.SIGSTOP)
    proxy.now(watch(), do=faults.cut())
    await field.want("w", 2)
    await field.delete_job("gone")
    await field.delete_pod("w", 0)
    await asyncio.to_thread(control_plane.servers["kube-apiserver"].kill)
    await asyncio.to_thread(control_plane.servers["kube-apiserver"].start)
    compact(control_plane.etcd_url)
    operator.signal(signal.SIGCONT)
    await eventually(lambda: is_forgotten(operator, "gone"), within=60)
    await field.settled_without_orphans(operator)

    assert [oracle.lists(proxy, kind) for kind in ("pods", "tfjobs")] == [count + 1 for count in old_counts]
    assert await operator.terminate() == 0
    assert field.created() == {"gone-0": 1, "gone-1": 1, "w-0": 2, "w-1": 1, "w-2": 1, "w-3": 1}


def compact(etcd_url):
    revision = post(f"{etcd_url}/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    post(f"{etcd_url}/v3/kv/compaction", {"revision": revision, "physical": True})


def post(url, body):
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as reply:
        return json.loads(reply.read())


async def test_an_etcd_restored_from_a_snapshot_is_believed(proxy, field, start, control_plane, tmp_path):
    """The versions go back. The old history is given up within 60 s, and nothing is deleted because of it."""
    operator = await start()
    await field.want("kept", 6)
    await field.reach(operator, "changed", 2)
    uids = await uids_of_pods(field)
    await asyncio.to_thread(take_snapshot, control_plane, tmp_path / "snapshot")

    await live_on(field)
    await field.settled(operator)
    reached = await version(field)
    await asyncio.to_thread(restore_snapshot, control_plane, tmp_path / "snapshot")

    assert await version(field) < reached, "the versions did not go back"
    await eventually(lambda: is_forgotten(operator, "late"), within=60)
    await field.settled_without_orphans(operator)
    assert await uids_of_pods(field) == uids


async def test_an_object_at_etcds_limit_holds_up_nobody_but_itself(proxy, field, start):
    """There is no room for its status; the others are served, and nothing is in doubt."""
    operator = await start()
    await fill(field, "full")
    refused = patch("tfjobs/status", name="full")
    await proxy.until(lambda: any(call.upstream_code == 500 for call in proxy.calls(refused)), within=30)
    await field.want("w", 3)
    await eventually(lambda: field.has_pods("w", 3), within=30)

    assert {record["cause"] for record in operator.records_of("reconcile failed; retrying")} == {"TooLarge"}
    assert oracle.live_reads(proxy) == 0
    await field.reach(operator, "full", 1, ballast=1)
    oracle.nothing_twice(proxy)


async def fill(field, name):
    """Store a job that has room for hardly anything more: the largest that etcd takes."""
    for size in range(1_572_864, 1_500_000, -50):
        with suppress(RefusedError):
            return await field.want(name, 1, ballast=size)
    raise AssertionError("etcd takes nothing")


async def is_wanted(field, job, workers):
    """Whether an apiserver that was just started has taken the change."""
    with suppress(RefusedError, OSError):
        return await field.want(job, workers)


async def is_forgotten(operator, job):
    return job not in (await operator.caches())["jobs"]


async def live_on(field):
    """What a restored snapshot knows nothing of: a job that grew, another one, and many versions."""
    await field.want("changed", 4)
    await field.want("late", 2)
    for note in range(100):
        await field.want("kept", 6, note=note)


async def version(field):
    return int((await field.admin.get(TFJOBS.path(field.namespace), limit="1"))["metadata"]["resourceVersion"])


def take_snapshot(plane, folder):
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


async def uids_of_pods(field):
    """The UIDs of all pods by name: what was deleted and created again has another one."""
    pods = await field.admin.list(PODS.path(field.namespace))
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
