"""What a job in a queue waits for on one machine."""

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.client import queue_notes
from tf_operator.client.job import read_job
from tf_operator.dialects import registry
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Resource

NODE = {"status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}}
GPU = "nvidia.com/gpu"


def job(workers, gpus, *, cpu="100"):
    container = {"name": "tensorflow", "resources": {"limits": {"cpu": cpu, GPU: gpus}}}
    worker = {"replicas": workers, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "b", "namespace": "default", "uid": "u"}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata}
    api = registry.api_of(body)
    return read_job({**body, "spec": {"tfReplicaSpecs": {"Worker": worker}}}, api)


def pod(owner, gpus, *, node="local", phase="Running"):
    references = [{"apiVersion": "v1", "kind": "TFJob", "name": owner, "uid": owner, "controller": True}]
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": {GPU: gpus}}}]}
    return {"metadata": {"name": f"{owner}-p", "ownerReferences": references}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "note"),
    [
        ([pod("a", 2), pod("a", 2)], "waits for 4 nvidia.com/gpu; 0 of 4 are free; a has them"),
        ([pod("a", 1)], "waits for 4 nvidia.com/gpu; 3 of 4 are free; a has it"),
        ([pod("a", 1), pod("c", 1)], "waits for 4 nvidia.com/gpu; 2 of 4 are free; a, c have them"),
        (
            [pod(name, 1) for name in "acde"],
            "waits for 4 nvidia.com/gpu; 0 of 4 are free; a, c, d and 1 more have them",
        ),
        ([pod("a", 4, phase="Succeeded"), pod("c", 4, node="")], ""),
    ],
)
def test_a_waiting_job_says_how_much_is_free_and_who_has_the_rest(pods, note):
    assert queue_notes.notes_of([job(2, 2)], NODE, pods) == ({"u": note} if note else {})


def test_a_job_that_needs_more_than_there_is_says_so():
    note = "waits for 6 nvidia.com/gpu; 4 of 4 are free"
    assert queue_notes.notes_of([job(2, 3)], NODE, []) == {"u": note}


async def test_of_a_machine_with_many_pods_all_count_that_have_not_ended():
    cluster = EmbeddedJobs(FakeClock())
    node = {"metadata": {"name": "local"}}
    cluster._send(requests.create(Resource("", "v1", "nodes", "Node", is_namespaced=False), "", node))
    owner = cluster.job("j")
    for number in range(600):
        cluster.pod(owner, f"worker-{number}", "Succeeded" if number < 10 else "Running")
    async with cluster.client() as jobs:
        _, pods = await queue_notes.machine(jobs.client)
    assert len(pods) == 590


def node(name, *, cpu="2", ready="True", version="v1.36.3", **spec):
    conditions = [{"type": "Ready", "status": ready}]
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "100", GPU: "4"}
    status = {"allocatable": allocatable, "conditions": conditions, "nodeInfo": {"kubeletVersion": version}}
    return {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec, "status": status}


def waiting(workers=3, **spec):
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    pod = {"containers": [{"name": "tensorflow", "resources": resources}], **spec}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "b", "namespace": "default"}}
    specs = {"Worker": {"replicas": workers, "template": {"spec": pod}}}
    return read_job({**body, "spec": {"tfReplicaSpecs": specs}}, registry.api_of(body))


def placed(name, cpu, *, on="a", owner=""):
    owners = [{"apiVersion": "v1", "kind": "TFJob", "name": owner, "uid": owner, "controller": True}] if owner else []
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    metadata = {"name": name, "namespace": "team", "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"nodeName": on, "containers": containers}}


CPU = "cpu: each requests 100; local has most left: 2"
TAINT = {"key": "gpu", "value": "", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("job", "nodes", "pods", "lines"),
    [
        (
            waiting(),
            [node("a"), node("b"), node("c", cpu="8", ready="False"), node("d", cpu="8", unschedulable=True)],
            [
                placed("p", "1", owner="hold"),
                placed("q", "100m", on="b"),
                placed("r", "8", on="c"),
                placed("s", 1, on=""),
            ],
            (
                "room for 3 Worker pods; the nodes have room for 1 of them now",
                "cpu: each requests 1500m; b has most left: 1900m",
                "cpu is held by team/hold (1), team/q (100m)",
            ),
        ),
        (
            waiting(1, nodeSelector={"zone": "a"}),
            [node("a"), node("b")],
            [placed("p", "3"), placed("q", "500m", on="b")],
            (
                "room for 1 Worker pod; the nodes have room for 0 of them now",
                "cpu: each requests 1500m; a has most left: 0",
                "cpu is held by team/p (3)",
            ),
        ),
        (
            waiting(1),
            [node("a", taints=[TAINT])],
            [],
            ("room for 1 Worker pod; the nodes have room for 0 of them now",),
        ),
        (
            waiting(1, containers=[{"name": "tensorflow", "resources": {"limits": {"memory": "12Gi"}}}]),
            [node("a")],
            [],
            (
                "room for 1 Worker pod; the nodes have room for 0 of them now",
                "memory: each requests 12Gi; a has most left: 8Gi",
            ),
        ),
        (waiting(2), [node("a"), node("b")], [], ()),
    ],
    ids=["two-of-four-nodes", "selector", "taint", "empty-nodes", "room"],
)
def test_of_a_cluster_it_is_said_for_how_many_pods_there_is_room_and_who_has_what_they_lack(job, nodes, pods, lines):
    assert queue_notes.room_of(job, nodes, pods) == lines


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        (
            "v1.36.3",
            (
                "room for 1 Worker pod; the nodes have room for 0 of them now",
                "cpu: each requests 100; local has most left: 2",
            ),
        ),
        ("", ("waits for 6 nvidia.com/gpu; 4 of 4 are free",)),
    ],
    ids=["cluster", "this-machine"],
)
async def test_a_node_without_a_kubelet_counts_devices_alone(version, lines):
    cluster = EmbeddedJobs(FakeClock())
    nodes = Resource("", "v1", "nodes", "Node", is_namespaced=False)
    cluster._send(requests.create(nodes, "", node("local", version=version)))
    async with cluster.client() as jobs:
        shown_lines = await queue_notes.room(jobs.client, job(1, 6))
    assert shown_lines == lines
