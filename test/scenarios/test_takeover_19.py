"""An upgrade from training-operator 1.9: what it left is taken over, and no pod is touched.

The jobs, statuses and children are those that 1.9 writes, stored while nobody is there.
"""

from support import builders
from support.audit import Tally
from support.builders import child_pod, child_service
from support.job_namespace import states
from support.operator_fixture import ONE_OPERATOR, QUICK
from support.resources import PODS, SERVICES, TFJOBS

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)

AT = "2026-01-05T10:00:00Z"


async def test_running_jobs_are_taken_over_without_touching_a_pod(job_namespace, operator_fixture):
    """An upgrade changes nothing but the status, which learns what 1.9 does not write."""
    await operator_fixture.kill()
    job = await _left_by_19(
        job_namespace, builders.tfjob("j").chief().workers(2).parameter_servers(1).clean_pods("Running")
    )
    for name in ("j-chief-0", "j-worker-0", "j-worker-1", "j-ps-0"):
        await job_namespace.kubelet.run(name)
    await _write_status(job_namespace, conditions=[_condition("Created"), _condition("Running")], counts=_ACTIVE)
    before = await job_namespace.pods()
    services = await job_namespace.admin.list(SERVICES.path(job_namespace.namespace))
    mark = job_namespace.mark()
    await operator_fixture.start()
    found = await job_namespace.wait_status(ready="4/4")
    await job_namespace.quiet()
    assert await job_namespace.pods() == before
    assert await job_namespace.admin.list(SERVICES.path(job_namespace.namespace)) == services
    assert found["status"]["startTime"] == AT
    assert [entry["lastTransitionTime"] for entry in found["status"]["conditions"]] == [AT, AT]
    assert job_namespace.sent(mark).writes().tally() == {("patch", "tfjobs.kubeflow.org/status", 200): 1}
    assert job["metadata"]["uid"] == found["metadata"]["uid"]

    await job_namespace.succeed("j-chief-0")
    found = await job_namespace.wait("j", "Succeeded")
    assert states(found) == ["Created", "!Running", "Succeeded"]
    await job_namespace.wait_pods("j-chief-0")
    await job_namespace.wait_services()
    await job_namespace.quiet()
    assert job_namespace.sent(mark).tally()[Tally("delete", "services", 200)] == 4, (
        "1.9 writes no UID by which to select them"
    )


async def test_a_job_that_19_has_finished_stays_finished(job_namespace, operator_fixture):
    """Its pods are gone, and nothing says which replicas had succeeded: nothing is written all the same."""
    await operator_fixture.kill()
    body = builders.tfjob("j").workers(2).body()
    await job_namespace.submit(body)
    ended = [_condition("Created"), _condition("Running", "False"), _condition("Succeeded")]
    await _write_status(job_namespace, conditions=ended, counts={"Worker": {"succeeded": 2}}, completionTime=AT)
    before, mark = await job_namespace.job(), job_namespace.mark()
    await operator_fixture.start()
    await job_namespace.quiet(2.0)
    assert await job_namespace.job() == before
    assert not job_namespace.sent(mark).writes()


_ACTIVE = {"Chief": {"active": 1}, "Worker": {"active": 2}, "PS": {"active": 1}}


async def _left_by_19(job_namespace, builder):
    job = await job_namespace.submit(builder)
    for kind, spec in job["spec"]["tfReplicaSpecs"].items():
        for index in range(spec["replicas"]):
            service = child_service(job, kind, index).body()
            service["spec"].pop("publishNotReadyAddresses")
            await job_namespace.admin.create(SERVICES.path(job_namespace.namespace), service)
            await job_namespace.admin.create(PODS.path(job_namespace.namespace), child_pod(job, kind, index).body())
    return job


async def _write_status(job_namespace, *, conditions, counts, **more):
    status = {"conditions": conditions, "replicaStatuses": counts, "startTime": AT, **more}
    await job_namespace.admin.patch(TFJOBS.path(job_namespace.namespace, "j", "status"), {"status": status})


def _condition(kind, status="True"):
    times = {"lastUpdateTime": AT, "lastTransitionTime": AT}
    message = {
        "Created": "TFJob j is created.",
        "Running": "TFJob ns/j is running.",
        "Succeeded": "TFJob ns/j successfully completed.",
        "Suspended": "TFJob j is suspended.",
    }[kind]
    return {"type": kind, "status": status, "reason": f"TFJob{kind}", "message": message, **times}
