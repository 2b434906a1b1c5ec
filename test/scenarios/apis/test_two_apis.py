"""One operator for two APIs: kubeflow.org/v1, and one of another shape that may be installed later or removed."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab.control_plane.access import OPERATOR
from support.api import Api
from support.crds import create_crd
from support.jobs import builders
from support.jobs.job_namespace import JobNamespace
from support.operators.operator_process import OperatorProcess, operator
from support.pods.kubelet import Kubelet
from support.resources import CRDS, EVENTS, TFJOBS, Resource
from support.settle import eventually
from support.toys import toy_api

CRD = Path(__file__).resolve().parents[3] / "manifests/crd/tfjobs.yaml"
TOYS = Resource("toys.example.org", "v1", "trainings")
WITH_SUPPORT = {"PYTHONPATH": os.pathsep.join(sys.path)}
BOTH = ("--leader-elect", "--enable-scheme=tfjob", "--enable-scheme=training")
ROLES = [{"role": "helper", "count": 2, "image": "train:1"}, {"role": "boss", "image": "lead:1"}]


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own: its tests install and remove CRDs."""
    with fresh_plane() as plane:
        rules = [{"apiGroups": [TOYS.group], "resources": ["*"], "verbs": ["*"]}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "toys"}}
        account = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": OPERATOR.login}
        to = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "toys"}
        plane.grant({**role, "kind": "ClusterRole", "rules": rules})
        plane.grant({**role, "kind": "ClusterRoleBinding", "roleRef": to, "subjects": [account]})
        yield plane


@dataclass(frozen=True)
class Both(JobNamespace):
    """A namespace with TFJobs and Trainings, and the operator of both."""

    process: OperatorProcess

    async def submit_toy(self, name):
        """Create a Training."""
        body = {"apiVersion": TOYS.api_version, "kind": "Training", "metadata": {"name": name}}
        return await self.admin.create(TOYS.path(self.namespace), {**body, "spec": {"roles": ROLES}})

    async def wait_toy(self, name, phase):
        """Wait until a Training is in a phase; the Training."""

        async def check():
            training = await self.admin.get(TOYS.path(self.namespace, name))
            assert training.get("status", {}).get("phase") == phase, f"{training.get('status')}"
            return training

        return await eventually(check, within=60)

    async def wait_children(self, *names, of):
        """Wait until there are these pods, and they are this job's."""

        async def check():
            owners = {name: pod["metadata"]["ownerReferences"][0]["uid"] for name, pod in (await self.pods()).items()}
            assert {name for name, uid in owners.items() if uid == of["metadata"]["uid"]} == set(names), f"{owners}"
            return True

        assert await eventually(check, within=60)  # a kind that is missing is looked for every 30 s


@asynccontextmanager
async def both(plane, name):
    namespace = await asyncio.to_thread(plane.make_namespace, name)
    async with (
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
        operator(
            plane, namespaces=[namespace], arguments=BOTH, module="support.operators.two_apis", environment=WITH_SUPPORT
        ) as process,
    ):
        yield Both(plane, admin, Kubelet(nodes, namespace), namespace, process)


async def remove(admin, crd, resource):
    """Remove a CRD, and wait until its resource is not served any more."""
    await admin.delete(CRDS.path(name=crd))

    async def check():
        assert await admin.find(resource.path("default")) is None
        return True

    assert await eventually(check, within=30)


async def test_a_kind_that_is_installed_later_is_served_beside_the_one_that_was_there(control_plane):
    async with both(control_plane, "later") as here:
        await here.begin_running(builders.tfjob("a").workers(1))
        await create_crd(here.admin, toy_api.API.crd.load())
        await here.submit_toy("b")
        await here.wait_pods("a-worker-0", "b-chief-0", "b-worker-0", "b-worker-1", within=60)
        await here.run("b-chief-0", "b-worker-0", "b-worker-1")
        await here.wait_toy("b", "running")
        await here.succeed("a-worker-0", "b-chief-0")

        await here.wait("a", "Succeeded")
        await here.wait_toy("b", "succeeded")
        ended = here.process.records_of("the watch ended; trying again")
        causes = [record["cause"] for record in ended if record["resource"] == str(toy_api.RESOURCE)]
        # Some minors of Kubernetes stream no lists, and say so at the first; and some that the storage is not ready.
        assert [cause for cause in causes if cause not in {"Invalid", "Throttled"}] == ["NotFound"]


async def test_jobs_of_one_name_in_two_kinds_never_touch_each_others_children(control_plane):
    """The later one waits for the names that it shares with the first, says so, and selects none of its pods."""
    async with both(control_plane, "names") as here:
        await create_crd(here.admin, toy_api.API.crd.load())
        tfjob = await here.begin_running(builders.tfjob("j").workers(1))
        uids = await here.uids()
        toy = await here.submit_toy("j")
        await here.wait_children("j-chief-0", "j-worker-1", of=toy)

        async def is_reported():
            events = await here.admin.list(EVENTS.path(here.namespace))
            refusals = [event for event in events if event["involvedObject"]["kind"] == "Training"]
            assert any("j-worker-0" in event["message"] for event in refusals), f"{[e['message'] for e in refusals]}"
            return True

        assert await eventually(is_reported, within=30)
        assert (await here.uids())["j-worker-0"] == uids["j-worker-0"]

        await here.delete_job("j")
        await here.admin.delete(f"/api/v1/namespaces/{here.namespace}/services/j-worker-0")
        await here.delete_pod("j-worker-0")
        await here.wait_children("j-chief-0", "j-worker-0", "j-worker-1", of=toy)
        await here.wait_children(of=tfjob)
        await here.run("j-chief-0", "j-worker-0", "j-worker-1")
        await here.succeed("j-chief-0")
        await here.wait_toy("j", "succeeded")


async def test_a_kind_that_is_removed_ends_no_work_but_its_own_and_may_come_back(control_plane):
    async with both(control_plane, "removed") as here:
        await create_crd(here.admin, toy_api.API.crd.load())
        await here.begin_running(builders.tfjob("a").workers(1))
        await here.submit_toy("b")
        await here.wait_pods("a-worker-0", "b-chief-0", "b-worker-0", "b-worker-1", within=60)
        await remove(here.admin, "tfjobs.kubeflow.org", TFJOBS)
        await here.run("b-chief-0", "b-worker-0", "b-worker-1")
        await here.succeed("b-chief-0")
        await here.wait_toy("b", "succeeded")

        await create_crd(here.admin, yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader))
        await here.submit(builders.tfjob("c").workers(1))
        await here.wait_pods("a-worker-0", "b-chief-0", "b-worker-0", "b-worker-1", "c-worker-0", within=60)
