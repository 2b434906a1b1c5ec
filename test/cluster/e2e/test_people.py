"""Who may do what: an ordinary user, and two tenants with quotas of their own."""

import pytest

from support.jobs.real_namespace import small_job
from support.partners.kubectl import KubectlError


@pytest.fixture
def users(new_namespace):
    """A namespace where the user alice has the role edit, and one where she has none."""
    hers, others = new_namespace("-hers"), new_namespace("-others")
    hers.kubectl.run("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    return hers, others


async def test_a_user_with_the_role_edit_runs_jobs_in_her_namespace_and_in_no_other(operator, users, counts):
    hers, others = users
    alice = hers.kubectl.as_user("alice")

    alice.create(small_job("j", counts))
    await hers.wait_state("j", "Succeeded", within=90)
    assert alice.run("get", "tfjobs", "--output=name") == "tfjob.kubeflow.org/j\n"
    assert alice.logs("j-worker-0") == "done\n"
    # What the operator says of a job is not hers to change.
    with pytest.raises(KubectlError, match=r'"tfjobs/status" in API group'):
        alice.run("patch", "tfjob", "j", "--subresource=status", "--type=merge", "--patch={}")
    alice.run("delete", "tfjob", "j")

    for denied in (("get", "tfjobs"), ("auth", "can-i", "create", "tfjobs", "--quiet")):
        with pytest.raises(KubectlError):
            others.kubectl.as_user("alice").run(*denied)
    with pytest.raises(KubectlError, match=r'User "alice" cannot create resource "tfjobs"'):
        others.kubectl.as_user("alice").create(small_job("j", counts))


async def test_a_tenant_at_its_quota_waits_and_holds_nobody_up(operator, new_namespace, counts, sleeps):
    small, large = new_namespace("-small"), new_namespace("-large")
    small.kubectl.run("create", "quota", "pods", "--hard=pods=1")
    large.kubectl.run("create", "quota", "pods", "--hard=pods=4")

    small.kubectl.create(small_job("j", sleeps, workers=2))
    message = await small.wait_condition_message("j", "exceeded quota")
    large.kubectl.create(small_job("j", counts, workers=4))
    await large.wait_state("j", "Succeeded", within=90)

    assert "limited: pods=1" in message
    assert small.state("j") not in {"Succeeded", "Failed"}
    small.kubectl.patch("resourcequota", "pods", {"spec": {"hard": {"pods": "2"}}})
    await small.wait_pods("j", only={"worker-0", "worker-1"}, phase="Running")
    small.end("j", "worker-0")
    small.end("j", "worker-1")
    await small.wait_state("j", "Succeeded", within=60)
