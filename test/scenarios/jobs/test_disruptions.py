"""What the cluster does to pods: evictions, preemptions, drains, lost nodes, deletions. None of it is a failure."""

import pytest

from support.jobs import builders
from support.jobs.job_namespace import states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.resources import PODS
from tf_operator.job.profile import OPERATOR_LABEL

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)
JOB_NAME = "training.kubeflow.org/job-name"


async def test_an_evicted_pod_is_replaced_and_uses_up_no_restart(job_namespace):
    """Failed with reason Evicted and without containers; backoffLimit 0 shows that nothing is used up."""
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="OnFailure").backoff_limit(0))
    evicted_pod = await job_namespace.kubelet.evict("j-worker-1")
    await job_namespace.wait_replaced(evicted_pod)
    await job_namespace.run("j-worker-1")
    job = await job_namespace.wait("j", "Running")
    assert job["status"]["disruptions"] == 1
    assert job["status"].get("restarts", 0) == 0
    assert (await job_namespace.wait_event("ReplicaDisrupted", "Evicted"))["type"] == "Warning"


async def test_a_running_pod_that_somebody_deletes_is_replaced(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="ExitCode").backoff_limit(0))
    gone = await job_namespace.delete_pod("j-worker-1")
    await job_namespace.wait_replaced(gone)
    await job_namespace.run("j-worker-1")
    await job_namespace.wait_status(disruptions=1)
    await job_namespace.wait("j", "Running")


async def test_a_drained_node_neither_fails_nor_completes_a_job(job_namespace):
    """Bound pods, graceful deletion, exit with 0 on SIGTERM: at no moment is there a second pod of the name."""
    job = builders.tfjob("j").workers(2, restart="OnFailure").parameter_servers(1, restart="OnFailure")
    await job_namespace.begin_running(job)
    for name in ("j-worker-0", "j-ps-0"):
        await job_namespace.kubelet.bind(name)
        await job_namespace.kubelet.disrupt(name, "EvictionByEvictionAPI", "Eviction API: evicting")
        await job_namespace.kubelet.succeed(name)
    leaving = [(await job_namespace.pods())[name] for name in ("j-worker-0", "j-ps-0")]
    await job_namespace.quiet(1.0)
    assert {pod["metadata"]["uid"] for pod in leaving} <= set((await job_namespace.uids()).values())
    for pod in leaving:
        await job_namespace.kubelet.end(pod)
    await job_namespace.wait_replaced(*leaving)
    await job_namespace.run("j-worker-0", "j-ps-0")
    disrupted_job = await job_namespace.wait_status(disruptions=2)
    assert not {"Failed", "Succeeded"} & set(states(disrupted_job))
    await job_namespace.wait("j", "Running")
    await job_namespace.wait_event("ReplicaDisrupted", "EvictionByEvictionAPI: Eviction API: evicting")


async def test_a_pod_on_a_dead_node_is_replaced_when_it_is_gone_and_not_before(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="OnFailure"))
    lost = await job_namespace.kubelet.lose_node("j-worker-1")
    await job_namespace.quiet(1.5)
    assert (await job_namespace.uids())["j-worker-1"] == lost["metadata"]["uid"]
    assert "Failed" not in states(await job_namespace.job())
    await job_namespace.kubelet.release("j-worker-1")
    await job_namespace.wait_replaced(lost)


@pytest.mark.parametrize("labels", [{JOB_NAME: "debug"}, {OPERATOR_LABEL: None}], ids=["another job", "no operator"])
@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
async def test_a_pod_that_somebody_labels_otherwise_goes_on_and_ends_the_job(job_namespace, restart, labels):
    """As kubectl label --overwrite, which takes it out of its Service."""
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart=restart))
    uids, path = await job_namespace.uids(), PODS.path(job_namespace.namespace, "j-worker-0")
    await job_namespace.admin.patch(path, {"metadata": {"labels": labels}})
    if OPERATOR_LABEL in labels:
        await job_namespace.wait("j", "Running", text="pod j-worker-0 cannot be watched; put the label back")
        await job_namespace.admin.patch(path, {"metadata": {"labels": {OPERATOR_LABEL: "tfjob-controller"}}})
    await job_namespace.quiet(1.5)
    assert await job_namespace.uids() == uids
    assert not {"Failed", "Restarting"} & set(states(await job_namespace.job()))

    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
