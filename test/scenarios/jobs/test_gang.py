"""Gang scheduling: a PodGroup for each job, and pods when the whole gang may start."""

import pytest

from support.api import Api
from support.audit import Tally
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE, states
from support.jobs.templates import Template
from support.operators.operator_fixture import ONE_OPERATOR, QUICK, make_namespaces, make_operator_fixture
from support.pods.pod_groups import PLUGINS, VOLCANO, create_pod_group_crds
from support.pods.pod_status import Exit
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--gang-scheduler-name=volcano")
FOUND = ("--enable-gang-scheduling",)

prepare = create_pod_group_crds
TEMPLATE = Template().resources(requests={"cpu": "500m", "memory": "1Gi"})
JOB = builders.tfjob("j").workers(3, restart="OnFailure", template=TEMPLATE).parameter_servers(1, template=TEMPLATE)


async def test_pods_wait_until_the_gang_is_admitted(job_namespace):
    await job_namespace.submit(JOB.scheduling(queue="research", priority_class="high"))
    group = await _group(job_namespace)
    assert group["spec"] == {
        "minMember": 4,
        "minResources": {"cpu": "2", "memory": str(4 * 2**30)},
        "queue": "research",
        "priorityClassName": "high",
    }
    await _set_phase(job_namespace, "Pending")
    await job_namespace.quiet()
    assert await job_namespace.pods() == {}
    job = await job_namespace.wait("j", "Created", text="before the gang scheduler has admitted its PodGroup")
    assert "startTime" not in job["status"]

    await _set_phase(job_namespace, "Inqueue")
    pods = await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2")
    for pod in pods.values():
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j"
    assert pods["j-ps-0"]["metadata"]["annotations"]["volcano.sh/task-spec"] == "ps"


async def test_the_group_outlives_a_restart_and_goes_once_at_the_end(job_namespace):
    await job_namespace.submit(JOB.clean_pods("Running"))
    group = await _group(job_namespace)
    await _set_phase(job_namespace, "Running")
    await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2")
    await job_namespace.run("j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2")
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("j-worker-1", Exit(1)))
    await job_namespace.run("j-worker-1")
    await job_namespace.wait("j", "Running")
    assert (await _group(job_namespace))["metadata"]["uid"] == group["metadata"]["uid"]
    await job_namespace.succeed("j-worker-0")
    await job_namespace.wait("j", "Succeeded")
    await job_namespace.quiet()
    assert await job_namespace.admin.find(VOLCANO.path(job_namespace.namespace, "j")) is None
    tally = job_namespace.sent().tally()
    assert tally[Tally("delete", VOLCANO.qualified, 200)] == tally[Tally("create", VOLCANO.qualified, 201)] == 1
    assert not tally[Tally("patch", VOLCANO.qualified, 200)]


async def test_a_gang_is_made_whole_once_although_the_operator_is_killed_meanwhile(operator_fixture, job_namespace):
    await job_namespace.submit(builders.tfjob("j").workers(40))
    group = await _group(job_namespace)
    await _set_phase(job_namespace, "Inqueue")

    async def has_begun():
        return len(await job_namespace.pods()) >= 3

    await eventually(has_begun, within=PATIENCE, every=0.01)
    await operator_fixture.restart()
    await job_namespace.wait_pods(*(f"j-worker-{index}" for index in range(40)))
    await job_namespace.quiet()
    assert (await _group(job_namespace))["metadata"]["uid"] == group["metadata"]["uid"]
    tally = job_namespace.sent().tally()
    assert (tally[Tally("create", VOLCANO.qualified, 201)], tally[Tally("create", "pods", 201)]) == (1, 40)
    assert not tally[Tally("patch", VOLCANO.qualified, 200)]


async def test_the_group_follows_the_size_of_an_elastic_job_by_one_write_a_resize(job_namespace):
    await job_namespace.submit(builders.tfjob("j").workers(2).elastic(1, 4).dynamic_workers())
    await _group(job_namespace)
    await _set_phase(job_namespace, "Running")
    await job_namespace.wait_pods("j-worker-0", "j-worker-1")
    await job_namespace.run("j-worker-0", "j-worker-1")
    for count in (4, 3):
        await job_namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})
        await job_namespace.wait_pods(*(f"j-worker-{index}" for index in range(count)))
        await job_namespace.run("j-worker-2")
        await job_namespace.wait_counts("Worker", active=count if count == 3 else 3)
        await job_namespace.quiet()
        assert (await _group(job_namespace))["spec"]["minMember"] == count
    assert job_namespace.sent().tally()[Tally("patch", VOLCANO.qualified, 200)] == 2


