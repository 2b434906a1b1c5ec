"""Nodes that fail, on a real scheduler: where replacements are, and when a job runs again that avoids all nodes."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from lab.control_plane import servers
from lab.control_plane.plane import ControlPlane
from support.jobs import builders
from support.operators.operator_fixture import QUICK, make_namespaces, make_operator_fixture
from support.pods.empty_nodes import empty_node
from support.pods.pod_status import Exit
from support.settle import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
CRASH = Exit(139)
WORKERS = 100
AT_A_TIME = 8
ALLOWED_WITHIN = 310.0
"""Seconds: five minutes, and ten seconds for the operator and the scheduler."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    root = tmp_path_factory.mktemp("avoided-nodes")
    # For gangs no controller takes nodes without a kubelet for lost.
    with ControlPlane.up(
        root / "plane", frozenset({"audit", "controller-manager", "scheduler", servers.GANGS})
    ) as plane:
        yield plane


@pytest.fixture
async def jobs(plane):
    [namespace] = await make_namespaces(plane, "avoided", 1)
    async with make_operator_fixture(plane, namespaces=[namespace], arguments=(QUICK,)) as operator:
        yield operator.job_namespace()


async def bound(jobs, names, *, but=()):
    """The pods of these names that have a node, apart from those of these UIDs, once all of them do."""

    async def check():
        pods = {name: pod for name, pod in (await jobs.pods()).items() if name in names}
        placed = {
            name: pod for name, pod in pods.items() if pod["spec"].get("nodeName") and pod["metadata"]["uid"] not in but
        }
        assert len(placed) == len(names), f"{len(placed)} of {len(names)} pods have a node"
        return placed

    return await eventually(check, within=ALLOWED_WITHIN + 60)


async def crash(jobs, names):
    slots = asyncio.Semaphore(AT_A_TIME)

    async def crash_one(name):
        async with slots:
            await jobs.kubelet.run(name)
            await jobs.kubelet.fail(name, CRASH)

    await asyncio.gather(*map(crash_one, names))


async def nodes_of_replacements(jobs, job):
    """All workers of a job crash on the first node, and then there is another one: where the next ones are."""
    names = [f"{job.name}-worker-{index}" for index in range(WORKERS)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(empty_node(jobs.admin, "bad", pods=2 * WORKERS))
        await jobs.submit(job)
        first = await bound(jobs, names)
        await stack.enter_async_context(empty_node(jobs.admin, "good", pods=2 * WORKERS))
        await crash(jobs, names)
        pods = await bound(jobs, names, but={pod["metadata"]["uid"] for pod in first.values()})
        await jobs.delete_job(job.name)
        await eventually(lambda: _are_gone(jobs), within=120)
        return Counter(pod["spec"]["nodeName"] for pod in pods.values())


async def _are_gone(jobs):
    left = await jobs.pods()
    for pod in left.values():
        await jobs.kubelet.end(pod)
    return not left


async def test_all_of_a_hundred_replacements_are_on_another_node(jobs, record_property):
    job = builders.tfjob("crashes").workers(WORKERS, restart="ExitCode")

    without = await nodes_of_replacements(jobs, job)
    nodes = await nodes_of_replacements(jobs, job.named("avoids").avoid_nodes(1))

    print(f"\nwithout avoidNodes: {dict(without)}; with it: {dict(nodes)}")  # noqa: T201
    record_property("replacements on the node that failed, without avoidNodes", without["bad"])
    assert nodes == {"good": WORKERS}
    assert without["bad"], "else the scheduler would have avoided the node by itself"


async def test_a_job_whose_nodes_are_all_avoided_runs_again_five_minutes_later(jobs, record_property):
    async with AsyncExitStack() as stack:
        for name in ("one", "two"):
            await stack.enter_async_context(empty_node(jobs.admin, name, pods=10))
        await jobs.submit(builders.tfjob("j").workers(1, restart="ExitCode").avoid_nodes(1))
        uids, nodes = set(), []
        for _ in range(2):
            pod = (await bound(jobs, ["j-worker-0"], but=uids))["j-worker-0"]
            uids.add(pod["metadata"]["uid"])
            nodes.append(pod["spec"]["nodeName"])
            await crash(jobs, ["j-worker-0"])
        began = time.monotonic()

        pod = (await bound(jobs, ["j-worker-0"], but=uids))["j-worker-0"]

        took = time.monotonic() - began
        await jobs.run("j-worker-0")
        await jobs.wait("j", "Running")
        await jobs.succeed("j-worker-0")
        await jobs.wait("j", "Succeeded")
    print(f"\nafter {took:.1f} s on {pod['spec']['nodeName']}, of {nodes}")  # noqa: T201
    record_property("seconds", round(took, 1))
    assert set(nodes) == {"one", "two"}
    assert pod["spec"]["nodeName"] == nodes[0], "the node that was avoided first"
    assert took <= ALLOWED_WITHIN
