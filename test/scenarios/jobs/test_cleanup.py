"""What stays and what goes when a job has ended."""

import pytest

from support.audit import Tally
from support.jobs import builders
from support.jobs.job_namespace import pod_names
from support.operators.operator_fixture import ONE_OPERATOR

pytestmark = ONE_OPERATOR

FIVE = builders.tfjob("j").chief().workers(3).parameter_servers(1)


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("All", []),
        ("Running", ["j-chief-0", "j-worker-2"]),
        ("None", ["j-chief-0", "j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2"]),
    ],
)
async def test_the_policy_says_which_pods_stay(job_namespace, policy, left):
    await job_namespace.begin(FIVE.clean_pods(policy))
    await job_namespace.run("j-ps-0", "j-worker-0", "j-worker-2", "j-chief-0")
    await job_namespace.succeed("j-worker-2")
    await job_namespace.wait_counts("Worker", succeeded=1)
    await job_namespace.succeed("j-chief-0")
    job = await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_pods(*left)
    await job_namespace.wait_services(*(pod_names(job) if policy == "None" else ()))
    await job_namespace.quiet(2.0)
    sent = job_namespace.sent().tally()
    assert sent[Tally("delete", "pods", 200)] == 5 - len(left)
    assert sent[Tally("deletecollection", "services", 200)] == (policy != "None")
    assert not sent[Tally("delete", "pods", 404)]
    # The final counts survive the clean-up: what ran at the end counts as succeeded, as 1.9 has it.
    assert (await job_namespace.job())["status"]["replicaStatuses"]["Chief"]["succeeded"] == 1


async def test_a_pod_that_is_slow_to_go_is_deleted_once(job_namespace):
    """1.9 asks again in every pass while pods terminate."""
    await job_namespace.begin_running(builders.tfjob("j").workers(2).clean_pods("All"))
    await job_namespace.kubelet.hold("j-worker-1")
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_services()
    await job_namespace.edit({"metadata": {"labels": {"touched": "yes"}}})
    await job_namespace.quiet()
    assert job_namespace.sent().tally()[Tally("delete", "pods", 200)] == 2
    await job_namespace.kubelet.release("j-worker-1")
    await job_namespace.wait_pods()
