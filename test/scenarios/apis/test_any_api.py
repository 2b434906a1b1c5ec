"""What every served API has in common: a job lives by the profile of its API, whatever its values are."""

import asyncio
import os
import sys
from dataclasses import dataclass

import pytest

from lab.control_plane.access import OPERATOR
from support.api import Api
from support.jobs import builders
from support.jobs.job_namespace import JobNamespace
from support.operators.operator_process import operator
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit
from support.resources import Resource
from support.settle import eventually
from support.toys import toy_api
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.profile import AfterEnd, FailureScope, NameStyle
from tf_operator.job.record import JobPhase, ReplicaType
from tf_operator.job.training_job import CleanPodPolicy

MADE_UP = (toy_api.API, toy_api.PLAY_API)
BOSS, HELPER = (ReplicaType.CHIEF, 0), (ReplicaType.WORKER, 1)
ROLES = [{"role": "helper", "count": 2, "image": "train:1"}, {"role": "boss", "image": "lead:1"}]
ARGUMENTS = ("--leader-elect=false", "--restart-delay-base=100ms")
TFJOB = builders.tfjob("j").chief(restart="ExitCode").workers(2, restart="ExitCode").body()


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own, with the kinds of the made-up APIs."""
    with fresh_plane() as plane:
        groups = [{"apiGroups": [toy_api.RESOURCE.group], "resources": ["*"], "verbs": ["*"]}]
        rules = [*groups, {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "made-up"}}
        account = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": OPERATOR.login}
        to = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "made-up"}
        plane.grant({**role, "kind": "ClusterRole", "rules": rules})
        plane.grant({**role, "kind": "ClusterRoleBinding", "roleRef": to, "subjects": [account]})
        for api in MADE_UP:
            plane.admin.apply(api.crd.load())
        yield plane


@dataclass(frozen=True)
class Life(JobNamespace):
    """One job of an API, read as planning reads it."""

    api: ServedAPI

    @property
    def jobs(self):
        return Resource(self.api.resource.group, self.api.resource.version, self.api.resource.plural)

    async def begin(self):
        kind = {"apiVersion": self.api.resource.api_version, "kind": self.api.resource.kind}
        body = TFJOB if self.api is v1.API else {**kind, "metadata": {"name": "j"}, "spec": {"roles": ROLES}}
        await self.admin.create(self.jobs.path(self.namespace), body)

    async def read(self):
        return self.api.read_object(await self.admin.get(self.jobs.path(self.namespace, "j")))

    async def wait_record(self, is_so):
        async def check():
            job = await self.read()
            assert is_so(job.record), f"{job.record}"
            return job

        return await eventually(check, within=40)

    async def pod(self, replica, *, after=None):
        """Wait for the one pod of a replica, which is not that one; it runs."""

        async def check():
            pods = [
                pod
                for name, pod in (await self.pods()).items()
                if naming.replica_of("j", name, self.api.profile.names) == replica
            ]
            uids = [pod["metadata"]["uid"] for pod in pods]
            assert (len(uids), after in uids) == (1, False), f"{sorted(await self.pods())}"
            return pods[0]["metadata"]

        metadata = await eventually(check, within=40)
        await self.kubelet.run(metadata["name"])
        return metadata


@pytest.mark.parametrize("api", [v1.API, *MADE_UP], ids=lambda api: api.resource.kind.lower())
async def test_names_restarts_failures_and_clean_up_follow_the_profile(control_plane, api):
    profile, namespace = api.profile, await asyncio.to_thread(control_plane.make_namespace, api.resource.kind.lower())
    async with (
        Api(control_plane.kubeconfig("admin")) as admin,
        Api(control_plane.kubeconfig("kubelet")) as nodes,
        operator(
            control_plane,
            namespaces=[namespace],
            arguments=(*ARGUMENTS, f"--enable-scheme={api.resource.kind.lower()}.{api.resource.group}"),
            module="support.operators.two_apis",
            environment={"PYTHONPATH": os.pathsep.join(sys.path)},
        ),
    ):
        here = Life(control_plane, admin, Kubelet(nodes, namespace), namespace, api)
        await here.begin()
        boss, first = await here.pod(BOSS), await here.pod(HELPER)
        job = await here.wait_record(lambda record: record.phase is JobPhase.RUNNING)
        assert naming.service_name(job, *HELPER) in await here.services()

        await here.kubelet.fail(first["name"], Exit(min(profile.exit_codes.retryable)))
        second = await here.pod(HELPER, after=first["uid"])
        assert (second["name"] != first["name"]) is (profile.names is NameStyle.GENERATED)

        await here.kubelet.fail(second["name"], Exit(1))
        goes_on = profile.failure_scope is FailureScope.DECIDING
        if goes_on:
            left = await here.pod(HELPER, after=second["uid"])
            await here.kubelet.succeed(boss["name"])
        ended = await here.wait_record(lambda record: record.is_finished)
        assert ended.record.phase is (JobPhase.SUCCEEDED if goes_on else JobPhase.FAILED)

        if goes_on and ended.run_policy.clean_pods is CleanPodPolicy.STOP:

            async def is_stopped():
                return (await here.kubelet.pod(left["name"]))["spec"].get("activeDeadlineSeconds") == 1

            assert ended.record.clean_up_time is None
            assert await eventually(is_stopped, within=20)
            await here.kubelet.fail(left["name"], Exit(137))
        reports_it = profile.after_end is not AfterEnd.NOTHING
        await here.wait_record(lambda record: (record.clean_up_time is not None) is reports_it)
