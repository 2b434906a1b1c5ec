"""Kubeflow's own Python client, as its users have it, with a job that runs without a cluster."""

import json
import sys

import pytest

KUBEFLOW = "kubeflow-training==1.9.4"
PROGRAM = """
import json, sys
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec
from kubeflow.training import KubeflowOrgV1ReplicaSpec as Replica, KubeflowOrgV1RunPolicy as RunPolicy
from kubeflow.training import KubeflowOrgV1TFJob as TFJob, KubeflowOrgV1TFJobSpec as Spec, TrainingClient

def train():
    import json, os
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print("from", task["type"], task["index"])

def replica(text, replicas=1):
    container = V1Container(name="tensorflow", image="any", command=["sh", "-c", f"echo {text}"])
    template = V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))
    return Replica(replicas=replicas, restart_policy="Never", template=template)

def names():
    return sorted(job.metadata.name for job in client.list_jobs())

client = TrainingClient(config_file=sys.argv[1], job_kind="TFJob")
replicas = {"Chief": replica("from the chief"), "Worker": replica("from a worker", 2)}
spec = Spec(run_policy=RunPolicy(clean_pod_policy="None"), tf_replica_specs=replicas)
metadata = V1ObjectMeta(name="given", namespace="default")
client.create_job(TFJob(api_version="kubeflow.org/v1", kind="TFJob", metadata=metadata, spec=spec))
client.create_job(name="function", train_func=train, base_image="any", num_workers=2)
found = {"created": names()}
for name in found["created"]:
    job = client.wait_for_job_conditions(name, polling_interval=1, wait_timeout=60)
    found[name] = [it.type for it in client.get_job(name).status.conditions if it.status == "True"]
    assert (job.metadata.name, client.is_job_succeeded(name)) == (name, True)
    found[f"pods of {name}"] = sorted(client.get_job_pod_names(name))
    found[f"logs of {name}"], events = client.get_job_logs(name, is_master=False, verbose=True)
    found[f"events of {name}"] = sorted(events)
    client.delete_job(name)
found["left"] = names()
print(json.dumps(found))
"""


async def printed(machine, *command):
    process = await machine.start(command=command)
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_kubeflows_client_creates_waits_for_reads_and_deletes_jobs(local_server, tmp_path):
    sdk, program = tmp_path / "sdk", tmp_path / "program.py"
    program.write_text(PROGRAM)
    await printed(local_server, sys.executable, "-m", "venv", str(sdk))
    await printed(local_server, f"{sdk}/bin/pip", "install", "--quiet", "--disable-pip-version-check", KUBEFLOW)
    _, kubeconfig, _ = await local_server.run("local", "kubeconfig")

    answers = json.loads(await printed(local_server, f"{sdk}/bin/python", str(program), kubeconfig.strip()))
    pods = {"function": ["worker-0", "worker-1"], "given": ["chief-0", "worker-0", "worker-1"]}
    logs = {
        "function": {f"function-worker-{index}": f"from worker {index}\n" for index in (0, 1)},
        "given": {"given-chief-0": "from the chief\n"} | {f"given-worker-{it}": "from a worker\n" for it in (0, 1)},
    }
    expected = {"created": ["function", "given"], "left": []}
    for name, replicas in pods.items():
        expected[name] = ["Created", "Succeeded"]
        expected[f"pods of {name}"] = [f"{name}-{replica}" for replica in replicas]
        expected[f"logs of {name}"] = logs[name]
        expected[f"events of {name}"] = [*(f"pod/{name}-{replica}" for replica in replicas), f"tfjob/{name}"]
    assert answers == expected
