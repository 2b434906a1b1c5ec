"""What happens to the machine below a job and to the operator above it: a leader that goes, a node that is drained."""

import pytest

from support.jobs.real_namespace import small_job, training
from support.settle import eventually

MIRRORED = "digits-mirrored"


async def test_a_job_does_not_notice_that_the_leader_is_gone(operator, here, sleeps):
    here.kubectl.create(small_job("j", sleeps, workers=2))
    await here.wait_state("j", "Running")
    uids, old = here.uids("j"), operator.leader()

    operator.kubectl.run("delete", "pod", old, "--wait=false")
    await eventually(lambda: operator.leader() not in {"", old}, within=30, every=0.5)
    here.end("j", "worker-0")
    here.end("j", "worker-1")
    await here.wait_state("j", "Succeeded", within=60)

    assert here.uids("j") == uids
    assert "disruptions" not in here.job("j")["status"]


@pytest.fixture
def drained(admin):
    """Drain a node; it takes pods again when the test is over."""
    nodes = []

    def drain(node):
        nodes.append(node)
        admin.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=80s")

    yield drain
    for node in nodes:
        admin.run("uncordon", node)


@pytest.mark.nightly
async def test_a_training_moves_and_goes_on_when_a_node_is_drained(operator, here, images, drained):
    here.provide_volume(MIRRORED)
    here.kubectl.create(training(MIRRORED, steps=3000, image=images.training))
    await here.wait_log(MIRRORED, "worker-1", "Saved step")
    node = here.pods(MIRRORED)["worker-1"]["spec"]["nodeName"]

    drained(node)
    await here.wait_state(MIRRORED, "Succeeded")

    status = here.job(MIRRORED)["status"]
    assert status["disruptions"] >= 1
    assert {pod["spec"]["nodeName"] for pod in here.pods(MIRRORED).values()}.isdisjoint({node})
    assert "Going on from step" in here.log(MIRRORED, "worker-1")
    assert await operator.wait_ready()
