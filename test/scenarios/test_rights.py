"""The rights of the operator: every one that is granted is used, and every one that is used is granted.

What was used is in the apiserver's audit log of the session: all that the operators of all tests on this plane have
asked for up to now. The tour below does what is needed for each right once, so that the answer does not depend on
which tests have run before, or on which worker. That nobody was ever refused for want of a right is checked at the end
of every module (``support/invariants.py``).
"""

from pathlib import Path

import pytest
import yaml

from lab.control_plane.access import OPERATOR
from support.api import Api
from support.audit import AuditLog
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import create, opening
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.operators.operator_fixture import make_namespaces, make_operator_fixture
from support.operators.operator_process import operator
from support.pods.pod_groups import PLUGINS, VOLCANO, create_pod_group_crds
from support.resources import EVENTS, LEASES, PODS, SERVICES
from support.settle import eventually

RBAC = Path(__file__).resolve().parents[2] / "manifests" / "rbac"

UNSEEN = {("update", "tfjobs.kubeflow.org/finalizers")}
"""An admission plugin, which the planes have on, asks for it when a child is created; no audit log shows that."""


@pytest.mark.real_server("RBAC")
async def test_every_right_is_used_and_nothing_else(control_plane, tmp_path):
    """The audit log of the session, compared with the roles."""
    await _tour(control_plane, tmp_path)
    used = set(_used(control_plane))
    granted = {*_granted("cluster-role"), *_granted("role-leader-election")}
    # Operators of other kinds, which have roles of their own, may have been on the plane before.
    of_others = {
        right for path in RBAC.glob("*/cluster-role.yaml") for right in _granted(f"{path.parent.name}/cluster-role")
    }
    assert used - granted - of_others == set(), "used, but granted by another role than ours"
    assert granted - UNSEEN - used == set(), "granted, and never used"


async def _tour(plane, folder):
    """Use every right, with either kind of PodGroup."""
    await _tour_of_a_leader(plane)
    async with Api(plane.kubeconfig("admin")) as admin:
        await create_pod_group_crds(admin)
    for resource, scheduler in ((VOLCANO, "volcano"), (PLUGINS, "other")):
        namespaces = await make_namespaces(plane, "tour", 1)
        arguments = (f"--gang-scheduler-name={scheduler}",)
        with FaultProxy(plane.kubeconfig("operator")) as proxy:
            # As on an apiserver that streams no pictures: they are listed.
            proxy.on(opening("*", path="*sendInitialEvents*"), do=faults.fail(422, message="not here"))
            # Nobody knows whether this pod was made: the job and its children are read live.
            proxy.on(create("pods", name="k-worker-0"), do=faults.lose_reply(), nth=1)
            kubeconfig = proxy.kubeconfig(folder / scheduler)
            async with make_operator_fixture(
                plane, namespaces=namespaces, arguments=arguments, kubeconfig=kubeconfig
            ) as operator_fixture:
                job_namespace = operator_fixture.job_namespace()
                await _trouble(job_namespace, resource)
                await _life(job_namespace, resource)


async def _tour_of_a_leader(plane):
    """Take the Lease, renew it, give it back."""
    lease = LEASES.path("tf-operator", "tf-operator")
    [namespace] = await make_namespaces(plane, "leader", 1)
    arguments = (
        "--leader-election-lease-duration=6s",
        "--leader-election-renew-deadline=4s",
        "--leader-election-retry-period=500ms",
    )
    async with operator(plane, namespaces=[namespace], arguments=arguments):
        first = plane.admin.get(lease)["spec"]["renewTime"]
        await eventually(lambda: plane.admin.get(lease)["spec"]["renewTime"] != first)


