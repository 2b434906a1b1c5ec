"""The other APIs in real pods: the examples of their documents train with TensorFlow, and pods live as they promise.

Both trainings begin before the first test and keep the processors busy; the other tests mostly wait, and run meanwhile.
"""

import json
from pathlib import Path

import pytest
import yaml

from support.jobs.real_namespace import Program, accuracy
from support.jobs.t9k import documented, over
from support.settle import eventually

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples"
V1ALPHA1, MLKUBE, T9K = "tfjobs.v1alpha1.kubeflow.org", "tfjobs.mlkube.io", "tensorflowtrainingjobs"
AS_JSON = {"tf-operator.kubeflow.org/json-logs": "true"}
ONE_THREAD = [{"name": name, "value": "1"} for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")]
LOGS_AND_WAITS = """
import logging, os, time
logging.warning("step %d", 10)
try:
    raise ValueError("no")
except ValueError:
    logging.getLogger("train").exception("failed")
while not os.path.exists("/tmp/end"): time.sleep(0.2)
"""


def example(path):
    return yaml.safe_load((EXAMPLES / path).read_text())


def running(replica, **container):
    """An item of a job, whose pods run something else than in the document; they end at once when they have to."""
    pod = replica["template"]["spec"]
    pod["containers"][0] |= container
    pod["terminationGracePeriodSeconds"] = 1
    return replica


@pytest.fixture(scope="module")
def shared(new_shared_namespace, images):
    """A namespace where both trainings have begun."""
    namespace = new_shared_namespace()
    listed = example("kubeflow-v1alpha1/tf_job.yaml")
    listed["metadata"]["annotations"] = AS_JSON
    listed["spec"] |= {"tfImage": images.training, "cleanupPodPolicy": "None"}
    program = Path(__file__).with_name("between_servers.py").read_text()
    for replica in listed["spec"]["replicaSpecs"][:2]:
        running(replica, image=images.training, command=["python3", "-c", program], env=ONE_THREAD)
    mirrored = documented("tensorflow-example")
    command = ["python", "/training/multi_worker_mirrored.py", "--checkpoints=/tmp/checkpoints", "--steps=200"]
    running(mirrored["spec"]["replicaSpecs"][0], image=images.training, command=command, env=ONE_THREAD)
    for job in (listed, mirrored):
        namespace.kubectl.create(job)
    return namespace


@pytest.fixture
def here(operator, shared, namespaces):
    namespaces.append(shared.name)
    return shared


@pytest.mark.documents("mlkube/logs", "mlkube/log-fields", "mlkube/pods-stay", "mlkube/none-runs")
async def test_pods_of_a_finished_job_are_stopped_and_stay_with_their_logs_until_it_is_deleted(here, images):
    job = example("mlkube/tf_job.yaml")
    job["metadata"] = {"name": "kept", "annotations": AS_JSON}
    for replica in job["spec"]["replica_specs"]:
        running(replica, **Program(images.operator, LOGS_AND_WAITS).container())
    here.kubectl.create(job)
    await here.wait_shown(MLKUBE, "kept", phase="Running", state="Running")
    master, worker = sorted(here.pods("kept"))
    await here.wait_log("kept", worker, "failed")

    here.end("kept", master)
    await here.wait_shown(MLKUBE, "kept", phase="Done", state="Succeeded")

    pods = here.pods("kept")
    ends = {name: (pod["status"]["phase"], pod["status"].get("reason")) for name, pod in pods.items()}
    assert ends == {master: ("Succeeded", None), worker: ("Failed", "DeadlineExceeded")}
    for name, kind in ((master, "master"), (worker, "worker")):
        records = [json.loads(line) for line in here.log("kept", name).splitlines()]
        own = {"job": "kept", "namespace": here.name, "replica_type": kind, "replica_index": 0, "runtime_id": "1234"}
        assert [record | own for record in records] == records
        assert [(it["severity"], it["message"].splitlines()[0]) for it in records] == [
            ("WARNING", "step 10"),
            ("ERROR", "failed"),
        ]
    here.kubectl.run("delete", MLKUBE, "kept")
    await here.wait_pods("kept", only=set())


@pytest.mark.documents("t9k/debug", "t9k/debug-enter", "t9k/resume")
async def test_one_can_go_into_pods_in_debug_mode_and_the_resumed_job_runs_its_own_program(here, counts):
    job = over(documented("tensorflow-example"), documented("fragments/debug-with-defaults"))
    job["metadata"]["name"] = "debugged"
    running(job["spec"]["replicaSpecs"][0], **counts.container())["replicas"] = 2
    here.kubectl.create(job)
    await here.wait_shown(T9K, "debugged", phase="Running")
    # Which the job is as soon as one worker runs.
    here.kubectl.run("wait", "--for=condition=Ready", "pod/debugged-worker-1", "--timeout=90s")

    see = "import os; print(open('/proc/1/cmdline').read().split('\\0')[:2], os.environ['TF_CONFIG'])"
    output = here.kubectl.run("exec", "debugged-worker-1", "--", "python3", "-c", see)
    here.kubectl.patch(T9K, "debugged", {"spec": {"runMode": {"pause": {"enabled": True}, "debug": None}}})
    await here.wait_shown(T9K, "debugged", phase="Paused")
    await here.wait_pods("debugged", only=set())
    here.kubectl.patch(T9K, "debugged", {"spec": {"runMode": {"pause": {"enabled": False}}}})
    await here.wait_shown(T9K, "debugged", phase="Succeeded")

    assert output.startswith("['sleep', 'inf'] ")
    assert '"task":{"type":"worker","index":1}' in output.replace(" ", "")
    assert here.log("debugged", "worker-0") == "done\n"


@pytest.mark.documents("v1beta1/logs", "v1beta1/container-ends", "v1beta1/volume")
async def test_what_a_training_writes_to_its_claim_is_there_when_the_job_is_gone(here, images):
    job = over(example("kubeflow-v1beta1/tf_job_gpu.yaml"), example("kubeflow-v1beta1/fragments/volume.yaml"))
    name, write = job["metadata"]["name"], "open('/tmp/tensorflow/model', 'w').write('learned')"
    here.provide_volume("azurefile")

    for lines in (write, "print(open('/tmp/tensorflow/model').read())"):
        # No node has a GPU. The folder of the claim is root's, and so are the processes of this image.
        running(job["spec"]["tfReplicaSpecs"]["MASTER"], **Program(images.training, lines).container(), resources={})
        here.kubectl.create(job)
        await here.wait_state(name, "Succeeded")
        output = here.log(name, "master-0")
        here.kubectl.run("delete", "tfjob", name)
        await here.wait_pods(name, only=set())

    assert output == "learned\n"


@pytest.mark.documents(
    "v1alpha1/default-server-trains", "v1alpha1/logs", "v1alpha1/nothing-left", "mlkube/log-fields-of-servers"
)
async def test_master_and_worker_train_with_two_default_parameter_servers(here):
    job = await here.wait_shown(V1ALPHA1, "example-job", phase="Done", state="Succeeded")

    assert [(it["tf_replica_type"], it["ReplicasStates"]) for it in job["status"]["replicaStatuses"]] == [
        ("MASTER", {"Succeeded": 1}),
        ("WORKER", {"Running": 1}),
        ("PS", {"Running": 2}),
    ]
    identity = job["spec"]["RuntimeId"]
    logs = {name.rpartition("-")[0]: here.log("example-job", name) for name in here.pods("example-job")}
    master = logs[f"master-{identity}-0"]
    assert accuracy(master) >= 90
    (record,) = [json.loads(line) for line in master.splitlines() if line.startswith("{")]
    assert (record["replica_type"], record["replica_index"], record["runtime_id"]) == ("master", 0, identity)
    assert [f"/job:ps/replica:0/task:{index}/" in record["message"] for index in range(2)] == [True, True]
    servers = [[json.loads(line) for line in logs[f"ps-{identity}-{index}"].splitlines()] for index in range(2)]
    assert [{(it["replica_type"], it["replica_index"]) for it in replicas} for replicas in servers] == [
        {("ps", 0)},
        {("ps", 1)},
    ]

    program = f"example-job-cm-ps-{identity}"
    assert here.kubectl.get("configmap", program) is not None
    here.kubectl.run("delete", V1ALPHA1, "example-job")
    await here.wait_pods("example-job", only=set())
    await eventually(lambda: here.kubectl.get("configmap", program) is None, within=60, every=1)


@pytest.mark.documents("t9k/replicas", "t9k/printed-example")
async def test_four_workers_without_a_chief_train(here):
    job = await here.wait_shown(T9K, "tensorflow-example", phase="Succeeded")

    workers = [f"worker-{index}" for index in range(4)]
    for worker in workers:
        await here.wait_log("tensorflow-example", worker, "Accuracy")
    assert [accuracy(here.log("tensorflow-example", worker)) >= 90 for worker in workers] == [True] * 4
    assert job["status"]["backoffCount"] == 0
