"""What happens at a time of its own, with no event to cause it: deadlines, times to live, the startup deadline.

A job's times are stored to the second, and counted from there. How late something came is measured by the audit log,
and what this machine itself was late in those moments is allowed for (``Stopwatch``).
"""

from datetime import UTC, datetime, timedelta

import pytest

from support.jobs import builders
from support.jobs.job_namespace import moment, states
from support.operators.operator_fixture import ONE_OPERATOR
from support.pods.pod_status import IMAGE_PULL_BACK_OFF, Exit
from support.stopwatch import Stopwatch

pytestmark = ONE_OPERATOR


async def test_a_deadline_fires_by_itself_within_a_second(job_namespace):
    async with Stopwatch() as watch:
        await job_namespace.begin_running(builders.tfjob("j").workers(2).clean_pods("All"))
        start = moment((await job_namespace.job())["status"]["startTime"])
        seconds = int((datetime.now(UTC) - start).total_seconds()) + 3
        mark = job_namespace.mark()
        await job_namespace.edit_policy(activeDeadlineSeconds=seconds)
        await job_namespace.wait("j", "Failed", reason="TFJobDeadlineExceeded", text=f"{seconds} s")
        watch.assert_on_time(_fired(job_namespace, mark), start + timedelta(seconds=seconds))
    await job_namespace.wait_pods()
    await job_namespace.wait_event("TFJobDeadlineExceeded")


async def test_a_deadline_that_fell_due_while_the_operator_was_down_fires_at_its_start(job_namespace, operator_fixture):
    job = await job_namespace.begin_running(builders.tfjob("j").workers(1))
    await operator_fixture.kill()
    await job_namespace.edit_policy(activeDeadlineSeconds=2)
    due = moment((await job_namespace.job())["status"]["startTime"]) + timedelta(seconds=2)
    await Stopwatch.passes(due)
    assert states(await job_namespace.job(job["metadata"]["name"])) == ["Created", "Running"]
    await operator_fixture.start()
    await job_namespace.wait("j", "Failed", reason="TFJobDeadlineExceeded", within=10)


@pytest.mark.parametrize("ends", ["Succeeded", "Failed"])
async def test_a_finished_job_goes_when_its_time_has_come(job_namespace, ends):
    async with Stopwatch() as watch:
        await job_namespace.begin_running(builders.tfjob("j").workers(1).ttl(3))
        await _end(job_namespace, ends)
        job = await job_namespace.wait("j", ends)
        mark = job_namespace.mark()
        await job_namespace.wait_job_gone()
        watch.assert_on_time(
            _deleted(job_namespace, mark), moment(job["status"]["completionTime"]) + timedelta(seconds=3)
        )


async def test_a_pod_that_cannot_start_is_reported_once(job_namespace):
    job = builders.tfjob("j").chief().workers(2)
    await job_namespace.begin(job)
    await job_namespace.run("j-chief-0", "j-worker-0")
    await job_namespace.kubelet.wait_in("j-worker-1", IMAGE_PULL_BACK_OFF)
    running_job = await job_namespace.wait("j", "Running", text="ImagePullBackOff", within=25)
    message = running_job["status"]["conditions"][-1]["message"]
    assert "j-worker-1" in message
    assert "Back-off pulling image" in message
    event = await job_namespace.wait_event("ReplicaPending", "j-worker-1")
    assert event["type"] == "Warning"
    await job_namespace.kubelet.run("j-worker-1")
    await job_namespace.wait_counts("Worker", active=2)
    await job_namespace.quiet()
    assert "ImagePullBackOff" not in (await job_namespace.job())["status"]["conditions"][-1]["message"]
    assert [entry.get("count", 1) for entry in await job_namespace.events("ReplicaPending")] == [1]


async def _end(job_namespace, how):
    if how == "Succeeded":
        await job_namespace.succeed("j-worker-0")
    else:
        await job_namespace.kubelet.fail("j-worker-0", Exit(1))


def _fired(job_namespace, since):
    """When the operator wrote the end of the job."""
    return [entry.at for entry in job_namespace.sent(since) if entry.resource == "tfjobs.kubeflow.org/status"][-1]


def _deleted(job_namespace, since):
    return [entry.at for entry in job_namespace.sent(since) if entry.tally == ("delete", "tfjobs.kubeflow.org", 200)][
        -1
    ]
