"""An upgrade from training-operator 1.9: what it left is taken over, and no pod is touched.

The jobs, statuses and children are those that 1.9 writes, stored while nobody is there.
"""

from typing import Any

from support import builders
from support.audit import Tally
from support.builders import TFJobBuilder, child_pod, child_service
from support.crew import ONE_CREW, QUICK, Crew
from support.pod_status import Exit
from support.resources import PODS, SERVICES, TFJOBS, Json
from support.scene import Scene, states

pytestmark = ONE_CREW
ARGUMENTS = (QUICK,)

AT = "2026-01-05T10:00:00Z"


async def test_running_jobs_are_taken_over_without_touching_a_pod(scene: Scene, crew: Crew) -> None:
    """B: an upgrade changes nothing but the status, which learns what 1.9 does not write."""
    await crew.kill()
    job = await _left_by_19(scene, builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running"))
    for name in ("j-chief-0", "j-worker-0", "j-worker-1", "j-ps-0"):
        await scene.kubelet.run(name)
    await _write_status(scene, conditions=[_condition("Created"), _condition("Running")], counts=_ACTIVE)
    before = await scene.pods()
    services = await scene.admin.list(SERVICES.path(scene.namespace))
    mark = scene.mark()
    await crew.start()
    found = await scene.wait_status(ready="4/4")
    await scene.quiet()
    assert await scene.pods() == before
    assert await scene.admin.list(SERVICES.path(scene.namespace)) == services
    assert found["status"]["startTime"] == AT
    assert [entry["lastTransitionTime"] for entry in found["status"]["conditions"]] == [AT, AT]
    assert scene.sent(mark).writes().tally() == {("patch", "tfjobs.kubeflow.org/status", 200): 1}
    assert job["metadata"]["uid"] == found["metadata"]["uid"]

    await scene.succeed("j-chief-0")
    found = await scene.wait("j", "Succeeded")
    assert states(found) == ["Created", "!Running", "Succeeded"]
    await scene.wait_pods("j-chief-0")
    await scene.wait_services()
    await scene.quiet()
    assert scene.sent(mark).tally()[Tally("delete", "services", 200)] == 4, "1.9 writes no UID by which to select them"


async def test_a_failure_after_the_takeover_is_handled_as_any_other(scene: Scene, crew: Crew) -> None:
    """The replacement joins the others."""
    crew.waived |= {"S5", "S16"}  # they leave out the pods that a test has made, and here those are the job's
    await crew.kill()
    await _left_by_19(scene, builders.tfjob("j").workers(2, restart="ExitCode").backoff_limit(3))
    await scene.run("j-worker-0", "j-worker-1")
    await _write_status(
        scene, conditions=[_condition("Created"), _condition("Running")], counts={"Worker": {"active": 2}}
    )
    await crew.start()
    await scene.wait_status(ready="2/2")
    await scene.wait_replaced(await scene.kubelet.fail("j-worker-1", Exit(143)))
    await scene.run("j-worker-1")
    await scene.wait_status(restarts=1)


async def test_a_job_that_19_has_finished_stays_finished(scene: Scene, crew: Crew) -> None:
    """C1: its pods are gone, and nothing says which replicas had succeeded: nothing is written all the same."""
    await crew.kill()
    body = builders.tfjob("j").workers(2).body()
    await scene.submit(body)
    ended = [_condition("Created"), _condition("Running", "False"), _condition("Succeeded")]
    await _write_status(scene, conditions=ended, counts={"Worker": {"succeeded": 2}}, completionTime=AT)
    before, mark = await scene.job(), scene.mark()
    await crew.start()
    await scene.quiet(2.0)
    assert await scene.job() == before
    assert not scene.sent(mark).writes()


async def test_a_suspended_job_of_19_is_resumed_by_us(scene: Scene, crew: Crew) -> None:
    """Its conditions are those of 1.9, too."""
    await crew.kill()
    await scene.submit(builders.tfjob("j").workers(1).suspended())
    suspended = _condition("Suspended") | {"reason": "TFJobSuspended"}
    await _write_status(scene, conditions=[_condition("Created"), suspended], counts={})
    await crew.start()
    await scene.edit_policy(suspend=False)
    await scene.wait_pods("j-worker-0")
    await scene.run("j-worker-0")
    job = await scene.wait("j", "Running")
    assert states(job) == ["Created", "!Suspended", "Running"]


async def test_a_job_on_which_19_had_not_begun_is_begun(scene: Scene, crew: Crew) -> None:
    """Half of the pods are there, none of the Services, no status."""
    await crew.kill()
    job = await scene.submit(builders.tfjob("j").workers(2))
    pod = await scene.admin.create(PODS.path(scene.namespace), child_pod(job, "Worker", 1).body())
    await crew.start()
    pods = await scene.wait_pods("j-worker-0", "j-worker-1")
    await scene.wait_services("j-worker-0", "j-worker-1")
    assert pods["j-worker-1"]["metadata"]["uid"] == pod["metadata"]["uid"]


_ACTIVE = {"Chief": {"active": 1}, "Worker": {"active": 2}, "PS": {"active": 1}}


async def _left_by_19(scene: Scene, builder: TFJobBuilder) -> Json:
    job = await scene.submit(builder)
    for kind, spec in job["spec"]["tfReplicaSpecs"].items():
        for index in range(spec["replicas"]):
            service = child_service(job, kind, index).port("tfjob-port", 2222).body()
            service["spec"].pop("publishNotReadyAddresses")
            await scene.admin.create(SERVICES.path(scene.namespace), service)
            await scene.admin.create(PODS.path(scene.namespace), child_pod(job, kind, index).body())
    return job


async def _write_status(scene: Scene, *, conditions: list[Json], counts: Json, **more: Any) -> None:
    status = {"conditions": conditions, "replicaStatuses": counts, "startTime": AT, **more}
    await scene.admin.patch(TFJOBS.path(scene.namespace, "j", "status"), {"status": status})


def _condition(kind: str, status: str = "True") -> Json:
    times = {"lastUpdateTime": AT, "lastTransitionTime": AT}
    message = {
        "Created": "TFJob j is created.",
        "Running": "TFJob ns/j is running.",
        "Succeeded": "TFJob ns/j successfully completed.",
        "Suspended": "TFJob j is suspended.",
    }[kind]
    return {"type": kind, "status": status, "reason": f"TFJob{kind}", "message": message, **times}