async def test_the_coscheduling_plugin_gets_its_own_kind_of_group(control_plane):
    """Its scheduler holds pods back itself, so that they are made at once. It is found where none is named."""
    namespaces = await make_namespaces(control_plane, "coscheduling", 1)
    async with Api(control_plane.kubeconfig("admin")) as admin:
        await create_pod_group_crds(admin)
    async with make_operator_fixture(control_plane, namespaces=namespaces, arguments=FOUND) as operator_fixture:
        job_namespace = operator_fixture.job_namespace()
        await job_namespace.submit(JOB.scheduling(timeout=60).clean_pods("All"))
        pods = await job_namespace.wait_pods("j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2")
        group = await job_namespace.admin.get(PLUGINS.path(job_namespace.namespace, "j"))
        assert group["spec"]["minMember"] == 4
        assert group["spec"]["scheduleTimeoutSeconds"] == 60
        for pod in pods.values():
            assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "j"
            assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"
        await job_namespace.edit_policy(schedulingPolicy={"minAvailable": 2})

        async def has_followed():
            group = await job_namespace.admin.get(PLUGINS.path(job_namespace.namespace, "j"))
            return group["spec"]["minMember"] == 2

        assert await eventually(has_followed)
        await job_namespace.run(*pods)
        await job_namespace.succeed("j-worker-0")
        await job_namespace.wait("j", "Succeeded")
        await job_namespace.wait_pods()
        await job_namespace.quiet()
        assert await job_namespace.admin.find(PLUGINS.path(job_namespace.namespace, "j")) is None


async def test_the_coscheduling_plugin_takes_the_group_of_a_job_without_workers(control_plane):
    """Its CRD asks for at least one member: none yet, then two, then none for a while."""
    arguments = (QUICK, "--gang-scheduler-name=scheduler-plugins-scheduler")
    namespaces = await make_namespaces(control_plane, "nobody", 1)
    async with make_operator_fixture(control_plane, namespaces=namespaces, arguments=arguments) as operator_fixture:
        job_namespace = operator_fixture.job_namespace()
        await job_namespace.submit(builders.tfjob("j").workers(0).dynamic_workers())
        for count in (0, 2, 0, 1):
            await job_namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})
            await job_namespace.wait_pods(*(f"j-worker-{index}" for index in range(count)))
            await job_namespace.quiet()
            group = await job_namespace.admin.get(PLUGINS.path(job_namespace.namespace, "j"))
            assert group["spec"]["minMember"] == max(count, 1)
            assert states(await job_namespace.job()) == ["Created"]


async def test_a_job_chooses_among_the_gang_schedulers_that_its_operator_offers(control_plane):
    """Their PodGroups are listed when the first job asks for them, and not before."""
    asks = {scheduler: _asking(scheduler) for scheduler in ("volcano", "kueue-of-mine", "none")}
    arguments = (QUICK, "--gang-scheduler-name=plugins", "--gang-schedulers-by-job=volcano")
    namespaces = await make_namespaces(control_plane, "choice", 1)
    async with Api(control_plane.kubeconfig("admin")) as admin:
        await create_pod_group_crds(admin)
    async with make_operator_fixture(control_plane, namespaces=namespaces, arguments=arguments) as operator_fixture:
        job_namespace = operator_fixture.job_namespace()
        await job_namespace.submit(asks["none"])
        await job_namespace.wait_pods("none-worker-0")
        await job_namespace.submit(asks["kueue-of-mine"])
        await job_namespace.wait("kueue-of-mine", "Created", text="kueue-of-mine is not installed: plugins places")
        await job_namespace.wait_pods("none-worker-0", "kueue-of-mine-worker-0")
        assert await job_namespace.admin.find(PLUGINS.path(job_namespace.namespace, "none")) is None
        assert await job_namespace.admin.get(PLUGINS.path(job_namespace.namespace, "kueue-of-mine"))
        assert not [call for call in job_namespace.sent().tally() if call.resource == VOLCANO.qualified]

        await job_namespace.submit(asks["volcano"])
        assert await _group(job_namespace, name="volcano")
        await _set_phase(job_namespace, "Inqueue", name="volcano")
        pods = await job_namespace.wait_pods("none-worker-0", "kueue-of-mine-worker-0", "volcano-worker-0")
        assert pods["volcano-worker-0"]["spec"]["schedulerName"] == "volcano"


@pytest.mark.parametrize("own_control_plane", [{"audit"}], indirect=True)
async def test_a_missing_crd_is_told_and_waited_for(own_control_plane):
    plane = own_control_plane
    namespaces = await make_namespaces(plane, "missing", 1)
    async with make_operator_fixture(plane, namespaces=namespaces, arguments=ARGUMENTS) as operator_fixture:
        job_namespace = operator_fixture.job_namespace()
        await job_namespace.submit(builders.tfjob("j").workers(1))
        await job_namespace.submit(builders.tfjob("k").workers(1).suspended())
        await job_namespace.wait("k", "Suspended")
        await job_namespace.wait("j", "Created", text="is the CRD of the gang scheduler installed?")
        assert await job_namespace.pods() == {}
        await create_pod_group_crds(operator_fixture.admin)
        assert await _group(job_namespace, within=60)
        await _set_phase(job_namespace, "Inqueue")
        await job_namespace.wait_pods("j-worker-0", within=60)  # a kind that is missing is looked for every 30 s


def _asking(scheduler):
    """A job that is called like the gang scheduler that it asks for."""
    annotations = {"tf-operator.kubeflow.org/gang-scheduler": scheduler}
    return builders.tfjob(scheduler).workers(1).annotations(annotations)


async def _group(job_namespace, *, name="j", within=PATIENCE):
    async def check():
        group = await job_namespace.admin.find(VOLCANO.path(job_namespace.namespace, name))
        assert group is not None, "there is no PodGroup"
        return group

    return await eventually(check, within=within)


async def _set_phase(job_namespace, phase, *, name="j"):
    await job_namespace.admin.patch(VOLCANO.path(job_namespace.namespace, name, "status"), {"status": {"phase": phase}})
