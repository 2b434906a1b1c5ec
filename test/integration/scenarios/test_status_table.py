"""The status table of 1.9 (8.1), row by row: what the pods are, and what the job is said to be.

Pods are moved in the order in which a row lists them. Where our promise differs from 1.9 the row says so.
"""

from dataclasses import dataclass

import pytest

from support import builders
from support.builders import TFJobBuilder
from support.crew import ONE_CREW, QUICK
from support.pod_status import Exit
from support.scene import Scene, pod_names, states

pytestmark = ONE_CREW
ARGUMENTS = (QUICK,)

FOUR = builders.tfjob("j").workers(4)
CHIEF = builders.tfjob("j").chief().workers(2).parameter_servers(1)


@dataclass(frozen=True)
class Row:
    """Pods that end well or badly, the rest runs; and the state, with what must not be true beside it."""

    job: TFJobBuilder
    state: str
    succeed: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    code: int = 1
    pending: bool = False


ROWS = {
    "chief succeeded": Row(CHIEF, "Succeeded", succeed=("chief-0",)),
    "chief running": Row(CHIEF, "Running"),
    "chief failed": Row(CHIEF, "Failed", fail=("chief-0",)),
    "no chief, worker failed": Row(builders.tfjob("j").workers(1), "Failed", fail=("worker-0",)),
    "no chief, worker succeeded": Row(builders.tfjob("j").workers(1), "Succeeded", succeed=("worker-0",)),
    "no chief, worker running": Row(builders.tfjob("j").workers(1), "Running"),
    "2 succeeded, 2 active": Row(FOUR, "Running", succeed=("worker-2", "worker-3")),
    "2 running, 2 failed": Row(FOUR, "Failed", fail=("worker-2", "worker-3")),
    "2 succeeded, 2 failed": Row(FOUR, "Failed", succeed=("worker-2", "worker-3"), fail=("worker-0", "worker-1")),
    "worker 0 succeeded, 3 active": Row(FOUR, "Succeeded", succeed=("worker-0",)),
    "AllWorkers: worker 0 succeeded, 3 active": Row(FOUR.success_policy(), "Running", succeed=("worker-0",)),
    "AllWorkers: 4 succeeded": Row(
        FOUR.success_policy(), "Succeeded", succeed=("worker-0", "worker-1", "worker-2", "worker-3")
    ),
    "AllWorkers: worker 0 succeeded, 2 running, 1 failed": Row(
        FOUR.success_policy(), "Failed", succeed=("worker-0",), fail=("worker-1",)
    ),
    "chief running, workers succeeded": Row(CHIEF, "Running", succeed=("worker-0", "worker-1")),
    "chief running, PS failed": Row(CHIEF, "Failed", fail=("ps-0",)),
    "chief running, worker failed": Row(CHIEF, "Failed", fail=("worker-1",)),
    "chief failed, workers succeeded": Row(CHIEF, "Failed", succeed=("worker-0", "worker-1"), fail=("chief-0",)),
    "chief succeeded, then a worker failed": Row(CHIEF, "Succeeded", succeed=("chief-0",), fail=("worker-0",)),
    "chief failed with a code that is retried": Row(
        builders.tfjob("j").chief(restart="ExitCode").workers(2), "Restarting", fail=("chief-0",), code=130
    ),
    "chief pending, all others running": Row(CHIEF, "Created", pending=True),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items()])
async def test_a_job_is_what_its_pods_are(scene: Scene, row: Row) -> None:
    """8.1, status table. Exactly one state is True beside Created, and Running never together with an end."""
    stored = await scene.begin(row.job)
    waits = {"j-chief-0"} if row.pending else set()
    await scene.run(*(name for name in pod_names(stored) if name not in waits))
    for name in row.succeed:
        await scene.kubelet.succeed(f"j-{name}")
    for name in row.fail:
        await scene.kubelet.fail(f"j-{name}", Exit(row.code))
    job = await scene.wait("j", row.state)
    await scene.quiet(0.8)
    job = await scene.job()
    true = [state for state in states(job) if not state.startswith("!")]
    assert true == (["Created", row.state] if row.state != "Created" else ["Created"])
    assert ("completionTime" in job["status"]) == (row.state in {"Succeeded", "Failed"})
