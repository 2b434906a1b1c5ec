"""A job that has one Service for all its replicas."""

import json

import pytest

from support.audit import Tally
from support.jobs import builders
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.pods.pod_status import Exit
from support.resources import SERVICES

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)
JOB = builders.tfjob("j").workers(2, restart="ExitCode").service_mode("Job").clean_pods("All")


def tf_config(pod):
    (variable,) = (entry for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == "TF_CONFIG")
    return json.loads(variable["value"])


async def test_its_pods_are_hosts_in_the_service_of_the_job_as_long_as_it_runs(job_namespace):
    await job_namespace.begin_running(JOB)
    service = await job_namespace.admin.get(SERVICES.path(job_namespace.namespace, "j"))
    pods = await job_namespace.pods()
    assert await job_namespace.services() == {"j"}
    assert service["spec"]["clusterIP"] == "None"
    for name, pod in pods.items():
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (name, "j")
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        hosts = [f"j-worker-{index}.j.{job_namespace.namespace}.svc:2222" for index in range(2)]
        assert tf_config(pod)["cluster"] == {"worker": hosts}

    await job_namespace.kubelet.fail("j-worker-1", Exit(137))
    (replacement,) = await job_namespace.wait_replaced(pods["j-worker-1"])
    assert replacement["spec"]["hostname"] == "j-worker-1"
    assert tf_config(replacement) == tf_config(pods["j-worker-1"])
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.wait_pods()
    await job_namespace.wait_services()

    sent = job_namespace.sent().writes().tally()
    assert {call: times for call, times in sent.items() if call.resource == "services"} == {
        Tally("create", "services", 201): 1,
        Tally("delete", "services", 200): 1,
    }


async def test_its_service_is_made_again_before_anything_is_missed(job_namespace):
    await job_namespace.begin_running(JOB)
    pods = await job_namespace.uids()

    await job_namespace.admin.delete(SERVICES.path(job_namespace.namespace, "j"))

    await job_namespace.wait_services("j")
    assert await job_namespace.uids() == pods


@pytest.mark.parametrize("is_owned", [True, False], ids=["of another job", "of nobody"])
async def test_a_service_that_has_its_name_is_left_alone_and_no_pod_is_made(job_namespace, is_owned):
    other = await job_namespace.submit(builders.tfjob("other").workers(1).suspended())
    taken = builders.service("j")
    place = SERVICES.path(job_namespace.namespace)
    theirs = await job_namespace.admin.create(place, (taken.owned_by(other) if is_owned else taken).body())
    await job_namespace.submit(JOB)

    job = await job_namespace.wait("j", "Created", text="Service j was rejected")
    owner = "TFJob other" if is_owned else "nobody"
    assert f"its name is taken by one that belongs to {owner}" in job["status"]["conditions"][-1]["message"]
    await job_namespace.wait_event("FailedCreatePod", owner)
    assert await job_namespace.pods() == {}
    assert await job_namespace.admin.get(SERVICES.path(job_namespace.namespace, "j")) == theirs
    assert job_namespace.created_pods() == 0

    await job_namespace.admin.delete(SERVICES.path(job_namespace.namespace, "j"))
    await job_namespace.wait_pods("j-worker-0", "j-worker-1")
    await job_namespace.wait_services("j")


async def test_a_suspended_job_may_go_on_with_the_other_kind_of_services(job_namespace):
    await job_namespace.begin_running(JOB)
    await job_namespace.edit({"spec": {"serviceMode": None, "runPolicy": {"suspend": True}}})
    await job_namespace.wait_pods()
    await job_namespace.wait_services()

    await job_namespace.edit_policy(suspend=False)

    pods = await job_namespace.wait_pods("j-worker-0", "j-worker-1")
    await job_namespace.wait_services("j-worker-0", "j-worker-1")
    assert "subdomain" not in pods["j-worker-0"]["spec"]
    assert tf_config(pods["j-worker-0"])["cluster"]["worker"][1] == f"j-worker-1.{job_namespace.namespace}.svc:2222"
