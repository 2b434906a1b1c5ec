"""The job queue: jobs wait until they fit on the nodes, give up workers for others, and grow when idle.

The test is the scheduler and the kubelet. Nodes are those of one test: its jobs select them by a label.
"""

from pathlib import Path

from support import builders
from support.crds import apply_rights
from support.job_namespace import states
from support.operator_fixture import ONE_OPERATOR, QUICK
from support.resources import Resource
from support.settle import eventually
from support.templates import Template

pytestmark = ONE_OPERATOR
ARGUMENTS = (
    QUICK,
    "--job-queue",
    "--job-queue-shrink-after=2s",
    "--job-queue-grow-after=4s",
    "--job-queue-resize-interval=60s",
)
RIGHTS = Path(__file__).resolve().parents[2] / "manifests/rbac/job-queue"
NODES = Resource("", "v1", "nodes")
SLOT, LABEL = "example.com/slot", "example.com/test"


async def prepare(admin):
    await apply_rights(admin, sorted(RIGHTS.glob("*.yaml")))


async def test_a_job_goes_to_the_node_that_holds_it_and_a_later_one_overtakes_who_does_not_fit(job_namespace):
    nodes = await _nodes(job_namespace, small=2, large=6)
    await job_namespace.submit(_job(job_namespace, "first", 4, servers=1))
    names = ["first-ps-0", *(f"first-worker-{index}" for index in range(4))]
    pods = await job_namespace.wait_pods(*names)
    for pod in pods.values():
        (preferred,) = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert preferred["preference"]["matchFields"][0]["values"] == [nodes["large"]]
    await _run(job_namespace, nodes["large"], *names)
    await job_namespace.wait("first", "Running")

    await job_namespace.submit(_job(job_namespace, "big", 5))
    await job_namespace.wait("big", "Queued", reason="NoRoom", text="waits until its 5 pods fit")
    await job_namespace.submit(_job(job_namespace, "elastic", 4).elastic(3, 4))
    await job_namespace.wait_pods(*names, *(f"elastic-worker-{index}" for index in range(3)))
    await job_namespace.delete_job("first")
    for pod in pods:
        await job_namespace.kubelet.end(pods[pod])
    await job_namespace.wait_pods(*(f"elastic-worker-{index}" for index in range(3)), *_workers("big", 5))
    job = await job_namespace.job("big")
    assert states(job) == ["!Queued", "Created"]
    assert job["status"]["startTime"] >= job["status"]["elastic"]["queuedTime"]


async def test_a_worker_is_given_up_for_a_job_that_waits_although_the_operator_is_killed(
    operator_fixture, job_namespace
):
    nodes = await _nodes(job_namespace, one=8)
    await job_namespace.submit(_job(job_namespace, "a", 6).elastic(2, 8).dynamic_workers())
    await job_namespace.wait_pods(*_workers("a", 6))
    before = await _run(job_namespace, nodes["one"], *_workers("a", 6))
    await job_namespace.submit(_job(job_namespace, "b", 4).elastic(3, 4))

    async def is_recorded():
        return (await job_namespace.job("a"))["status"]["elastic"].get("workers") == 5

    assert await eventually(is_recorded)
    await operator_fixture.restart()
    resized = (await job_namespace.job("a"))["status"]["elastic"]["resizedTime"]

    async def is_terminating():
        return "deletionTimestamp" in (await job_namespace.pods())["a-worker-5"]["metadata"]

    assert await eventually(is_terminating)
    await job_namespace.kubelet.end(before["a-worker-5"])
    pods = await job_namespace.wait_pods(*_workers("a", 5), *_workers("b", 3))
    assert all(pods[name]["metadata"]["uid"] == before[name]["metadata"]["uid"] for name in _workers("a", 5))
    job = await job_namespace.job("a")
    assert job["status"]["elastic"]["resizedTime"] == resized
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


async def test_running_jobs_grow_in_turn_into_what_is_idle(job_namespace):
    nodes = await _nodes(job_namespace, one=7)
    for name in ("first", "second"):
        await job_namespace.submit(_job(job_namespace, name, 2).elastic(1, 5).dynamic_workers())
        await _run(job_namespace, nodes["one"], *_workers(name, 2))
    await job_namespace.wait_pods(*_workers("first", 4), *_workers("second", 3))


async def test_a_job_whose_workers_know_each_other_grows_by_new_pods(job_namespace):
    nodes = await _nodes(job_namespace, one=4)
    await job_namespace.submit(_job(job_namespace, "j", 2).elastic(1, 4))
    before = await _run(job_namespace, nodes["one"], *_workers("j", 2))
    await job_namespace.wait_event("Resized", "Worker from 2 to 4; all pods are replaced")
    for pod in before.values():
        await job_namespace.kubelet.end(pod)
    await job_namespace.wait_pods(*_workers("j", 4))
    after = await _run(job_namespace, nodes["one"], *_workers("j", 4))
    assert not {pod["metadata"]["uid"] for pod in before.values()} & {pod["metadata"]["uid"] for pod in after.values()}
    job = await job_namespace.wait("j", "Running")
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


async def test_workers_that_an_edit_adds_come_when_there_is_room_for_them(job_namespace):
    nodes = await _nodes(job_namespace, one=5)
    await job_namespace.submit(_job(job_namespace, "j", 2).dynamic_workers())
    await _run(job_namespace, nodes["one"], *_workers("j", 2))
    await job_namespace.wait("j", "Running")
    await job_namespace.submit(_job(job_namespace, "other", 2))
    others = await _run(job_namespace, nodes["one"], *_workers("other", 2))
    await job_namespace.edit(_replicas(5))
    await job_namespace.wait_pods(*_workers("j", 3), *_workers("other", 2))

    await job_namespace.edit(_replicas(2))
    await job_namespace.wait_pods(*_workers("j", 2), *_workers("other", 2))
    await job_namespace.delete_job("other")
    for pod in others.values():
        await job_namespace.kubelet.end(pod)
    await job_namespace.wait_pods(*_workers("j", 2))
    await job_namespace.edit(_replicas(5))
    await job_namespace.wait_pods(*_workers("j", 5))
    job = await job_namespace.job("j")
    assert job["status"]["elastic"]["admittedWorkers"] == 5


async def _nodes(job_namespace, **slots):
    """Nodes for this test alone, by short names, with so many slots."""
    names = {short: f"{job_namespace.namespace}-{short}" for short in slots}
    for short, name in names.items():
        room = {"pods": "110", SLOT: str(slots[short])}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "labels": {LABEL: job_namespace.namespace}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        await job_namespace.admin.create(NODES.path(), node)
        # The server has tainted it as not ready, which a controller takes away.
        await job_namespace.admin.patch(NODES.path(name=name), {"spec": {"taints": None}})
    return names


def _job(job_namespace, name, workers, *, servers=0):
    """A job of which each pod needs one slot."""
    template = Template().resources(limits={SLOT: "1"}).spec(nodeSelector={LABEL: job_namespace.namespace})
    job = builders.tfjob(name).workers(workers, template=template)
    return job.parameter_servers(servers, template=template) if servers else job


async def _run(job_namespace, node, *names):
    """Bind the pods to a node and run them, when they are there."""

    async def are_there():
        return set(names) <= set(await job_namespace.pods())

    assert await eventually(are_there)
    for name in names:
        await job_namespace.kubelet.bind(name, node)
    await job_namespace.run(*names)
    return await job_namespace.pods()


def _replicas(count):
    return {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}}


def _workers(name, count):
    return [f"{name}-worker-{index}" for index in range(count)]
