"""Suspended and resumed jobs, and jobs that somebody else manages: what queueing systems rely on."""

from datetime import timedelta

import pytest

from support.jobs import builders
from support.jobs.job_namespace import moment, states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.stopwatch import Stopwatch

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)


async def test_suspending_takes_everything_away_and_resuming_begins_again(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2).parameter_servers(1).clean_pods("None"))
    status = (await job_namespace.wait_status(ready="3/3"))["status"]
    old = await job_namespace.pods()

    await job_namespace.edit_policy(suspend=True)
    job = await job_namespace.wait("j", "Suspended")
    await job_namespace.wait_pods()
    await job_namespace.wait_services()
    assert states(job) == ["Created", "!Running", "Suspended"]
    assert job["status"]["startTime"] == status["startTime"]
    assert all("active" not in counts for counts in job["status"]["replicaStatuses"].values())

    await Stopwatch.passes(moment(status["startTime"]) + timedelta(seconds=1))  # times are stored to the second
    await job_namespace.edit_policy(suspend=False)
    await job_namespace.wait_replaced(*old.values())
    await job_namespace.run(*old)
    job = await job_namespace.wait("j", "Running")
    assert states(job) == ["Created", "!Suspended", "Running"]
    assert moment(job["status"]["startTime"]) > moment(status["startTime"])


async def test_a_resumed_job_gets_pods_of_its_present_template(job_namespace):
    """Kueue changes templates while a job is suspended."""
    await job_namespace.submit(builders.tfjob("j").workers(1).suspended())
    await job_namespace.wait("j", "Suspended")
    admitted = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "spot"}}}}}
    await job_namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": admitted["spec"]}}})
    await job_namespace.edit_policy(suspend=False)
    pods = await job_namespace.wait_pods("j-worker-0")
    assert pods["j-worker-0"]["spec"]["nodeSelector"] == {"pool": "spot"}


async def test_a_program_that_saves_its_work_when_it_is_suspended_goes_on_when_it_is_resumed(job_namespace):
    """To end with 0 on SIGTERM is what a good program does; the work is not done by that."""
    await job_namespace.begin_running(builders.tfjob("j").workers(1, restart="OnFailure"))
    await job_namespace.kubelet.bind("j-worker-0")
    await job_namespace.edit_policy(suspend=True)
    await job_namespace.wait("j", "Suspended")
    old = await job_namespace.wait_terminating("j-worker-0")
    await job_namespace.kubelet.succeed("j-worker-0")
    await job_namespace.quiet()
    assert "succeeded" not in (await job_namespace.job())["status"]["replicaStatuses"]["Worker"]
    await job_namespace.edit_policy(suspend=False)
    await job_namespace.quiet()
    assert states(await job_namespace.job()) == ["!Running", "!Suspended", "Created"]
    await job_namespace.kubelet.end(old)
    await job_namespace.wait_replaced(old)
    await job_namespace.run("j-worker-0")
    await job_namespace.wait("j", "Running")


@pytest.mark.parametrize("suspended", [False, True])
async def test_a_job_of_another_manager_is_never_written_to(job_namespace, suspended):
    stored = await job_namespace.submit(builders.tfjob("j").workers(2).managed_by().suspended(suspended))
    await job_namespace.quiet()
    changed = await job_namespace.edit_policy(suspend=False)
    await job_namespace.edit({"metadata": {"labels": {"touched": "yes"}}})
    await job_namespace.quiet()
    assert await job_namespace.pods() == {}
    assert "status" not in await job_namespace.job()
    assert not job_namespace.sent().writes()
    assert (stored["metadata"]["uid"], changed["spec"]["runPolicy"]["suspend"]) == (stored["metadata"]["uid"], False)
