"""``helm test``: its programs do what they are for, here as processes on this machine.

The job's pods run nowhere; a kubelet driver moves them. What a node would run in them, the handshake of the workers, is
run beside it, with two processes.
"""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from lab.control_plane.servers import free_port
from support.api import Api
from support.operators.operator_process import operator
from support.partners.helm import CHART, one, parsed
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit
from support.resources import PODS, TFJOBS
from support.settle import eventually

FILES = CHART / "files"


@pytest.fixture
async def kubelet(plane, namespace):
    async with Api(plane.kubeconfig("kubelet")) as api:
        yield Kubelet(api, namespace)


@pytest.fixture
def namespace(request, plane):
    name = plane.make_namespace(request.node.name)
    plane.admin.patch(
        f"/api/v1/namespaces/{name}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    return name


@pytest.fixture
async def pod(plane, helm_3, namespace, kubectl, tmp_path):
    """What is in the pod of ``helm test``: its files, its account, its environment."""
    text = helm_3.ok("template", "tf", CHART, "--namespace", namespace)
    objects = parsed(text)
    for body in objects:
        if body["kind"] in {"ServiceAccount", "RoleBinding"} and body["metadata"]["name"].endswith("-test"):
            kubectl("create", "--filename=-", stdin=json.dumps(body))
    # The roles that make an editor of TFJobs of whoever edits are in the plane already: those of manifests/rbac.
    account = f"system:serviceaccount:{namespace}:tf-tf-operator-test"
    await eventually(lambda: is_editor(kubectl, account, namespace), within=30)
    (tmp_path / "account").mkdir()
    token = kubectl("create", "token", "tf-tf-operator-test", f"--namespace={namespace}")
    (tmp_path / "account" / "token").write_text(token)
    (tmp_path / "account" / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    files = tmp_path / "test"
    files.mkdir()
    for name, content in one(objects, "ConfigMap", "tf-tf-operator-test")["data"].items():
        (files / name).write_text(content)
    host, _, port = plane.api_url.removeprefix("https://").rpartition(":")
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "SERVICE_ACCOUNT": str(tmp_path / "account"),
        "TIMEOUT_SECONDS": "60",
    }
    return files / "run_job.py", environment


def is_editor(kubectl, account, namespace):
    """Kubernetes adds the rules to its own role in its own time."""
    try:
        return kubectl("auth", "can-i", "create", "tfjobs", f"--as={account}", f"--namespace={namespace}") == "yes\n"
    except subprocess.CalledProcessError:  # it exits with 1 to say no
        return False


def start(pod, **more):
    program, environment = pod
    return subprocess.Popen(
        [sys.executable, program],
        env={**os.environ, **environment, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


async def outcome(process):
    output, _ = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, output


def workers(plane, namespace):
    items = plane.admin.get(PODS.path(namespace))["items"]
    return [item["metadata"]["name"] for item in items] if len(items) == 2 else []


@pytest.mark.parametrize("exit_code", [0, 3])
async def test_it_ends_as_its_job_does_with_the_reason_and_leaves_no_job(plane, namespace, kubelet, pod, exit_code):
    async with operator(plane, namespaces=[namespace]):
        process = start(pod)
        names = await eventually(lambda: workers(plane, namespace), within=30)
        for name in names[: 1 if exit_code else 2]:
            await kubelet.run(name)
            await (kubelet.fail(name, Exit(exit_code)) if exit_code else kubelet.succeed(name))
        code, output = await outcome(process)

    words = ["Failed:", f"pod {names[0]}: Failed", '"exitCode": 3'] if exit_code else ["Succeeded:"]
    assert (code, [word for word in words if word not in output]) == (int(bool(exit_code)), []), output
    await eventually(lambda: plane.admin.get(TFJOBS.path(namespace))["items"] == [])


async def test_it_fails_and_asks_for_the_operator_when_nobody_takes_the_job_up(plane, namespace, pod):
    code, output = await outcome(start(pod, TIMEOUT_SECONDS="2"))

    assert code == 1
    assert "Nobody has taken the job up: is the operator ready?" in output
    assert plane.admin.get(TFJOBS.path(namespace))["items"] == []


async def test_it_says_why_when_it_may_not_create_jobs(plane, namespace, kubectl, pod):
    kubectl("delete", "rolebinding", "tf-tf-operator-test", f"--namespace={namespace}")
    account = f"system:serviceaccount:{namespace}:tf-tf-operator-test"
    await eventually(lambda: not is_editor(kubectl, account, namespace))
    code, output = await outcome(start(pod))

    assert code == 1
    assert 'refused: tfjobs.kubeflow.org is forbidden: User "system:serviceaccount:' in output


def shake_hands(*addresses, index):
    config = {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}}
    return subprocess.Popen(
        [sys.executable, "-c", (FILES / "worker.py").read_text()],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_workers_that_reach_each_other_succeed():
    ports = set()
    while len(ports) < 2:
        ports.add(free_port())
    addresses = [f"127.0.0.1:{port}" for port in ports]
    first = shake_hands(*addresses, index=0)
    second = shake_hands(*addresses, index=1)
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]

    assert (first.returncode, second.returncode) == (0, 0)
    assert outputs[0].splitlines()[-1] == "worker 0 was reached by [1]"
    assert f"worker 1 has reached worker 0 at {addresses[0]}" in outputs[1]
