"""One kind of child more than this tree has, in an operator as a process."""

import asyncio
import os
import sys

import pytest

from lab.control_plane.access import OPERATOR
from support.api import Api
from support.crds import create_crd
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE, JobNamespace
from support.operators.operator_process import operator
from support.pods.kubelet import Kubelet
from support.resources import CRDS, Resource
from support.settle import eventually
from support.toys import toy_child

REMINDERS = Resource(toy_child.RESOURCE.group, toy_child.RESOURCE.version, toy_child.RESOURCE.plural)


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own: its test removes a CRD."""
    with fresh_plane() as plane:
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "toys"}}
        plane.grant({**kind, "rules": [{"apiGroups": [REMINDERS.group], "resources": ["*"], "verbs": ["*"]}]})
        account, role = {"kind": "User", "name": OPERATOR.login}, {"kind": "ClusterRole", "name": "toys"}
        group = {"apiGroup": "rbac.authorization.k8s.io"}
        plane.grant({**kind, "kind": "ClusterRoleBinding", "roleRef": role | group, "subjects": [account | group]})
        yield plane


async def test_it_is_made_changed_refused_and_deleted_and_where_it_is_not_served_the_job_says_so(control_plane):
    namespace = await asyncio.to_thread(control_plane.make_namespace, "child")
    async with Api(control_plane.kubeconfig("admin")) as admin, Api(control_plane.kubeconfig("kubelet")) as nodes:
        await create_crd(admin, toy_child.crd())
        async with operator(
            control_plane,
            namespaces=[namespace],
            module="support.toys.toy_child",
            environment={"PYTHONPATH": os.pathsep.join(sys.path)},
        ):
            here = JobNamespace(control_plane, admin, Kubelet(nodes, namespace), namespace)

            async def reminds(**spec):
                async def check():
                    body = await admin.find(REMINDERS.path(namespace, "j"))
                    assert (body["spec"] if body else {}) == spec
                    return True

                assert await eventually(check, within=PATIENCE)

            await here.begin_running(builders.tfjob("j").workers(1).ttl(600))
            await reminds(of="j", seconds=600)
            await here.edit_policy(ttlSecondsAfterFinished=700)
            await reminds(of="j", seconds=700)
            await here.edit_policy(ttlSecondsAfterFinished=7200)
            await here.wait("j", "Running", text=" The Reminder is outdated: ")
            await here.edit_policy(suspend=True)
            await reminds()

            await admin.delete(CRDS.path(name=str(toy_child.RESOURCE)))
            await here.edit_policy(suspend=False)
            await here.wait_pods("j-worker-0")
            await here.run("j-worker-0")
            await here.wait("j", "Running", text=" There is no Reminder: reminders.toys.example.org cannot be read")
