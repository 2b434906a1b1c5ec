"""An upgrade from training-operator 1.9: what it left is taken over, and no pod is touched.

The jobs, statuses and children are those that 1.9 writes, stored while nobody is there.
"""

from support.audit import Tally
from support.jobs import builders
from support.jobs.builders import child_pod, child_service
from support.jobs.job_namespace import states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
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
    await _write_status(job_namespace)
    pods = await job_namespace.pods()
    services = await job_namespace.admin.list(SERVICES.path(job_namespace.namespace))
    mark = job_namespace.mark()
    await operator_fixture.start()
    running_job = await job_namespace.wait_status(ready="4/4")
    await job_namespace.quiet()
    assert await job_namespace.pods() == pods
    assert await job_namespace.admin.list(SERVICES.path(job_namespace.namespace)) == services
    assert running_job["status"]["startTime"] == AT
    assert [entry["lastTransitionTime"] for entry in running_job["status"]["conditions"]] == [AT, AT]
    assert job_namespace.sent(mark).writes().tally() == {("patch", "tfjobs.kubeflow.org/status", 200): 1}
    assert job["metadata"]["uid"] == running_job["metadata"]["uid"]

    await job_namespace.succeed("j-chief-0")
    ended_job = await job_namespace.wait("j", "Succeeded")
    assert states(ended_job) == ["Created", "!Running", "Succeeded"]
    await job_namespace.wait_pods("j-chief-0")
    await job_namespace.wait_services()
    await job_namespace.quiet()
    assert job_namespace.sent(mark).tally()[Tally("delete", "services", 200)] == 4, (
        "1.9 writes no UID by which to select them"
    )


async def _left_by_19(job_namespace, builder):
    job = await job_namespace.submit(builder)
    for kind, spec in job["spec"]["tfReplicaSpecs"].items():
        for index in range(spec["replicas"]):
            service = child_service(job, kind, index).body()
            service["spec"].pop("publishNotReadyAddresses")
            await job_namespace.admin.create(SERVICES.path(job_namespace.namespace), service)
            await job_namespace.admin.create(PODS.path(job_namespace.namespace), child_pod(job, kind, index).body())
    return job


async def _write_status(job_namespace):
    conditions = [
        {"type": kind, "status": "True", "reason": f"TFJob{kind}", "message": message}
        | {"lastUpdateTime": AT, "lastTransitionTime": AT}
        for kind, message in (("Created", "TFJob j is created."), ("Running", "TFJob ns/j is running."))
    ]
    counts = {kind: {"active": count} for kind, count in (("Chief", 1), ("Worker", 2), ("PS", 1))}
    status = {"conditions": conditions, "replicaStatuses": counts, "startTime": AT}
    await job_namespace.admin.patch(TFJOBS.path(job_namespace.namespace, "j", "status"), {"status": status})
