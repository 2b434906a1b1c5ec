"""A real kube-scheduler takes the place of a replica for a pod of higher priority: a disruption, and no failure."""

import pytest

from support.jobs import builders
from support.jobs.job_namespace import JobNamespace, states
from support.jobs.templates import Template
from support.operators.operator_fixture import ONE_OPERATOR, QUICK, make_namespaces, make_operator_fixture
from support.resources import Json, Resource
from support.settle import eventually

pytestmark = [ONE_OPERATOR, pytest.mark.real_server("a scheduler")]
NODES = Resource("", "v1", "nodes")
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")


def job(name: str, workers: int):
    """With backoffLimit 0, so that a failure would end it."""
    template = Template().resources(requests={"cpu": "1"}).spec(priorityClassName=name)
    return builders.tfjob(name).workers(workers, restart="OnFailure", template=template).backoff_limit(0)


@pytest.mark.parametrize("own_control_plane", [{"audit", "scheduler"}], indirect=True)
async def test_a_preempted_replica_is_replaced_when_there_is_room_again(own_control_plane):
    namespaces = await make_namespaces(own_control_plane, "preempted", 1)
    async with make_operator_fixture(own_control_plane, namespaces=namespaces, arguments=(QUICK,)) as operator_fixture:
        jobs = operator_fixture.job_namespace()
        await _make_node(jobs, processors=2)
        for name, value in (("low", 1), ("high", 1000)):
            body = {"apiVersion": CLASSES.api_version, "kind": "PriorityClass", "metadata": {"name": name}}
            await jobs.admin.create(CLASSES.path(), {**body, "value": value})
        await jobs.submit(job("low", 2))
        await _run_bound(jobs, "low-worker-0", "low-worker-1")
        await jobs.wait("low", "Running")

        await jobs.submit(job("high", 1))
        preempted = await _wait_preempted(jobs)
        await jobs.kubelet.end(preempted)
        await _run_bound(jobs, "high-worker-0")
        (waiting,) = await jobs.wait_replaced(preempted)
        low_job = await jobs.wait_status("low", disruptions=1)
        assert "Failed" not in states(low_job)
        assert "restarts" not in low_job["status"]["replicaStatuses"]["Worker"]
        assert "nodeName" not in waiting["spec"]
        await jobs.wait_event("ReplicaDisrupted", "PreemptionByScheduler")

        await jobs.succeed("high-worker-0")
        await jobs.wait("high", "Succeeded")
        await _run_bound(jobs, waiting["metadata"]["name"])
        await jobs.wait_counts("Worker", "low", active=2, failed=0)


async def _make_node(jobs: JobNamespace, processors: int) -> None:
    """A node without a kubelet: the scheduler believes what its status says."""
    await jobs.admin.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
    room = {"cpu": str(processors), "memory": "8Gi", "pods": "20"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    await jobs.admin.patch(NODES.path(name="node-1", subresource="status"), {"status": status})
    await jobs.admin.patch(NODES.path(name="node-1"), {"spec": {"taints": None}})


async def _run_bound(jobs: JobNamespace, *names: str) -> None:
    """Wait until the scheduler has placed these pods, and run them."""

    async def check() -> bool:
        pods = await jobs.pods()
        unbound = [name for name in names if not pods.get(name, {}).get("spec", {}).get("nodeName")]
        assert not unbound, f"{unbound} have no node: {sorted(pods)}"
        return True

    await eventually(check, within=60.0)
    await jobs.run(*names)


async def _wait_preempted(jobs: JobNamespace) -> Json:
    async def check() -> Json:
        pods = [pod for pod in (await jobs.pods()).values() if "deletionTimestamp" in pod["metadata"]]
        assert pods, "nothing is preempted"
        return pods[0]

    return await eventually(check, within=60.0)
