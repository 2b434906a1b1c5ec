"""The lives of jobs in which nothing goes wrong: what is made, what the status tells on the way, and how they end."""

from support.jobs import builders
from support.jobs.builders import child_name, child_pod, child_service
from support.jobs.job_namespace import pod_names, states
from support.operators.operator_fixture import ONE_OPERATOR
from support.resources import SERVICES

pytestmark = ONE_OPERATOR

FOUR_AND_TWO = builders.tfjob("j").workers(4).parameter_servers(2)


async def test_children_carry_the_names_labels_and_owner_that_users_rely_on(job_namespace):
    job = await job_namespace.begin(FOUR_AND_TWO)
    pods, services = await job_namespace.pods(), await job_namespace.admin.list(SERVICES.path(job_namespace.namespace))
    for kind, count in (("Worker", 4), ("PS", 2)):
        for index in range(count):
            expected = child_pod(job, kind, index).body()["metadata"]
            _assert_contains(pods[child_name("j", kind, index)]["metadata"], expected)
    services_by_name = {service["metadata"]["name"]: service for service in services}
    assert set(services_by_name) == set(pod_names(job))
    expected_service = child_service(job, "Worker", 1).body()
    _assert_contains(services_by_name["j-worker-1"]["metadata"], expected_service["metadata"])
    for field in ("clusterIP", "publishNotReadyAddresses", "selector"):
        assert services_by_name["j-worker-1"]["spec"][field] == expected_service["spec"][field]


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


def _assert_contains(actual, expected):
    for field, value in expected.items():
        if isinstance(value, dict):
            assert value.items() <= actual[field].items(), field
        else:
            assert actual[field] == value, field
