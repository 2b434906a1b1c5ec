"""Numbers of workers that change while a job runs, by ``kubectl scale`` or a HorizontalPodAutoscaler."""

import json

from support.jobs import builders
from support.jobs.job_namespace import states
from support.operators.operator_fixture import ONE_OPERATOR
from support.resources import TFJOBS

pytestmark = ONE_OPERATOR

ELASTIC = builders.tfjob("j").workers(2).parameter_servers(1).elastic(1, 4)
DYNAMIC = builders.tfjob("j").workers(3).parameter_servers(1).dynamic_workers()


async def test_workers_are_taken_away_from_the_end_and_added_there(job_namespace):
    await job_namespace.begin_running(DYNAMIC)
    uids = await job_namespace.uids()
    await job_namespace.wait_counts("Worker", active=3)
    scale = await _scale(job_namespace, 2)
    assert (scale["status"]["replicas"], "replica-type=worker" in scale["status"]["selector"]) == (3, True)
    await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1")
    await job_namespace.wait_services("j-ps-0", "j-worker-0", "j-worker-1")
    await job_namespace.wait_counts("Worker", active=2, failed=0, succeeded=0)

    await _scale(job_namespace, 4)
    pods = await job_namespace.wait_pods("j-ps-0", *(f"j-worker-{index}" for index in range(4)))
    await job_namespace.run("j-worker-2", "j-worker-3")
    job = await job_namespace.wait_counts("Worker", active=4)
    same = [name for name, pod in pods.items() if pod["metadata"]["uid"] == uids.get(name)]
    assert sorted(same) == ["j-ps-0", "j-worker-0", "j-worker-1"]
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0
    assert states(job) == ["Created", "Running"]


async def test_elastic_workers_that_know_each_other_are_all_replaced_by_more_and_stay_when_there_are_fewer(
    job_namespace,
):
    await job_namespace.begin_running(ELASTIC)
    await job_namespace.wait_counts("Worker", active=2)
    old_pods = await job_namespace.pods()
    await _scale(job_namespace, 4)
    await job_namespace.wait_replaced(*old_pods.values())
    names = ["j-ps-0", *(f"j-worker-{index}" for index in range(4))]
    pods = await job_namespace.wait_pods(*names)
    assert [len(_cluster(pod)["worker"]) for pod in pods.values()] == [4] * 5
    await job_namespace.run(*names)
    await job_namespace.wait_counts("Worker", active=4)
    await job_namespace.wait("j", "Running")
    await job_namespace.wait_event("Resized", "Worker from 2 to 4")

    await _scale(job_namespace, 3)
    await job_namespace.wait_pods(*names[:-1])
    job = await job_namespace.wait_counts("Worker", active=3, failed=0, succeeded=0)
    uids = {name: pod["metadata"]["uid"] for name, pod in pods.items() if name != "j-worker-3"}
    assert await job_namespace.uids() == uids
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


def _cluster(pod):
    (config,) = [entry for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == "TF_CONFIG"]
    return json.loads(config["value"])["cluster"]


async def _scale(job_namespace, count):
    path = TFJOBS.path(job_namespace.namespace, "j", "scale")
    scale = await job_namespace.admin.get(path)
    await job_namespace.admin.patch(path, {"spec": {"replicas": count}})
    return scale