async def _trouble(job_namespace, groups):
    """A job whose names are all taken, which has it ask by whom; and that is suspended twice: the event is counted."""
    foreign = {
        PODS.path(job_namespace.namespace): builders.pod("j-worker-0").body(),
        SERVICES.path(job_namespace.namespace): builders.service("j-worker-0").body(),
        groups.path(job_namespace.namespace): {
            "apiVersion": groups.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "j"},
        },
    }
    for path, body in foreign.items():
        await job_namespace.admin.create(path, body)
    await job_namespace.submit(builders.tfjob("j").workers(1))
    for child, path in (
        ("PodGroup", groups.path(job_namespace.namespace, "j")),
        ("Service j-worker-0", SERVICES.path(job_namespace.namespace, "j-worker-0")),
        ("pod j-worker-0", PODS.path(job_namespace.namespace, "j-worker-0")),
    ):
        await job_namespace.wait("j", "Created", text=f"{child} was rejected")
        await job_namespace.admin.delete(path)
        if child == "PodGroup":
            await _admit(job_namespace, groups, "j")
    await job_namespace.wait_pods("j-worker-0")
    await _slow_start(job_namespace)
    for _ in range(2):
        await job_namespace.edit_policy(suspend=True)
        await job_namespace.wait("j", "Suspended")
        await job_namespace.wait_pods()
        await eventually(lambda: _is_gone(job_namespace, groups.path(job_namespace.namespace, "j")))
        await job_namespace.edit_policy(suspend=False)
        await _admit(job_namespace, groups, "j")
        await job_namespace.wait_pods("j-worker-0")


async def _slow_start(job_namespace):
    """A pod that its node has prepared for long: only its events say why."""
    pod = (await job_namespace.pods())["j-worker-0"]
    about = {"kind": "Pod", "name": "j-worker-0", "namespace": job_namespace.namespace, "uid": pod["metadata"]["uid"]}
    body = {"metadata": {"name": "mount"}, "involvedObject": about, "type": "Warning", "reason": "FailedMount"}
    await job_namespace.admin.create(
        EVENTS.path(job_namespace.namespace), body | {"message": 'configmap "c" not found'}
    )
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    waiting = {"name": "tensorflow", "state": {"waiting": {"reason": "ContainerCreating"}}, "image": "", "imageID": ""}
    waiting |= {"ready": False, "restartCount": 0}
    status = {"phase": "Pending", "conditions": [scheduled], "containerStatuses": [waiting]}
    await job_namespace.admin.patch(PODS.path(job_namespace.namespace, "j-worker-0", "status"), {"status": status})
    await job_namespace.wait("j", "Created", text='ContainerCreating (FailedMount: configmap "c" not found)')


async def _life(job_namespace, groups):
    """A job whose size changes, and that is removed by its time to live."""
    await job_namespace.delete_job("j")
    await job_namespace.wait_pods()
    job = builders.tfjob("k").workers(2).parameter_servers(1).dynamic_workers().clean_pods("Running").ttl(0)
    await job_namespace.submit(job)
    await _admit(job_namespace, groups, "k")
    await job_namespace.wait_pods("k-ps-0", "k-worker-0", "k-worker-1")
    await job_namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}, "k")
    await job_namespace.wait_pods("k-ps-0", "k-worker-0")
    await job_namespace.run("k-ps-0", "k-worker-0")
    await job_namespace.wait("k", "Running")
    await job_namespace.succeed("k-worker-0")
    await job_namespace.wait_job_gone("k")
    await job_namespace.wait_pods()


async def _is_gone(job_namespace, path):
    return await job_namespace.admin.find(path) is None


async def _admit(job_namespace, groups, job):
    """Have the gang scheduler admit a job."""

    async def check():
        group = await job_namespace.admin.find(groups.path(job_namespace.namespace, job))
        assert group is not None
        assert "ownerReferences" in group["metadata"]
        return group

    assert await eventually(check, within=PATIENCE)
    await job_namespace.admin.patch(
        groups.path(job_namespace.namespace, job, "status"), {"status": {"phase": "Inqueue"}}
    )


def _used(plane):
    """What was asked for, and allowed."""
    for entry in AuditLog(plane.audit_log).since().by(user=OPERATOR.login, user_agent="tf-operator"):
        if entry.decision == "allow" and entry.resource:
            yield entry.verb, entry.resource


def _granted(role):
    for rule in _rules(role):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                whole, _, subresource = resource.partition("/")
                name = f"{whole}.{group}" if group else whole
                for verb in rule["verbs"]:
                    yield verb, f"{name}/{subresource}" if subresource else name


def _rules(role):
    return yaml.safe_load((RBAC / f"{role}.yaml").read_text())["rules"]
