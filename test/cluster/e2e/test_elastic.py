"""A training whose workers come and go: it goes on, learns as without, and nothing counts as a failure."""

from pathlib import Path

import pytest

from support.jobs.real_namespace import accuracy
from support.settle import eventually

PROGRAM = Path(__file__).with_name("elastic_digits.py").read_text()
ONE_THREAD = [{"name": name, "value": "1"} for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")]

SYNC = 150.0
"""Seconds within which a kubelet shows a pod its annotations, if it misses the change itself."""


def job(image):
    container = {"name": "tensorflow", "image": image, "command": ["python3", "-c", PROGRAM], "env": ONE_THREAD}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    replicas = {"restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "elastic"},
        "spec": {
            "enableDynamicWorker": True,
            "elasticPolicy": {"minReplicas": 2, "maxReplicas": 4},
            "runPolicy": {"cleanPodPolicy": "Running"},
            "tfReplicaSpecs": {"PS": replicas, "Worker": {"replicas": 2, **replicas}},
        },
    }


@pytest.mark.nightly
async def test_workers_in_step_are_restarted_in_place_by_the_kubelet(here, images, operator):
    """Also when worker 1 fails before its own turn comes."""
    program = (
        "echo $(echo $TF_CONFIG | grep -o :2222 | wc -l) workers; while sleep 1; do [ ! -e /tmp/fail ] || exit 1; done"
    )
    container = {"name": "tensorflow", "image": images.training, "command": ["/bin/sh", "-c", program]}
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    elastic = {"minReplicas": 2, "maxReplicas": 4, "restartInPlace": True}
    body = {**job(images.training), "spec": {"elasticPolicy": elastic, "tfReplicaSpecs": {"Worker": worker}}}
    here.kubectl.create(body)
    await here.wait_pods("elastic", only={"worker-0", "worker-1"}, phase="Running")
    uids = here.uids("elastic")

    here.kubectl.run("scale", "tfjob/elastic", "--replicas=3")
    for worker in ("worker-0", "worker-1", "worker-2"):
        await here.wait_log("elastic", worker, "3 workers", within=SYNC)
    assert {name: uid for name, uid in here.uids("elastic").items() if name in uids} == uids

    here.kubectl.run("scale", "tfjob/elastic", "--replicas=2")
    here.kubectl.run("exec", "elastic-worker-1", "-c", "tensorflow", "--", "touch", "/tmp/fail")
    for worker in ("worker-0", "worker-1"):
        await here.wait_log("elastic", worker, "2 workers", within=SYNC)
    await here.wait_pods("elastic", only=uids.keys(), phase="Running")
    status = here.job("elastic")["status"]
    assert (status.get("restarts"), status.get("disruptions"), status.get("firstFailure")) == (None, None, None)


@pytest.mark.nightly
async def test_a_training_goes_on_with_two_workers_then_four_then_two(here, images):
    here.kubectl.create(job(images.training))
    await here.wait_log("elastic", "worker-0", "Step 100")
    uids = here.uids("elastic")

    here.kubectl.run("scale", "tfjob/elastic", "--replicas=4")
    for worker in ("worker-2", "worker-3"):
        await here.wait_log("elastic", worker, "Preparing batches")
    here.kubectl.run("scale", "tfjob/elastic", "--replicas=2")
    await here.wait_pods("elastic", only=uids.keys(), phase="Running")
    step = here.log("elastic", "worker-0").count("Step")
    await eventually(lambda: here.log("elastic", "worker-0").count("Step") > step + 1, within=60, every=1)
    assert here.uids("elastic") == uids
    here.end("elastic", "worker-0")
    await here.wait_state("elastic", "Succeeded")

    assert accuracy(here.log("elastic", "worker-0")) >= 90
    status = here.job("elastic")["status"]
    assert (status.get("restarts"), status.get("disruptions"), status.get("firstFailure")) == (None, None, None)
