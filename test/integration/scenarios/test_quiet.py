"""What jobs cost: the writes of a simple life, and those of fifty jobs in which nothing happens."""

from datetime import UTC, datetime, timedelta

from support import builders
from support.audit import AuditLog
from support.autopilot import autopilot
from support.courses import Script, running, succeeding
from support.crew import ONE_CREW, Crew
from support.plane_access import OPERATOR
from support.scene import Scene, pod_names
from support.settle import eventually
from support.stopwatch import Stopwatch

pytestmark = ONE_CREW

MOST_WRITES = 14
JOBS = 50
QUIET_SECONDS = 40


async def test_a_simple_life_takes_fourteen_writes(scene: Scene) -> None:
    """1 chief, 2 workers, 1 PS, policy Running, from creation to the last deletion, events included."""
    await scene.begin_running(builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running"))
    await scene.wait_status(ready="4/4")
    await scene.succeed("j-worker-0", "j-worker-1")
    await scene.wait_counts("Worker", succeeded=2)
    await scene.succeed("j-chief-0")
    await scene.wait("j", "Succeeded")
    await scene.wait_pods("j-chief-0", "j-worker-0", "j-worker-1")
    await scene.wait_services()
    await scene.quiet(2.0)
    writes = scene.sent().writes()
    # One more than the floor: 8 creates, 2 deletes, 2 events, and a status for each state: begun, running, the workers
    # are done, ended. This life is slower than one write in half a second, so nothing of it is summed up.
    assert len(writes) <= MOST_WRITES + 2, "\n".join(f"{times} x {what}" for what, times in writes.tally().items())


async def test_a_simple_life_that_nobody_looks_at_takes_fourteen_writes(scene: Scene) -> None:
    """The same with a kubelet that does not wait for the status between two steps."""
    script = Script().on("*-ps-*", [running()]).on("*-chief-*", [running(), succeeding(after=2.0)])
    async with autopilot(scene.kubelet, script.otherwise([running(), succeeding(after=1.9)])):
        await scene.submit(builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running"))
        await scene.wait("j", "Succeeded")
        await scene.wait_services()
        await scene.quiet(2.0)
    writes = scene.sent().writes()
    assert len(writes) <= MOST_WRITES, "\n".join(f"{times} x {what}" for what, times in writes.tally().items())


async def test_fifty_running_jobs_cost_nothing_while_nothing_happens(scene: Scene, crew: Crew) -> None:
    """S15: 40 seconds, 0 writes of this operator in any namespace; its watches go on and end in that time, too."""
    bodies = [builders.tfjob(f"j{number}").workers(2).body() for number in range(JOBS)]
    async with autopilot(scene.kubelet, Script().otherwise([running()])) as pilot:
        for body in bodies:
            await scene.submit(body)
        await scene.wait_pods(*(name for body in bodies for name in pod_names(body)), within=60)
        await pilot.wait_idle()
    last: object = await eventually(lambda: scene.wait_status(f"j{JOBS - 1}", ready="2/2"), within=60)
    assert last
    await scene.quiet(2.0, within=90)
    mark = scene.mark()
    await Stopwatch.passes(datetime.now(UTC) + timedelta(seconds=QUIET_SECONDS))
    sent = AuditLog(scene.plane.audit_log).since(mark).by(user=OPERATOR.login).writes()
    ours = [entry for entry in sent if entry.namespace in crew.namespaces]
    assert not ours, ours[:5]
