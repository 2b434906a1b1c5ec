"""Objects of others that look like a job's: never adopted, counted, changed or deleted."""

import asyncio

import pytest

from support.jobs import builders
from support.jobs.builders import child_labels
from support.jobs.job_namespace import states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.pods.pod_status import Exit
from support.resources import PODS, SERVICES

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)


async def test_a_pod_with_our_labels_and_no_owner_is_nobody_to_us(job_namespace):
    unowned = builders.pod("unowned").labels(child_labels("j", "Worker", 1)).body()
    await job_namespace.admin.create(PODS.path(job_namespace.namespace), unowned)
    await job_namespace.submit(builders.tfjob("j").workers(2))
    await job_namespace.wait_pods("j-worker-0", "j-worker-1", "unowned")
    await job_namespace.run("j-worker-0", "j-worker-1", "unowned")
    await job_namespace.wait_counts("Worker", active=2)
    await job_namespace.kubelet.fail("unowned", Exit(1))
    await job_namespace.quiet(1.0)
    assert states(await job_namespace.job()) == ["Created", "Running"]
    await job_namespace.edit_policy(suspend=True)
    await job_namespace.wait_pods("unowned")


async def test_a_service_with_the_labels_of_a_job_s_and_no_owner_outlives_the_job_s(job_namespace):
    await job_namespace.begin(builders.tfjob("j").workers(3))
    copied = await job_namespace.admin.get(SERVICES.path(job_namespace.namespace, "j-worker-0"))
    mine = builders.service("mine").labels(copied["metadata"]["labels"]).body()
    await job_namespace.admin.create(SERVICES.path(job_namespace.namespace), mine)
    await job_namespace.quiet(1.0)

    await job_namespace.edit_policy(suspend=True)

    await job_namespace.wait_services("mine")


@pytest.mark.parametrize("labelled", [True, False], ids=["with our labels", "without labels"])
async def test_a_job_waits_for_a_name_that_is_taken(job_namespace, labelled):
    other = await _another_job(job_namespace)
    taken = builders.pod("j-worker-0").owned_by(other).labels(child_labels("j", "Worker", 0) if labelled else {})
    foreign_pod = await job_namespace.admin.create(PODS.path(job_namespace.namespace), taken.body())
    await job_namespace.submit(builders.tfjob("j").workers(1))
    job = await job_namespace.wait("j", "Created", text="j-worker-0")
    assert "belongs to TFJob other" in job["status"]["conditions"][-1]["message"]
    assert (await job_namespace.wait_event("FailedCreatePod", "j-worker-0"))["type"] == "Warning"
    assert (await job_namespace.pods())["j-worker-0"]["metadata"] == foreign_pod["metadata"]
    await job_namespace.admin.delete(PODS.path(job_namespace.namespace, "j-worker-0"))
    [pod] = await job_namespace.wait_replaced(foreign_pod)
    assert pod["metadata"]["ownerReferences"][0]["name"] == "j"
    await job_namespace.run("j-worker-0")
    job = await job_namespace.wait("j", "Running")
    assert "taken" not in job["status"]["conditions"][0]["message"]


async def test_pods_of_another_job_of_the_same_name_are_not_ours(job_namespace):
    """An owner reference to a UID that is no more: the pod holds the name, and is not adopted."""
    old = await job_namespace.begin_running(builders.tfjob("j").workers(1))
    await job_namespace.kubelet.hold("j-worker-0")
    await job_namespace.delete_job()
    await job_namespace.wait_job_gone()
    fresh = await job_namespace.submit(builders.tfjob("j").workers(1))
    await job_namespace.wait("j", "Created", text="j-worker-0")
    pod = (await job_namespace.pods())["j-worker-0"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == old["metadata"]["uid"]
    await asyncio.sleep(8)  # by now the fifth attempt would be 15 s after the first
    await job_namespace.kubelet.release("j-worker-0")
    [new_pod] = await job_namespace.wait_replaced(pod, within=5)
    assert new_pod["metadata"]["ownerReferences"][0]["uid"] == fresh["metadata"]["uid"]


async def test_labels_that_a_client_keeps_changing_do_not_hold_up_the_status(job_namespace):
    await job_namespace.begin(builders.tfjob("j").workers(2))
    await job_namespace.run("j-worker-0", "j-worker-1")
    for count in range(40):
        await job_namespace.edit({"metadata": {"labels": {"count": str(count)}}})
        if count == 20:
            await job_namespace.succeed("j-worker-0")
    job = await job_namespace.wait("j", "Succeeded")
    assert job["metadata"]["labels"] == {"count": "39"}


async def _another_job(job_namespace):
    return await job_namespace.submit(builders.tfjob("other").workers(1).suspended())
