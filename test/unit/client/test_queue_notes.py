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
