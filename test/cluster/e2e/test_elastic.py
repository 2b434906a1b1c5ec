"""A training whose workers come and go: it goes on, learns as without, and nothing counts as a failure."""

from pathlib import Path

from support.real_namespace import accuracy
from support.settle import eventually

PROGRAM = Path(__file__).with_name("elastic_digits.py").read_text()
ONE_THREAD = [{"name": name, "value": "1"} for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")]


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


async def test_a_training_goes_on_with_two_workers_then_four_then_two(here, images):
    here.kubectl.create(job(images.training))
    await here.wait_log("elastic", "worker-0", "Step 100")
    before = here.uids("elastic")

    here.kubectl.run("scale", "tfjob/elastic", "--replicas=4")
    for worker in ("worker-2", "worker-3"):
        await here.wait_log("elastic", worker, "Preparing batches")
    here.kubectl.run("scale", "tfjob/elastic", "--replicas=2")
    await here.wait_pods("elastic", only=before.keys(), phase="Running")
    step = here.log("elastic", "worker-0").count("Step")
    await eventually(lambda: here.log("elastic", "worker-0").count("Step") > step + 1, within=60, every=1)
    assert here.uids("elastic") == before
    here.end("elastic", "worker-0")
    await here.wait_state("elastic", "Succeeded")

    assert accuracy(here.log("elastic", "worker-0")) >= 90
    status = here.job("elastic")["status"]
    assert (status.get("restarts"), status.get("disruptions"), status.get("firstFailure")) == (None, None, None)
