"""Creates that the apiserver refuses: quotas, policies, impossible templates."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from support.audit import Tally
from support.disturbances.denials import dead_webhook, denied_pods
from support.jobs import builders
from support.jobs.job_namespace import moment, states
from support.jobs.templates import Template
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.resources import TFJOBS, Resource
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)

QUOTAS = Resource("", "v1", "resourcequotas")


@pytest.mark.real_server("admission policies")
async def test_a_refusal_is_told_and_tried_again_later_each_time(job_namespace):
    label = {"refused": job_namespace.namespace}
    async with denied_pods(job_namespace.admin, label, "no room for this team") as denial:
        job = builders.tfjob("j").workers(2, template=Template().labels(label)).parameter_servers(1)
        await job_namespace.submit(job)
        created_job = await job_namespace.wait("j", "Created", text="no room for this team")
        assert states(created_job) == ["Created"]
        await eventually(lambda: len(_attempts(job_namespace)) >= 3, within=30)
        gaps = [later - earlier for earlier, later in pairwise(_attempts(job_namespace)[:3])]
        for gap, least in zip(gaps, (1, 2), strict=True):
            assert gap >= timedelta(seconds=0.9 * least), gaps
        assert (await job_namespace.wait_event("FailedCreatePod", "no room for this team"))["type"] == "Warning"
        assert len(await job_namespace.events("FailedCreatePod")) == 1
        await denial.end()
        # The next attempt comes 4 s after the third one.
        await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1", within=20)
    await job_namespace.run("j-ps-0", "j-worker-0", "j-worker-1")
    running_job = await job_namespace.wait("j", "Running")
    assert not [entry for entry in running_job["status"]["conditions"] if "no room" in entry["message"]]


@pytest.mark.real_server("admission webhooks")
async def test_a_webhook_that_nobody_answers_is_told_and_waited_for(job_namespace):
    """A 500 in the apiserver's eyes, and for the job's owner the reason why there are no pods."""
    async with dead_webhook(job_namespace.admin, job_namespace.namespace):
        await job_namespace.submit(builders.tfjob("j").workers(2))
        job = await job_namespace.wait("j", "Created", text='failed calling webhook "dead.test.example"')
        assert states(job) == ["Created"]
        assert (await job_namespace.wait_event("FailedCreatePod", "failed calling webhook"))["type"] == "Warning"
    await job_namespace.wait_pods("j-worker-0", "j-worker-1", within=60)
    await job_namespace.run("j-worker-0", "j-worker-1")
    job = await job_namespace.wait("j", "Running")
    assert not [entry for entry in job["status"]["conditions"] if "webhook" in entry["message"]]


@pytest.mark.real_server("nobody writes the status of a quota")
async def test_a_quota_that_is_raised_lets_the_job_go_on(job_namespace):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    await job_namespace.admin.create(QUOTAS.path(job_namespace.namespace), quota)
    await eventually(lambda: _is_counted(job_namespace), within=30)
    await job_namespace.submit(builders.tfjob("j").workers(3))
    await job_namespace.wait("j", "Created", text="exceeded quota")
    await job_namespace.wait_pods("j-worker-0")
    await job_namespace.admin.patch(QUOTAS.path(job_namespace.namespace, "small"), {"spec": {"hard": {"pods": "5"}}})
    await job_namespace.wait_pods("j-worker-0", "j-worker-1", "j-worker-2", within=60)


async def test_a_template_that_is_impossible_fails_the_job_with_the_servers_words(job_namespace):
    template = Template().spec(nodeSelector={"pool": "not a label!"})
    await job_namespace.submit(builders.tfjob("j").workers(2, template=template))
    await job_namespace.wait("j", "Failed", text="not a label!")
    await job_namespace.quiet(1.5)
    assert job_namespace.sent().tally()[Tally("create", "pods", 422)] == 1
    assert await job_namespace.pods() == {}


async def test_a_namespace_that_is_terminating_is_left_alone(job_namespace):
    """At most one attempt a minute, and nothing that would keep the namespace."""
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="OnFailure").clean_pods("All"))
    body = {"metadata": {"finalizers": ["test.tf-operator/hold"]}}
    await job_namespace.admin.patch(TFJOBS.path(job_namespace.namespace, "j"), body)
    await job_namespace.admin.delete(f"/api/v1/namespaces/{job_namespace.namespace}")
    await job_namespace.wait_pods(within=60)
    mark = job_namespace.mark()
    await job_namespace.quiet(3.0)
    creates = [entry for entry in job_namespace.sent(mark) if entry.verb == "create" and entry.resource != "events"]
    assert len(creates) <= 1, job_namespace.sent(mark).writes().tally()
    await job_namespace.admin.patch(TFJOBS.path(job_namespace.namespace, "j"), {"metadata": {"finalizers": None}})
    await job_namespace.wait_job_gone(within=60)


def _attempts(job_namespace):
    """When pods were refused; those of one batch are one attempt."""
    moments = [moment(entry.at) for entry in job_namespace.sent() if entry.tally == ("create", "pods", 422)]
    first = [datetime.min.replace(tzinfo=UTC), *moments]
    return [later for earlier, later in pairwise(first) if later - earlier > timedelta(seconds=0.5)]


async def _is_counted(job_namespace):
    quota = await job_namespace.admin.get(QUOTAS.path(job_namespace.namespace, "small"))
    return quota.get("status", {}).get("used", {})
