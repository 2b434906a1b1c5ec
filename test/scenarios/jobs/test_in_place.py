"""Jobs that keep their pods, in resizes and restarts: the kubelet, which the test plays, starts containers again."""

import json
from pathlib import Path

import pytest

from support.crds import apply_rights
from support.jobs import builders
from support.jobs.job_namespace import PATIENCE
from support.operators.operator_fixture import ONE_OPERATOR
from support.resources import PODS, TFJOBS
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = ("--restart-in-place",)
RIGHTS = Path(__file__).resolve().parents[3] / "manifests/rbac/in-place"
SIDECAR = "tf-operator-resize"
JOB = builders.tfjob("j").workers(2, restart="OnFailure").elastic(1, 4, restartInPlace=True)
WHOLE = builders.tfjob("j").workers(2, restart="ExitCode").restarts_as_a_whole("InPlace")
SIGNAL = "tf-operator.kubeflow.org/cluster-size"
PEERS = ("j-worker-0", "j-worker-1")


async def prepare(admin):
    await apply_rights(admin, RIGHTS.glob("c*.yaml"))


async def test_workers_in_step_keep_their_pods_and_learn_of_the_new_size(job_namespace):
    await _skip_older_servers(job_namespace)
    await job_namespace.begin_running(JOB)
    uids = await job_namespace.uids()
    pods = await job_namespace.pods()
    assert [_told(pod) for pod in pods.values()] == [2, 2]
    (sidecar,) = pods["j-worker-0"]["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicyRules"][0]["action"]) == (SIDECAR, "RestartAllContainers")

    await _scale(job_namespace, 3)
    await eventually(lambda: _are_told(job_namespace, 3), within=PATIENCE)
    await job_namespace.wait_event("Resized", "pods start again in place, because")
    await job_namespace.run("j-worker-2")
    for name in PEERS:
        await _restart_all(job_namespace, name)
    job = await job_namespace.wait_counts("Worker", active=3, failed=0)
    await job_namespace.quiet()
    assert {name: uid for name, uid in (await job_namespace.uids()).items() if name in PEERS} == uids
    assert job["status"].get("restarts", 0) == job["status"].get("disruptions", 0) == 0


async def test_a_worker_that_restarts_itself_has_the_other_one_restart_in_its_pod(job_namespace):
    await _skip_older_servers(job_namespace)
    await job_namespace.begin_running(WHOLE)
    uids = await job_namespace.uids()
    await _fails(job_namespace, "j-worker-0")

    await eventually(lambda: _is_told(job_namespace, "j-worker-1", "attempt=2"), within=PATIENCE)
    await job_namespace.wait_event("JobRestarted", "attempt 2 begins in place; 1 other replica(s) restart in place")
    await _restart_all(job_namespace, "j-worker-1")
    job = await job_namespace.wait("j", "Running")
    await job_namespace.quiet()

    assert await job_namespace.uids() == uids
    assert not await _is_told(job_namespace, "j-worker-0", "attempt=2"), "it has restarted itself"
    assert (job["status"]["attempt"], job["status"]["restarts"]) == (2, 1)


async def test_a_worker_on_a_node_that_does_not_know_the_rule_gets_a_new_pod(job_namespace):
    """In a cluster of 1.36 a node may be older: its kubelet starts only the sidecar again."""
    await _skip_older_servers(job_namespace)
    await job_namespace.begin_running(WHOLE)
    pods = await job_namespace.pods()
    await _fails(job_namespace, "j-worker-0")
    await eventually(lambda: _is_told(job_namespace, "j-worker-1", "attempt=2"), within=PATIENCE)

    alone = {"name": SIDECAR, "restartCount": 1, "state": {"running": {"startedAt": "2099-01-01T00:00:00Z"}}}
    path = PODS.path(job_namespace.namespace, "j-worker-1", "status")
    await job_namespace.admin.patch(path, {"status": {"initContainerStatuses": [alone]}})
    await job_namespace.wait_replaced(pods["j-worker-1"])
    await job_namespace.run("j-worker-1")
    job = await job_namespace.wait("j", "Running")

    assert (await job_namespace.uids())["j-worker-0"] == pods["j-worker-0"]["metadata"]["uid"]
    assert (job["status"]["attempt"], job["status"]["restarts"], job["status"].get("disruptions", 0)) == (2, 1, 0)


async def _skip_older_servers(job_namespace):
    version = await job_namespace.admin.get("/version")
    if (int(version["major"]), int(version["minor"])) < (1, 36):
        pytest.skip("before Kubernetes 1.36 no container can restart all others")


async def _fails(job_namespace, name):
    """Its program is killed, and its kubelet starts it again, by its rule."""
    path = PODS.path(job_namespace.namespace, name)
    (main,) = (await job_namespace.admin.get(path))["status"]["containerStatuses"]
    moment = main["state"]["running"]["startedAt"]
    ended = {"terminated": {"exitCode": 137, "reason": "Error", "startedAt": moment, "finishedAt": moment}}
    main = {**main, "restartCount": 1, "lastState": ended}
    await job_namespace.admin.patch(f"{path}/status", {"status": {"containerStatuses": [main]}})


async def _is_told(job_namespace, name, text):
    return (await job_namespace.pods())[name]["metadata"]["annotations"][SIGNAL] == text


async def _are_told(job_namespace, size):
    pods = await job_namespace.pods()
    assert [_told(pod) for pod in pods.values()] == [size] * size
    return True


def _told(pod):
    """How many workers the pod knows, by what its TF_CONFIG comes from."""
    (config,) = [entry for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == "TF_CONFIG"]
    path = config["valueFrom"]["fieldRef"]["fieldPath"]
    text = pod["metadata"]["annotations"][path.removeprefix("metadata.annotations['").removesuffix("']")]
    return len(json.loads(text)["cluster"]["worker"])


async def _restart_all(job_namespace, name):
    """As a kubelet reports it: each container has been started again."""
    path = PODS.path(job_namespace.namespace, name)
    status = (await job_namespace.admin.get(path))["status"]
    (main,) = status["containerStatuses"]
    ended = {"terminated": {"exitCode": 137, "reason": "RestartingAllContainers"}}
    main = {**main, "restartCount": 1, "lastState": ended}
    sidecar = {**main, "name": SIDECAR, "state": {"running": {}}}
    body = {"status": {"containerStatuses": [main], "initContainerStatuses": [sidecar]}}
    await job_namespace.admin.patch(PODS.path(job_namespace.namespace, name, "status"), body)


async def _scale(job_namespace, count):
    await job_namespace.admin.patch(TFJOBS.path(job_namespace.namespace, "j", "scale"), {"spec": {"replicas": count}})
