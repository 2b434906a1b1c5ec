"""An upgrade from the version before with the job queue: what it has decided about jobs holds, and is decided once."""

from support.crds import apply_rights
from support.jobs.job_queue import RIGHTS, make_job, make_nodes, run_on, workers_of
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.settle import eventually

# Two operators one after another, and a build before them.
pytestmark = ONE_OPERATOR
# The older names of the flags, which either version knows.
ARGUMENTS = (
    QUICK,
    "--autoscale",
    "--autoscale-shrink-after=1s",
    "--autoscale-grow-after=1h",
    "--autoscale-resize-interval=60s",
)
DECIDED = {"queuedTime", "admittedTime", "admittedWorkers", "admittedPodsDigest", "node"}
"""What the version before kept in ``status.elastic``."""


async def prepare(admin):
    await apply_rights(admin, sorted(RIGHTS.glob("*.yaml")))


async def test_jobs_that_were_admitted_wait_or_were_shrunk_go_on_after_an_upgrade(
    job_namespace, operator_fixture, previous
):
    await operator_fixture.terminate()
    await operator_fixture.start(tree=previous)
    nodes = await make_nodes(job_namespace, one=8)
    await job_namespace.submit(make_job(job_namespace, "shrunk", 6).elastic(2, 8).dynamic_workers())
    pods = await run_on(job_namespace, nodes["one"], workers_of("shrunk", 6))
    await job_namespace.wait("shrunk", "Running")
    await job_namespace.submit(make_job(job_namespace, "admitted", 4).elastic(3, 4))
    assert await eventually(lambda: _is_terminating(job_namespace, "shrunk-worker-5"))
    await job_namespace.kubelet.end(pods["shrunk-worker-5"])
    await run_on(job_namespace, nodes["one"], workers_of("admitted", 3))
    await job_namespace.wait("admitted", "Running")
    await job_namespace.submit(make_job(job_namespace, "waits", 6))
    await job_namespace.wait("waits", "Queued", reason="NoRoom")

    await job_namespace.quiet()
    await operator_fixture.terminate()
    statuses = {name: await _status(job_namespace, name) for name in ("shrunk", "admitted", "waits")}
    uids, events = await job_namespace.uids(), await job_namespace.events()
    await operator_fixture.start()
    await job_namespace.quiet()

    assert await job_namespace.uids() == uids
    assert len(await job_namespace.events()) == len(events)
    for name, old in statuses.items():
        new = await _status(job_namespace, name)
        assert new["queue"] == {field: old["elastic"][field] for field in DECIDED & old["elastic"].keys()}
        assert new.get("elastic", {}) == {f: value for f, value in old["elastic"].items() if f not in DECIDED}
        assert new["conditions"] == old["conditions"]
    assert statuses["shrunk"]["elastic"]["workers"] == 5

    await job_namespace.delete_job("admitted")
    for name in workers_of("admitted", 3):
        await job_namespace.kubelet.end((await job_namespace.pods())[name])
    await job_namespace.delete_job("shrunk")
    for name in workers_of("shrunk", 5):
        await job_namespace.kubelet.end((await job_namespace.pods())[name])
    await job_namespace.wait_pods(*workers_of("waits", 6))


async def _status(job_namespace, name):
    return (await job_namespace.job(name))["status"]


async def _is_terminating(job_namespace, name):
    pod = (await job_namespace.pods()).get(name)
    return pod is not None and "deletionTimestamp" in pod["metadata"]
