"""Jobs whose pods only their own pods may reach. Nothing enforces it here; a network is worked out."""

from pathlib import Path

from support.crds import apply_rights
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.jobs.templates import Template
from support.network_policies import lets_in
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.resources import Resource
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--network-policies=requested")
RIGHTS = Path(__file__).resolve().parents[3] / "manifests/rbac/network-policies"
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
JOB = builders.tfjob("j").chief(restart="ExitCode").workers(2, restart="ExitCode").evaluators().network_policy("Job")

OF_JOB = ("j-chief-0", "j-evaluator-0", "j-worker-0", "j-worker-1")


async def prepare(admin):
    await apply_rights(admin, RIGHTS.glob("c*.yaml"))


async def wait_policies(job_namespace, *names):
    policies = []

    async def check():
        policies[:] = await job_namespace.admin.list(POLICIES.path(job_namespace.namespace))
        assert sorted(policy["metadata"]["name"] for policy in policies) == sorted(names)
        return True

    await eventually(check, within=PATIENCE)
    return policies


async def test_its_policy_comes_before_its_pods_and_lets_in_only_them(job_namespace):
    await job_namespace.begin_running(JOB)
    other = Template().labels({"training.kubeflow.org/job-name": "j"})
    await job_namespace.submit(builders.tfjob("k").workers(1, template=other))
    pods = await job_namespace.wait_pods(*OF_JOB, "k-worker-0")
    policies = await wait_policies(job_namespace, "j")
    own = {name: pods[name] for name in OF_JOB}
    notebook = {"metadata": {"namespace": job_namespace.namespace, "labels": {"app": "notebook"}}}
    abroad = {"metadata": {"namespace": "other", "labels": own["j-chief-0"]["metadata"]["labels"]}}

    assert all(lets_in(policies, pod, peer) for pod in own.values() for peer in own.values())
    outsiders = (pods["k-worker-0"], notebook, abroad)
    assert not any(lets_in(policies, pod, peer) for pod in own.values() for peer in outsiders)
    assert all(lets_in(policies, pods["k-worker-0"], peer) for peer in (*own.values(), *outsiders))
    resources = [request.resource for request in job_namespace.sent().writes() if request.verb == "create"]
    assert resources.index("networkpolicies.networking.k8s.io") < resources.index("pods")


async def test_a_policy_of_another_owner_stays_and_the_job_waits_and_says_so(job_namespace):
    path = POLICIES.path(job_namespace.namespace)
    theirs = {"metadata": {"name": "j"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    theirs = await job_namespace.admin.create(path, theirs)

    await job_namespace.submit(JOB)
    await job_namespace.wait("j", "Created", text="its name is taken by one that belongs to nobody")
    await job_namespace.wait_event("FailedCreatePod", "its NetworkPolicy was rejected")
    assert await job_namespace.pods() == {}
    (policy,) = await wait_policies(job_namespace, "j")
    assert policy["metadata"] == theirs["metadata"]

    await job_namespace.admin.delete(f"{path}/j")
    await job_namespace.wait_pods(*OF_JOB)


async def test_it_is_created_again_goes_and_comes_with_an_edit_and_stays_after_the_end(job_namespace):
    await job_namespace.begin_running(JOB)
    uids = await job_namespace.uids()
    (policy,) = await wait_policies(job_namespace, "j")
    await job_namespace.admin.delete(POLICIES.path(job_namespace.namespace, "j"))

    async def is_another():
        (another,) = await wait_policies(job_namespace, "j")
        assert another["metadata"]["uid"] != policy["metadata"]["uid"]
        assert another["spec"] == policy["spec"]
        return True

    await eventually(is_another, within=PATIENCE)
    await job_namespace.edit({"spec": {"networkPolicy": "None"}})
    await wait_policies(job_namespace)
    await job_namespace.edit({"spec": {"networkPolicy": "Job"}})
    await wait_policies(job_namespace, "j")
    assert await job_namespace.uids() == uids

    await job_namespace.succeed("j-chief-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.quiet()
    await wait_policies(job_namespace, "j")
