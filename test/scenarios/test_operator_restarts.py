"""The operator is killed and started again: at any moment of a life, and the life ends the same.

"Restarted" is SIGKILL and a fresh process; what happens while nobody is there counts as well.
"""

import aiohttp
import pytest

from support.jobs import builders
from support.jobs.job_namespace import states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.pods.pod_status import Exit
from support.resources import SERVICES

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)


async def test_a_life_with_several_operators_is_the_life_with_one(job_namespace, operator_fixture):
    """They are killed while pods start, when one has failed, before the end; at any write in ``test/simulation``."""
    job = builders.tfjob("j").chief(restart="ExitCode").workers(2, restart="ExitCode").parameter_servers(1)
    await job_namespace.begin(job.backoff_limit(3).clean_pods("Running"))
    await job_namespace.run("j-chief-0", "j-worker-0", "j-worker-1", "j-ps-0")
    await operator_fixture.restart()
    await job_namespace.wait_status(ready="4/4")
    failed_pod = await job_namespace.kubelet.fail("j-worker-1", Exit(137))
    await operator_fixture.restart()
    await job_namespace.wait_replaced(failed_pod)
    await job_namespace.run("j-worker-1")
    await job_namespace.wait("j", "Running")
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait_counts("Worker", succeeded=1, active=1)
    await operator_fixture.kill()
    await job_namespace.succeed("j-chief-0")
    await operator_fixture.start()
    ended_job = await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_pods("j-chief-0", "j-worker-0")
    await job_namespace.wait_services()
    await job_namespace.quiet()
    assert states(ended_job) == ["Created", "!Running", "Succeeded"]
    assert ended_job["status"]["restarts"] == 1
    assert job_namespace.created_pods() == 5
    await job_namespace.wait_event("TFJobSucceeded")
    assert len(await job_namespace.events("TFJobSucceeded")) == 1


async def test_what_happens_to_pods_while_nobody_is_there_is_found(job_namespace, operator_fixture):
    await job_namespace.begin_running(builders.tfjob("j").chief(restart="ExitCode").workers(3, restart="ExitCode"))
    await job_namespace.wait_status(ready="4/4")
    await operator_fixture.kill()
    failed = await job_namespace.kubelet.fail("j-worker-0", Exit(137))
    deleted = await job_namespace.delete_pod("j-worker-1")
    await job_namespace.succeed("j-worker-2")
    await operator_fixture.start()
    await job_namespace.wait_replaced(failed, deleted)
    await job_namespace.run("j-worker-0", "j-worker-1")
    job = await job_namespace.wait_counts("Worker", active=2, succeeded=1)
    assert (job["status"]["restarts"], job["status"]["disruptions"]) == (1, 1)
    assert (await job_namespace.pods())["j-worker-2"]["status"]["phase"] == "Succeeded"


async def test_a_finished_job_is_left_alone_for_ever(job_namespace, operator_fixture):
    await job_namespace.begin_running(builders.tfjob("j").workers(2).parameter_servers(1))
    await job_namespace.succeed("j-worker-1")
    await job_namespace.wait_counts("Worker", succeeded=1)
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
    for name in ("j-worker-0", "j-worker-1", "j-ps-0"):
        await job_namespace.delete_pod(name)
        await job_namespace.admin.delete(SERVICES.path(job_namespace.namespace, name))
    await job_namespace.wait_event("TFJobSucceeded")
    await job_namespace.quiet()
    job, events, mark = await job_namespace.job(), await job_namespace.events(), job_namespace.mark()
    for _ in range(2):
        await operator_fixture.restart()
        await job_namespace.quiet(2.0)
    assert not job_namespace.sent(mark).writes(), job_namespace.sent(mark).writes().tally()
    assert await job_namespace.job() == job
    assert await job_namespace.events() == events
    for name in ("created", "successful", "failed", "restarted"):
        assert await _counter(operator_fixture, f"training_operator_jobs_{name}_total", job_namespace.namespace) == 0


async def test_a_job_that_is_replaced_by_another_of_its_name_meanwhile_is_no_memory(job_namespace, operator_fixture):
    await job_namespace.begin_running(builders.tfjob("j").workers(1, restart="ExitCode").backoff_limit(1))
    [old] = await job_namespace.wait_replaced(await job_namespace.kubelet.fail("j-worker-0", Exit(137)))
    await job_namespace.wait_status(restarts=1)
    await operator_fixture.kill()
    await job_namespace.delete_job()
    await job_namespace.wait_job_gone()
    await job_namespace.submit(builders.tfjob("j").workers(1, restart="ExitCode").backoff_limit(1))
    await operator_fixture.start()
    await job_namespace.wait_replaced(old, within=60)
    await job_namespace.run("j-worker-0")
    job = await job_namespace.wait("j", "Running")
    assert job["status"].get("restarts", 0) == 0
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("j-worker-0", Exit(137)))
    await job_namespace.wait_status(restarts=1)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_every_way_of_deleting_a_job_works(job_namespace, propagation):
    await job_namespace.begin_running(builders.tfjob("j").workers(2))
    uids = await job_namespace.uids()
    mark = job_namespace.mark()
    await job_namespace.delete_job(propagation=propagation)
    await job_namespace.wait_job_gone()
    if propagation == "Orphan":
        await job_namespace.quiet()
        assert await job_namespace.uids() == uids
    else:
        await job_namespace.wait_pods()
        await job_namespace.wait_services()
    assert not job_namespace.sent(mark).writes().of("pods")


async def _counter(operator_fixture, name, namespace):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{await operator_fixture.process.address()}/metrics") as reply,
    ):
        text = await reply.text()
    series = f'{name}{{framework="tensorflow",job_namespace="{namespace}"}} '
    return sum(float(line.removeprefix(series)) for line in text.splitlines() if line.startswith(series))
