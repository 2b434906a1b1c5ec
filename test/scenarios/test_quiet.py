"""What jobs cost: the writes of a simple life, and those of fifty jobs in which nothing happens."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from lab.control_plane.access import OPERATOR
from support.audit import AuditLog
from support.jobs import builders
from support.jobs.job_namespace import pod_names
from support.operators.operator_fixture import ONE_OPERATOR
from support.pods.autopilot import autopilot
from support.pods.pod_scripts import Script, running
from support.settle import eventually
from support.stopwatch import Stopwatch

pytestmark = ONE_OPERATOR

JOBS = 50
QUIET_SECONDS = float(os.environ.get("QUIET_SECONDS", "10"))
SIMPLE = builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running")


@pytest.mark.parametrize(("mode", "most"), [("Replica", 14), ("Job", 11)])
async def test_a_simple_life_takes_few_writes(job_namespace, mode, most):
    """1 chief, 2 workers, 1 PS, policy Running, from creation to the last deletion, events included."""
    async with autopilot(job_namespace.kubelet, Script().otherwise([running()])):
        await job_namespace.submit(SIMPLE.service_mode(mode))
        await job_namespace.wait_status(ready="4/4")
    await job_namespace.quiet()
    begun = len(job_namespace.sent().writes())
    # The chief ends so soon after the workers that their end and its own are one status, and no worker is deleted.
    await job_namespace.succeed("j-worker-0", "j-worker-1")
    await job_namespace.succeed("j-chief-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_services()
    await job_namespace.quiet(2.0)
    writes = job_namespace.sent().writes()
    assert len(writes) - begun <= 4, _listed(writes)
    assert begun <= most - 4 + 1, _listed(writes)  # a pod that runs late is one status more


async def test_fifty_running_jobs_cost_nothing_while_nothing_happens(job_namespace, operator_fixture):
    """0 writes of this operator in any namespace; in `make quiet` for so long that watches end, too."""
    bodies = [builders.tfjob(f"j{number}").workers(2).body() for number in range(JOBS)]
    async with autopilot(job_namespace.kubelet, Script().otherwise([running()])) as pilot:
        for body in bodies:
            await job_namespace.submit(body)
        await job_namespace.wait_pods(*(name for body in bodies for name in pod_names(body)), within=60)
        await pilot.wait_idle()
    assert await eventually(lambda: job_namespace.wait_status(f"j{JOBS - 1}", ready="2/2"), within=60)
    await job_namespace.quiet(2.0, within=90)
    mark = job_namespace.mark()
    await Stopwatch.passes(datetime.now(UTC) + timedelta(seconds=QUIET_SECONDS))
    sent = AuditLog(job_namespace.plane.audit_log).since(mark).by(user=OPERATOR.login).writes()
    ours = [entry for entry in sent if entry.namespace in operator_fixture.namespaces]
    assert not ours, ours[:5]


def _listed(writes):
    return "\n".join(f"{times} x {write}" for write, times in writes.tally().items())
