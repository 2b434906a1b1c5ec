"""What users write into the template of a replica arrives in its pod, in each API."""

import json
import os
import subprocess
import sys

import pytest

from tf_operator.dialects import registry
from tf_operator.job.record import ReplicaType
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.snapshot import Settings

TEMPLATE = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [
            {
                "name": "tensorflow",
                "image": "train:1",
                "command": ["python", "-m", "train"],
                "args": ["--fast"],
                "env": [{"name": "MODE", "value": "x"}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a"}],
            },
            {"name": "sidecar", "image": "s"},
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "nodeSelector": {"disk": "ssd"},
        "someday": {"a field": "of a later Kubernetes"},
    },
}
MASTER, WORKER = ({"tfReplicaType": kind, "template": TEMPLATE} for kind in ("MASTER", "WORKER"))
SPECS = {
    "kubeflow.org/v1 TFJob": {"tfReplicaSpecs": {"Chief": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
    "kubeflow.org/v1beta1 TFJob": {
        "tfReplicaSpecs": {"MASTER": {"template": TEMPLATE}, "WORKER": {"template": TEMPLATE}}
    },
    "kubeflow.org/v1alpha1 TFJob": {"replicaSpecs": [MASTER, WORKER]},
    "mlkube.io/v1beta1 TfJob": {"replicaSpecs": [MASTER, WORKER]},
    "batch.tensorstack.dev/v1beta1 TensorFlowTrainingJob": {
        "replicaSpecs": [{"type": kind, "template": TEMPLATE} for kind in ("chief", "worker")]
    },
}
SNIPPET = """
import json, logging, os
logging.basicConfig(format="%(message)s", level=logging.INFO)
cluster_json = os.getenv('TF_CONFIG')
cluster = json.loads(cluster_json)
logging.info("REPLICA_TYPE=%s,REPLICA_INDEX=%s", cluster["task"]["type"], cluster["task"]["index"])
"""


def worker(kind):
    """The pod of the worker of such a job."""
    version, _, name = kind.partition(" ")
    metadata = {"name": "j", "namespace": "n", "uid": "u"}
    body = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": SPECS[kind]}
    (api,) = [api for api in registry.SERVED if api.has(body)]
    job = api.read_object(api.conversion.convert(body, api.resource.version))
    assert not job.problems
    assert [spec.count for spec in job.replicas] == [1, 1]
    return ChildBuilder(job, Settings()).pod(ReplicaType.WORKER, 0, name="p")


@pytest.mark.documents(
    "v1alpha1/templates", "mlkube/templates", "t9k/templates", "v1beta1/template", "v1beta1/one-replica"
)
@pytest.mark.parametrize("kind", SPECS)
def test_everything_in_a_template_arrives_in_the_pod(kind):
    pod = worker(kind)
    main, sidecar = pod["spec"].pop("containers")
    expected = TEMPLATE["spec"]["containers"]

    assert main["env"][0] == {"name": "MODE", "value": "x"}
    assert main.pop("terminationMessagePolicy") == "FallbackToLogsOnError"
    assert main | {"env": main["env"][:1]} == expected[0] | {"ports": main["ports"]}
    assert sidecar == expected[1]
    assert pod["spec"].pop("restartPolicy")
    (init,) = pod["spec"].pop("initContainers")
    assert init.pop("terminationMessagePolicy") == "FallbackToLogsOnError"
    assert pod["spec"] | {"initContainers": [init]} == {
        name: value for name, value in TEMPLATE["spec"].items() if name != "containers"
    }
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"


@pytest.mark.documents("v1alpha1/task", "v1alpha1/printed-line")
def test_the_program_of_the_document_logs_which_replica_it_is():
    (main, _) = worker("kubeflow.org/v1alpha1 TFJob")["spec"]["containers"]
    (config,) = [entry["value"] for entry in main["env"] if entry["name"] == "TF_CONFIG"]
    assert json.loads(config)["task"] == {"type": "worker", "index": 0}

    command = [sys.executable, "-c", SNIPPET]
    process = subprocess.run(
        command, env=os.environ | {"TF_CONFIG": config}, capture_output=True, text=True, check=True
    )

    assert process.stderr == "REPLICA_TYPE=worker,REPLICA_INDEX=0\n"
