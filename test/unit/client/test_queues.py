"""Jobs that wait in queues."""

import pytest

from support.embedded.embedded_jobs import NAMESPACES, TFJOBS, EmbeddedJobs, kinds
from support.fake_clock import FakeClock
from support.jobs.builders import merge, tfjob
from tf_operator.client import AsyncTFJobs, Forbidden, NotPossible, queues
from tf_operator.client.queues import JOB_QUEUE
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.errors import Status
from tf_operator.planning.kueue import state

WORKLOADS = {
    "metadata": {"name": "workloads.kueue.x-k8s.io"},
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "Workload", "listKind": "WorkloadList", "plural": "workloads", "singular": "workload"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Cluster(EmbeddedJobs):
    """With Kueue's kind of objects, and jobs in two namespaces."""

    def __init__(self):
        super().__init__(FakeClock())
        self.server = ApiServer(self.clock, kinds=(*kinds(), *custom_kinds.defined(WORKLOADS)))
        for name in ("default", "other"):
            self._send(requests.create(NAMESPACES, "", {"metadata": {"name": name}}))

    async def begin(self, name, phase="Queued", namespace="default", priority="", **fields):
        """A job with this condition, a minute after the last one."""
        await self.clock.advance(60)
        body = merge(tfjob(name).workers(1).body(), {"metadata": {"namespace": namespace, **fields}})
        pod = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
        pod |= {"priorityClassName": priority} if priority else {}
        body["spec"]["runPolicy"] = {"suspend": phase == "Suspended"}
        stored = self._send(requests.create(TFJOBS, namespace, body))
        condition = {"type": phase, "status": "True", "message": f"{name} waits for 2 GPUs"}
        status = {"conditions": [condition], "queue": {"queuedTime": "2026-01-01T00:00:00Z"}}
        self._send(requests.merge_patch(TFJOBS, key(stored), {"status": status}, subresource="status"))
        return stored

    def priority(self, name, value, **fields):
        self._send(requests.create(state.POD_PRIORITIES, "", {"metadata": {"name": name}, "value": value, **fields}))

    def workload(self, job, **status):
        owner = {name: job["metadata"][name] for name in ("name", "uid")} | {"controller": True}
        owners = [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **owner}]
        metadata = {"name": f"w-{job['metadata']['name']}", "ownerReferences": owners}
        self._send(requests.create(state.workloads("v1beta2"), "default", {"metadata": metadata, "status": status}))


def key(body):
    return requests.ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])


@pytest.fixture
def cluster():
    return Cluster()


async def read(cluster, **options):
    async with cluster.client() as jobs:
        return await queues.read(jobs, **options)


async def test_places_follow_priority_and_age_in_all_namespaces(cluster):
    cluster.priority("high", 1000)
    cluster.priority("low", -10)
    await cluster.begin("first", priority="low")
    await cluster.begin("second")
    await cluster.begin("third", namespace="other")
    await cluster.begin("fourth", priority="high")
    await cluster.begin("runs", "Running")

    assert [(entry.job.name, entry.place) for entry in await read(cluster)] == [
        ("fourth", 1),
        ("second", 2),
        ("first", 4),
    ]
    everywhere = await read(cluster, all_namespaces=True)
    assert [(entry.job.name, entry.place) for entry in everywhere][2] == ("third", 3)
    assert {entry.queue for entry in everywhere} == {JOB_QUEUE}
    assert (everywhere[0].reason, f"{everywhere[0].since:%Y}") == ("fourth waits for 2 GPUs", "2026")


async def test_a_default_priority_is_that_of_jobs_that_name_none(cluster):
    cluster.priority("usual", 500, globalDefault=True)
    cluster.priority("low", 100)
    await cluster.begin("first", priority="low")
    await cluster.begin("second")

    assert [entry.job.name for entry in await read(cluster)] == ["second", "first"]


async def test_places_are_not_guessed_by_those_who_do_not_see_all_jobs(cluster, monkeypatch):
    await cluster.begin("first")
    listed = AsyncTFJobs.list

    async def refused(jobs, *, all_namespaces=False, selector=""):
        if all_namespaces:
            raise Forbidden(403, Status(message="no"))
        return await listed(jobs, selector=selector)

    monkeypatch.setattr(AsyncTFJobs, "list", refused)

    assert [(entry.job.name, entry.place) for entry in await read(cluster)] == [("first", None)]
    with pytest.raises(NotPossible, match="you may not list the jobs of all namespaces; -n names one"):
        await read(cluster, all_namespaces=True)


async def test_jobs_of_kueue_wait_for_what_their_workload_says(cluster):
    labels = {state.QUEUE: "team-a"}
    waits = await cluster.begin("waits", "Suspended", labels=labels)
    looked_at = await cluster.begin("unseen", "Suspended", labels=labels)
    await cluster.begin("lost", "Suspended", labels=labels)
    await cluster.begin("by-hand", "Suspended")
    await cluster.begin("admitted", "Running", labels=labels)
    message = "couldn't assign flavors to pod set worker: insufficient quota for cpu"
    reserved = {"type": "QuotaReserved", "status": "False", "message": message}
    cluster.workload(waits, conditions=[{**reserved, "lastTransitionTime": "2026-02-01T00:00:00Z"}])
    cluster.workload(looked_at)

    entries = await read(cluster)

    assert [(entry.job.name, entry.queue, entry.place) for entry in entries] == [
        ("waits", "team-a", None),
        ("unseen", "team-a", None),
        ("lost", "team-a", None),
    ]
    assert [entry.reason for entry in entries] == [
        message,
        "Kueue has not looked at it yet",
        "its Workload, which nothing has created yet; tfjob doctor says whether Kueue is set up",
    ]
    assert f"{entries[0].since:%m}" == "02"
