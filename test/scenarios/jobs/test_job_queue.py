"""The job queue: jobs wait until they fit on the nodes, give up workers for others, and grow when idle.

The test is the scheduler and the kubelet.
"""

from support.crds import apply_rights
from support.jobs.job_namespace import states
from support.jobs.job_queue import RIGHTS, make_job, make_nodes, run_on, workers_of
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (
    QUICK,
    "--job-queue",
    "--job-queue-shrink-after=2s",
    "--job-queue-grow-after=8s",
    "--job-queue-resize-interval=60s",
)


async def prepare(admin):
    await apply_rights(admin, sorted(RIGHTS.glob("*.yaml")))


async def test_a_job_goes_to_the_node_that_holds_it_and_a_later_one_overtakes_who_does_not_fit(job_namespace):
    nodes = await make_nodes(job_namespace, small=2, large=6)
    await job_namespace.submit(make_job(job_namespace, "first", 4, servers=1))
    names = ["first-ps-0", *(f"first-worker-{index}" for index in range(4))]
    pods = await job_namespace.wait_pods(*names)
    for pod in pods.values():
        (preferred,) = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert preferred["preference"]["matchFields"][0]["values"] == [nodes["large"]]
    await run_on(job_namespace, nodes["large"], names)
    await job_namespace.wait("first", "Running")

    await job_namespace.submit(make_job(job_namespace, "big", 5))
    await job_namespace.wait("big", "Queued", reason="NoRoom", text="waits until its 5 pods fit")
    await job_namespace.submit(make_job(job_namespace, "elastic", 4).elastic(3, 4))
    await job_namespace.wait_pods(*names, *(f"elastic-worker-{index}" for index in range(3)))
    await job_namespace.submit(make_job(job_namespace, "huge", 9))
    await job_namespace.wait("huge", "Queued", reason="CannotFit", text="would not have room for all its Worker pods")
    await job_namespace.delete_job("first")
    for pod in pods:
        await job_namespace.kubelet.end(pods[pod])
    await job_namespace.wait_pods(*(f"elastic-worker-{index}" for index in range(3)), *workers_of("big", 5))
    job = await job_namespace.job("big")
    assert states(job) == ["!Queued", "Created"]
    assert job["status"]["startTime"] >= job["status"]["queue"]["queuedTime"]


async def test_a_worker_is_given_up_for_a_job_that_waits_although_the_operator_is_killed(
    operator_fixture, job_namespace
):
    nodes = await make_nodes(job_namespace, one=8)
    await job_namespace.submit(make_job(job_namespace, "a", 6).elastic(2, 8).dynamic_workers())
    await job_namespace.wait_pods(*workers_of("a", 6))
    old_pods = await run_on(job_namespace, nodes["one"], workers_of("a", 6))
    await job_namespace.submit(make_job(job_namespace, "b", 4).elastic(3, 4))

    async def is_recorded():
        return (await job_namespace.job("a"))["status"].get("elastic", {}).get("workers") == 5

    assert await eventually(is_recorded)
    await operator_fixture.restart()
    resized = (await job_namespace.job("a"))["status"]["elastic"]["resizedTime"]

    async def is_terminating():
        return "deletionTimestamp" in (await job_namespace.pods())["a-worker-5"]["metadata"]

    assert await eventually(is_terminating)
    await job_namespace.kubelet.end(old_pods["a-worker-5"])
    pods = await job_namespace.wait_pods(*workers_of("a", 5), *workers_of("b", 3))
    assert all(pods[name]["metadata"]["uid"] == old_pods[name]["metadata"]["uid"] for name in workers_of("a", 5))
    job = await job_namespace.job("a")
    assert job["status"]["elastic"]["resizedTime"] == resized
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


async def test_running_jobs_grow_in_turn_into_what_is_idle(job_namespace):
    nodes = await make_nodes(job_namespace, one=7)
    for name in ("first", "second"):
        await job_namespace.submit(make_job(job_namespace, name, 2).elastic(1, 5).dynamic_workers())
        await run_on(job_namespace, nodes["one"], workers_of(name, 2))
    await job_namespace.wait_pods(*workers_of("first", 4), *workers_of("second", 3))


async def test_a_job_whose_workers_know_each_other_grows_by_new_pods(job_namespace):
    nodes = await make_nodes(job_namespace, one=4)
    await job_namespace.submit(make_job(job_namespace, "j", 2).elastic(1, 4))
    old_pods = await run_on(job_namespace, nodes["one"], workers_of("j", 2))
    await job_namespace.wait_event("Resized", "Worker from 2 to 4; all pods are replaced")
    for pod in old_pods.values():
        await job_namespace.kubelet.end(pod)
    await job_namespace.wait_pods(*workers_of("j", 4))
    new_pods = await run_on(job_namespace, nodes["one"], workers_of("j", 4))
    assert not {pod["metadata"]["uid"] for pod in old_pods.values()} & {
        pod["metadata"]["uid"] for pod in new_pods.values()
    }
    job = await job_namespace.wait("j", "Running")
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


async def test_workers_that_an_edit_adds_come_when_there_is_room_for_them(job_namespace):
    nodes = await make_nodes(job_namespace, one=5)
    await job_namespace.submit(make_job(job_namespace, "j", 2).dynamic_workers())
    await run_on(job_namespace, nodes["one"], workers_of("j", 2))
    await job_namespace.wait("j", "Running")
    await job_namespace.submit(make_job(job_namespace, "other", 2))
    others = await run_on(job_namespace, nodes["one"], workers_of("other", 2))
    await job_namespace.edit(_replicas(5))
    await job_namespace.wait_pods(*workers_of("j", 3), *workers_of("other", 2))

    await job_namespace.edit(_replicas(2))
    await job_namespace.wait_pods(*workers_of("j", 2), *workers_of("other", 2))
    await job_namespace.delete_job("other")
    for pod in others.values():
        await job_namespace.kubelet.end(pod)
    await job_namespace.wait_pods(*workers_of("j", 2))
    await job_namespace.edit(_replicas(5))
    await job_namespace.wait_pods(*workers_of("j", 5))
    job = await job_namespace.job("j")
    assert job["status"]["queue"]["admittedWorkers"] == 5


def _replicas(count):
    return {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}}
