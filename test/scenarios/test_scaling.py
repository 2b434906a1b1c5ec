"""Numbers of replicas that change: with dynamic workers while the job runs, without them not at all."""

from support import builders
from support.job_namespace import JobNamespace, states
from support.operator_fixture import ONE_OPERATOR

pytestmark = ONE_OPERATOR

DYNAMIC = builders.tfjob("j").workers(3).parameter_servers(1).dynamic_workers()


async def test_fewer_workers_are_taken_away_from_the_end(job_namespace: JobNamespace) -> None:
    """3 to 2: pod and Service of index 2 go, and count as nothing."""
    await job_namespace.begin_running(DYNAMIC)
    before = await job_namespace.uids()
    await _scale(job_namespace, 2)
    after = await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1")
    await job_namespace.wait_services("j-ps-0", "j-worker-0", "j-worker-1")
    job = await job_namespace.wait_counts("Worker", active=2, failed=0, succeeded=0)
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0
    assert all(pod["metadata"]["uid"] == before[name] for name, pod in after.items())
    assert states(job) == ["Created", "Running"]


async def _scale(job_namespace: JobNamespace, count: int) -> None:
    await job_namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})
