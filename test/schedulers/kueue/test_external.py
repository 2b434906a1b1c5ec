"""What only the operator's Workloads do: those of Kueue's own code for TFJobs are for whole jobs, until their end."""

import pytest

from support.jobs.templates import Template
from support.operators.operator_fixture import ONE_OPERATOR
from support.partners.kueue_process import conditions

pytestmark = [
    ONE_OPERATOR,
    pytest.mark.nightly,
    pytest.mark.programs("kueue-0.14", "kueue-0.19"),
]
EXTERNAL = pytest.mark.parametrize(
    "kueue", [("0.14", False), ("0.19", False)], ids=["0.14", "0.19"], indirect=True, scope="module"
)


@EXTERNAL
async def test_an_elastic_job_begins_with_the_workers_that_have_room(queue):
    await queue.begin(queue.job("a", 1), "a-worker-0")
    elastic = {"spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "enableDynamicWorker": True}}
    await queue.jobs.submit(queue.job("b", 2).merged(elastic))
    await queue.wait_pods_of("a-worker-0", "b-worker-0")
    workload = await queue.wait_workload("b", "Admitted")
    assert workload["spec"]["podSets"][0]["minCount"] == 1
    assert workload["status"]["admission"]["podSetAssignments"][0]["count"] == 1
    assert (await queue.jobs.job("b"))["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 2


@EXTERNAL
async def test_workers_that_are_done_give_their_quota_back(queue):
    await queue.begin(queue.job("a").success_policy("AllWorkers"), "a-worker-0", "a-worker-1")
    await queue.jobs.submit(queue.job("b", 1))
    await queue.wait_workload("b")
    await queue.wait_workload("a", "PodsReady")
    await queue.jobs.succeed("a-worker-1")
    await queue.wait_pods_of("a-worker-0", "a-worker-1", "b-worker-0")
    assert (await queue.workload("a"))["status"]["reclaimablePods"] == [{"name": "worker", "count": 1}]


@EXTERNAL
async def test_a_job_that_asks_for_more_than_was_admitted_is_queued_again(queue):
    """Also when its queue label goes at the same time: a job with a Workload obeys it."""
    await queue.begin(queue.job("a", 1), "a-worker-0")
    first = await queue.wait_workload("a", "Admitted")
    more = Template().resources(requests={"cpu": "4"}).body()
    unlabelled = {"labels": {"kueue.x-k8s.io/queue-name": None}}
    await queue.jobs.edit({"spec": {"tfReplicaSpecs": {"Worker": {"template": more}}}}, "a")
    await queue.jobs.wait("a", "Queued")
    await queue.jobs.wait_pods()
    await queue.jobs.quiet()
    second = await queue.wait_workload("a")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "Admitted" not in conditions(second)
    await queue.jobs.edit({"metadata": unlabelled}, "a")
    await queue.jobs.quiet()
    assert await queue.jobs.pods() == {}


@EXTERNAL
async def test_a_job_is_stopped_by_its_workload(queue):
    await queue.begin(queue.job("a", 1), "a-worker-0")
    workload = await queue.wait_workload("a", "PodsReady")
    path = queue.kueue.resource("workloads").path(queue.jobs.namespace, workload["metadata"]["name"])
    await queue.jobs.admin.patch(path, {"spec": {"active": False}})
    await queue.jobs.wait("a", "Queued", text="evicted")
    await queue.jobs.wait_pods()
    await queue.jobs.submit(queue.job("b"))
    await queue.wait_pods_of("b-worker-0", "b-worker-1")


@EXTERNAL
async def test_a_missing_class_is_said_and_waited_for(queue):
    await queue.jobs.submit(queue.job("a", 1, priority=queue.jobs.namespace))
    await queue.jobs.wait("a", "Queued", text=f"There is no WorkloadPriorityClass {queue.jobs.namespace}")
    queue.kueue.create_class(queue.jobs.namespace, 7)
    await queue.wait_pods_of("a-worker-0")
    assert (await queue.workload("a"))["spec"]["priority"] == 7
