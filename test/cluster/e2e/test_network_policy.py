"""Whom a job's NetworkPolicy lets in, where a network plugin enforces it: kube-router, or that of the given cluster."""

from contextlib import contextmanager

import pytest

from support.given_cluster import GivenCluster
from support.jobs.real_namespace import PATIENCE_SECONDS, Program, small_job
from support.partners import kube_router
from support.settle import eventually

# Listens where a TensorFlow server would, until the test has seen enough.
SERVES = """
import os, socketserver, threading, time

class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"here")

server = socketserver.ThreadingTCPServer(("", 2222), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
while not os.path.exists("/tmp/end"): time.sleep(0.2)
"""
ASKS = "import socket, sys; print(socket.create_connection((sys.argv[1], 2222), timeout=5).recv(9).decode())"
REPORTS = """
import json, os, ssl, urllib.request
name = "KUBEFLOW_TRAINER_SERVER_"
token = open(os.environ[name + "TOKEN"]).read()
context = ssl.create_default_context(cafile=os.environ[name + "CA_CERT"])
body = json.dumps({"trainerStatus": {"progressPercentage": 34}}).encode()
request = urllib.request.Request(os.environ[name + "URL"], body, {"Authorization": "Bearer " + token})
urllib.request.urlopen(request, timeout=10, context=context)
"""
PROBE = {"tcpSocket": {"port": 2222}, "periodSeconds": 1, "failureThreshold": 1}


@pytest.fixture
def node(operator):
    """The node on which policies are enforced, so that of the operator is, too."""
    return operator.kubectl.get("pod", operator.leader())["spec"]["nodeName"]


@pytest.fixture
def start(here, images, node):
    """Start a job whose pods are ready as long as the kubelet can probe them."""

    async def call(name, *, workers, **fields):
        program = Program(images.operator, SERVES)
        body = small_job(name, program, workers=workers)
        pod = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
        pod |= {
            "containers": [program.container() | {"readinessProbe": PROBE}],
            "nodeSelector": {"kubernetes.io/hostname": node},
        }
        body["spec"]["runPolicy"]["progressPolicy"] = {"reports": True}
        here.kubectl.create(body | {"spec": {**body["spec"], **fields}})
        await eventually(lambda: ready(here, name) == ["True"] * workers, within=PATIENCE_SECONDS, every=1.0)

    return call


def ready(here, name):
    conditions = [it for pod in here.pods(name).values() for it in pod["status"].get("conditions", ())]
    return [it["status"] for it in conditions if it["type"] == "Ready"]


@pytest.fixture
def is_reached(here):
    """Whether a pod gets an answer from another one, by its name."""

    def call(pod, peer):
        ask = ("exec", pod, "--container=tensorflow", "--", "python3", "-c", ASKS, f"{peer}.{here.name}.svc")
        return here.kubectl.attempt(*ask).stdout.strip() == "here"

    return call


@pytest.fixture
def start_plugin(cluster, node, tmp_path, is_reached):
    """Have policies enforced while the body runs; until then all pods are open. A given cluster has its own plugin."""

    @contextmanager
    def call(open_before):
        if isinstance(cluster, GivenCluster):
            yield
            return
        assert all(is_reached(*pair) for pair in open_before)
        with kube_router.enforced_policies(cluster, tmp_path, node=node) as firewall:
            yield
            assert firewall.rules()
            assert not any("KUBE-ROUTER" in rule for rule in kube_router.rules())

    return call


@pytest.mark.nightly
@pytest.mark.programs(kube_router.PROGRAM)
async def test_only_the_pods_of_a_job_with_a_policy_reach_them_and_the_job_goes_on(
    here, images, start, start_plugin, is_reached
):
    await start("one", workers=2, networkPolicy="Job")
    await start("two", workers=1, networkPolicy="Job")
    await start("open", workers=1)
    container = Program(images.operator, SERVES).container()
    here.kubectl.create(
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )
    here.kubectl.run("wait", "--for=condition=Ready", "pod/p", "--timeout=90s")
    others = [("two-worker-0", "one-worker-0"), ("p", "one-worker-1"), ("open-worker-0", "two-worker-0")]

    with start_plugin(others):
        await eventually(lambda: not any(is_reached(*pair) for pair in others), within=60, every=1.0)
        own = [("one-worker-0", "one-worker-1"), ("one-worker-1", "one-worker-0")]
        to_open = [(pod, "open-worker-0") for pod in ("p", "one-worker-0", "two-worker-0")]
        assert all(is_reached(*pair) for pair in (*own, *to_open))
        here.kubectl.run("exec", "one-worker-0", "--container=tensorflow", "--", "python3", "-c", REPORTS)

        def percentage():
            return here.job("one")["status"].get("trainerStatus", {}).get("progressPercentage")

        await eventually(lambda: percentage() == 34, within=60, every=1.0)
        assert ready(here, "one") == ["True", "True"]
        for replica in ("worker-0", "worker-1"):
            here.end("one", replica)
        await here.wait_state("one", "Succeeded", within=90)
