"""Jobs in queues of a real Kueue: it does not matter whether Kueue itself or the operator makes their Workloads."""

import asyncio

import pytest

from support.jobs import builders
from support.operators.operator_fixture import ONE_OPERATOR
from support.partners.kueue_queue import TOLERATION
from support.resources import NODES
from support.settle import eventually
from tf_operator.cli import main

pytestmark = [
    ONE_OPERATOR,
    pytest.mark.nightly,
    pytest.mark.programs("kueue-0.14", "kueue-0.19"),
]


async def test_a_job_waits_for_quota_and_runs_where_it_was_admitted(queue):
    first = await queue.begin(queue.job("a"), "a-worker-0", "a-worker-1")
    for pod in first.values():
        assert pod["spec"]["nodeSelector"] == {"pool": queue.jobs.namespace}
        assert TOLERATION in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "worker"
    await queue.jobs.submit(queue.job("b", 1).suspended())
    await queue.wait_workload("b")
    await queue.jobs.wait("b", "Suspended")
    await queue.jobs.quiet()
    assert set(await queue.jobs.pods()) == set(first)

    await queue.jobs.succeed("a-worker-0")
    await queue.wait_workload("a", "Finished")
    await queue.jobs.wait("a", "Succeeded")
    await queue.wait_pods_of("a-worker-0", "a-worker-1", "b-worker-0")
    assert (await queue.jobs.job("b"))["spec"]["runPolicy"]["suspend"] is False


async def test_a_job_gives_way_to_a_higher_priority_and_comes_back(queue):
    low = await queue.begin(queue.job("a", priority="low"), "a-worker-0", "a-worker-1")
    await queue.jobs.wait("a", "Running")
    await queue.jobs.submit(queue.job("b", priority="high"))
    await queue.wait_workload("b", "Admitted")
    await queue.begin_admitted("b-worker-0", "b-worker-1")
    job = await queue.jobs.wait_counts("Worker", "a", active=0, failed=0)
    assert "restarts" not in job["status"]["replicaStatuses"]["Worker"]
    await queue.jobs.succeed("b-worker-0")
    await queue.wait_workload("b", "Finished")
    again = await queue.wait_pods_of("a-worker-0", "a-worker-1", "b-worker-0", "b-worker-1")
    assert again["a-worker-0"]["metadata"]["uid"] != low["a-worker-0"]["metadata"]["uid"]
    await queue.jobs.run("a-worker-0", "a-worker-1")
    await queue.jobs.wait("a", "Running")
    await queue.wait_workload("a", "Admitted")


async def test_a_job_for_another_cluster_is_left_alone(queue):
    """MultiKueue runs it elsewhere, and copies its status."""
    await queue.jobs.submit(queue.job("a").managed_by())
    await queue.jobs.quiet()
    assert await queue.jobs.pods() == {}
    assert "status" not in await queue.jobs.job("a")
    assert not queue.jobs.sent().writes()


async def test_doctor_finds_an_operator_and_a_kueue_that_both_make_workloads(queue, capfd):
    namespace, plane = queue.jobs.namespace, queue.kueue.plane
    pod = {"containers": [{"name": "operator", "image": "i", "args": ["run", "--kueue=external"]}]}
    labels = {"app.kubernetes.io/name": "tf-operator"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    await asyncio.to_thread(plane.admin.create, path, {"metadata": {"name": "o", "labels": labels}, "spec": spec})

    await asyncio.to_thread(main.main, ["doctor", "--kubeconfig", str(plane.kubeconfig("admin")), "-n", namespace])

    output = capfd.readouterr().out
    assert ("ok   jobs wait in queues of Kueue, by the operator" in output) == queue.is_external, output
    assert ("FAIL Kueue's own code for TFJobs is on" in output) == (not queue.is_external), output
    assert await queue.jobs.pods() == {}
    await asyncio.to_thread(plane.admin.delete, f"{path}/o")


async def test_topology_annotations_are_passed_on(queue):
    annotations = {"kueue.x-k8s.io/podset-preferred-topology": "cloud.example/rack"}
    template = {"metadata": {"annotations": annotations}}
    job = queue.job("a", 3).merged({"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    await queue.jobs.submit(job)
    workload = await queue.wait_workload("a")
    (pod_set,) = workload["spec"]["podSets"]
    assert pod_set["topologyRequest"]["preferred"] == "cloud.example/rack"
    assert pod_set["template"]["metadata"]["annotations"] == annotations


async def test_pods_go_together_where_the_topology_has_room(queue):
    """Kueue takes the gate of each pod away when it has given it a node; only the second rack holds both."""
    rack, name = "cloud.example/rack", queue.jobs.namespace
    levels = [{"nodeLabel": rack}, {"nodeLabel": "kubernetes.io/hostname"}]
    queue.kueue.create("topologies", name, {"levels": levels})
    flavor = queue.kueue.resource("resourceflavors").path(name=name)
    await queue.jobs.admin.patch(flavor, {"spec": {"topologyName": name}})
    for short, processors in (("small", "1"), ("large", "2")):
        await _make_node(queue, f"{name}-{short}", processors, {rack: short, "pool": name})
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": rack}}}
    job = queue.job("a").merged({"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    await queue.jobs.submit(job)
    await queue.wait_workload("a", "Admitted")
    await queue.wait_pods_of("a-worker-0", "a-worker-1")

    async def are_placed():
        specs = [pod["spec"] for pod in (await queue.jobs.pods()).values()]
        assert [spec.get("schedulingGates") for spec in specs] == [None, None]
        assert {spec["nodeSelector"]["kubernetes.io/hostname"] for spec in specs} == {f"{name}-large"}
        return True

    await eventually(are_placed, within=60)


async def _make_node(queue, name, processors, labels):
    room = {"cpu": processors, "memory": "8Gi", "pods": "10"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
    await queue.jobs.admin.create(NODES.path(), {"metadata": metadata})
    await queue.jobs.admin.patch(NODES.path(name=name, subresource="status"), {"status": status})
    await queue.jobs.admin.patch(NODES.path(name=name), {"spec": {"taints": None}})


async def test_a_job_without_a_queue_runs_at_once(queue):
    await queue.jobs.begin(builders.tfjob("a").workers(1).labels({"team": "a"}))
    assert await queue.workload("a") is None
