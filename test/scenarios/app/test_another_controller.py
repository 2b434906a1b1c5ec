"""A start beside another controller of TFJobs, on a real apiserver whose ``managedFields`` tell who writes.

The other one is a writer with the user agent of Kubeflow's training-operator 1.9; it replaces whole statuses, as that
does.
"""

import asyncio
import contextlib
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from support.api import Api, RefusedError
from support.jobs import builders
from support.operators.operator_process import operator, start
from support.resources import EVENTS, PODS, TFJOBS
from support.settle import eventually

pytestmark = pytest.mark.real_server("managedFields")
ALONE = "--leader-elect=false"


class TrainingOperator:
    """Kubeflow's, as far as its writes of one job's status go."""

    def __init__(self, api, namespace):
        self._api = api
        self._job = TFJOBS.path(namespace, "j")

    async def write_status(self, state="Running"):
        """Say that the job is in a state, at this moment."""
        job = await self._api.get(self._job)
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": kind, "status": "True", "reason": f"TFJob{kind}", "message": at, "lastUpdateTime": at}
            for kind in ("Created", state)
        ]
        status = {"conditions": conditions, "replicaStatuses": {"Worker": {"active": 1}}, "startTime": at}
        await self._api.replace(f"{self._job}/status", {**job, "status": status})

    @asynccontextmanager
    async def at_work(self):
        """It writes about twice a second while the body runs."""

        async def work():
            while True:
                with contextlib.suppress(RefusedError):  # we were faster: it tries again
                    await self.write_status()
                await asyncio.sleep(0.5)

        working = asyncio.ensure_future(work())
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


@pytest.fixture
def place(plane):
    return plane.make_namespace("another")


@pytest.fixture
async def admin(plane):
    async with Api(plane.kubeconfig("admin")) as api:
        yield api


@pytest.fixture
async def other(plane, place):
    async with Api(plane.kubeconfig("admin"), user_agent="manager/v0.0.0 (linux/amd64) kubernetes/$Format") as api:
        yield TrainingOperator(api, place)


async def submit(admin, place):
    await admin.create(TFJOBS.path(place), builders.tfjob("j").workers(1).body())


async def wait_pod(admin, place):
    async def check():
        names = [pod["metadata"]["name"] for pod in await admin.list(PODS.path(place))]
        assert names == ["j-worker-0"]
        return names

    await eventually(check, within=60)


async def test_it_does_not_start_while_another_controller_works_and_writes_nothing_to_its_jobs(
    plane, place, admin, other
):
    await submit(admin, place)
    await other.write_status()
    async with other.at_work():
        process = await start(plane, arguments=[ALONE], namespaces=[place])
        assert await process.wait(within=60) == 1

    (refusal,) = process.records_of("cannot start")
    assert refusal["error"].startswith("another controller reconciles TFJobs: 'manager' changed the status of ")
    assert f"{place}/j" in refusal["error"]
    assert "--override-existing-controller" in refusal["error"]
    assert not process.records_of("workers started")
    assert not [record for record in process.records if "exception" in record]
    assert await admin.list(PODS.path(place)) == []
    (told,) = [event for event in await admin.list(EVENTS.path(place)) if event["reason"] == "AnotherController"]
    assert (told["type"], told["involvedObject"]["name"]) == ("Warning", "j")


async def test_an_old_controller_that_was_stopped_is_in_nobodys_way(plane, place, admin, other):
    await submit(admin, place)
    await other.write_status()
    async with operator(plane, arguments=[ALONE], namespaces=[place], until="") as process:
        await process.wait_for("checking whether the controller that ran these jobs is still active", within=60)
        await process.wait_for("workers started", within=60)
        await wait_pod(admin, place)
        assert not process.records_of("cannot start")
