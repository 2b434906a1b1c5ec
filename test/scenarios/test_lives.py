"""The lives of jobs in which nothing goes wrong: what is made, what the status tells on the way, and how they end."""

from support import builders
from support.builders import child_name, child_pod, child_service
from support.job_namespace import pod_names, states
from support.operator_fixture import ONE_OPERATOR
from support.resources import PODS, SERVICES

pytestmark = ONE_OPERATOR

FOUR_AND_TWO = builders.tfjob("j").workers(4).parameter_servers(2)


async def test_a_single_worker_runs_without_a_cluster_and_succeeds(job_namespace):
    stored = await job_namespace.begin(builders.tfjob("j").workers(1))
    pod = (await job_namespace.pods())["j-worker-0"]
    assert "env" not in pod["spec"]["containers"][0]
    await job_namespace.wait(stored["metadata"]["name"], "Created")
    await job_namespace.run("j-worker-0")
    await job_namespace.wait("j", "Running")
    await job_namespace.succeed("j-worker-0")
    job = await job_namespace.wait("j", "Succeeded")
    assert states(job) == ["Created", "!Running", "Succeeded"]
    assert job["status"]["startTime"] <= job["status"]["completionTime"]


async def test_children_carry_the_names_labels_and_owner_that_users_rely_on(job_namespace):
    job = await job_namespace.begin(FOUR_AND_TWO)
    pods, services = await job_namespace.pods(), await job_namespace.admin.list(SERVICES.path(job_namespace.namespace))
    for kind, count in (("Worker", 4), ("PS", 2)):
        for index in range(count):
            expected = child_pod(job, kind, index).body()["metadata"]
            _assert_contains(pods[child_name("j", kind, index)]["metadata"], expected)
    found = {service["metadata"]["name"]: service for service in services}
    assert set(found) == set(pod_names(job))
    wanted = child_service(job, "Worker", 1).body()
    _assert_contains(found["j-worker-1"]["metadata"], wanted["metadata"])
    for field in ("clusterIP", "publishNotReadyAddresses", "selector"):
        assert found["j-worker-1"]["spec"][field] == wanted["spec"][field]


async def test_the_status_follows_the_pods(job_namespace):
    job = await job_namespace.begin(FOUR_AND_TWO.success_policy())
    await job_namespace.wait_counts("Worker", active=0, pending=4)
    assert states(await job_namespace.job()) == ["Created"]

    await job_namespace.run("j-worker-0", "j-ps-0")
    await job_namespace.wait("j", "Running")
    await job_namespace.wait_counts("Worker", active=1, pending=3)
    await job_namespace.wait_counts("PS", active=1, pending=1)

    await job_namespace.run("j-worker-1", "j-worker-2", "j-worker-3", "j-ps-1")
    await job_namespace.wait_counts("Worker", active=4, pending=0)
    assert (await job_namespace.wait_status(ready="6/6"))["status"]["allRunningTime"]

    await job_namespace.succeed("j-worker-2")
    await job_namespace.wait_counts("Worker", active=3, succeeded=1)
    await job_namespace.succeed("j-worker-0", "j-worker-1", "j-worker-3")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_counts("Worker", active=0, succeeded=4)
    assert set(await job_namespace.pods()) == set(pod_names(job)), "cleanPodPolicy None is the default"


async def test_pods_count_for_their_own_job_only(job_namespace):
    await job_namespace.submit(builders.tfjob("j").workers(1))
    await job_namespace.submit(builders.tfjob("j-worker").workers(1))
    await job_namespace.wait_pods("j-worker-0", "j-worker-worker-0")
    await job_namespace.run("j-worker-0")
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.quiet(1.0)
    assert states(await job_namespace.job("j-worker")) == ["Created"]


async def test_each_service_is_there_before_its_pod(job_namespace):
    await job_namespace.begin(builders.tfjob("j").workers(6))
    versions = {}
    for resource in (SERVICES, PODS):
        for found in await job_namespace.admin.list(resource.path(job_namespace.namespace)):
            versions[resource, found["metadata"]["name"]] = int(found["metadata"]["resourceVersion"])
    for index in range(6):
        assert versions[SERVICES, f"j-worker-{index}"] < versions[PODS, f"j-worker-{index}"]


async def test_a_deleted_job_takes_everything_with_it(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2))
    await job_namespace.delete_job()
    await job_namespace.wait_job_gone()
    await job_namespace.wait_pods()
    await job_namespace.wait_services()


async def test_a_new_job_of_the_same_name_is_another_job(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2))
    old = await job_namespace.pods()
    await job_namespace.delete_job()
    await job_namespace.wait_job_gone()
    await job_namespace.submit(builders.tfjob("j").workers(2))
    fresh = await job_namespace.wait_replaced(*old.values())
    await job_namespace.run(*(pod["metadata"]["name"] for pod in fresh))
    job = await job_namespace.wait("j", "Running")
    assert job["status"].get("restarts", 0) == 0


async def test_the_longest_name_works_with_the_largest_index(job_namespace):
    name = "j" * (63 - len("-evaluator-10"))
    await job_namespace.begin_running(builders.tfjob(name).workers(1).evaluators(11))
    assert max(map(len, await job_namespace.services())) == 63


async def test_keys_may_be_written_in_any_letter_case(job_namespace):
    """As 1.9."""
    await job_namespace.submit(builders.tfjob("j").replicas("worker", 1).replicas("ps", 1))
    await job_namespace.wait_pods("j-worker-0", "j-ps-0")
    await job_namespace.run("j-worker-0", "j-ps-0")
    job = await job_namespace.wait("j", "Running")
    assert set(job["status"]["replicaStatuses"]) == {"Worker", "PS"}


def _assert_contains(found, expected):
    for field, value in expected.items():
        if isinstance(value, dict):
            assert value.items() <= found[field].items(), field
        else:
            assert found[field] == value, field
