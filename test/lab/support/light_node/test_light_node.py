"""A light node: what is deployed to it runs, and its Services send to what is ready."""

import contextlib
import socket
import sys
from pathlib import Path

import pytest

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.pods.light_node.node import LightNode
from support.pods.light_node.pod import SERVICE_ACCOUNT
from support.settle import eventually

GREETER = Path(__file__).with_name("greeter.py")
HTTP = {"path": "/not-ready", "port": "web"}
ALIVE = {"path": "/not-alive", "port": "web"}


@pytest.fixture(scope="module")
def plane(plane_programs, tmp_path_factory):
    root = tmp_path_factory.mktemp("light") / "plane"
    with ControlPlane.up(root, frozenset({"controller-manager", "services"})) as plane:
        yield plane


@pytest.fixture
def node(plane, tmp_path):
    with LightNode.up(plane, tmp_path, {"localhost/greeter": [sys.executable, str(GREETER)]}) as node:
        yield node


class Greeters:
    """A Deployment of greeters, and its Service."""

    def __init__(self, plane, node, namespace, folder):
        self.plane, self.node, self.namespace, self.folder = plane, node, namespace, folder
        self.deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/greeters"
        self.service = f"/api/v1/namespaces/{namespace}/services/greeters"

    def deploy(self, **spec):
        container = {
            "name": "greeter",
            "image": "localhost/greeter:1",
            "args": ["first"],
            "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"name": "web", "containerPort": 8081}],
            "readinessProbe": {"httpGet": HTTP, "failureThreshold": 1},
            "livenessProbe": {"httpGet": ALIVE, "initialDelaySeconds": 5, "periodSeconds": 1},
        }
        labels = {"app": "greeters"}
        pod = {"serviceAccountName": "default", "terminationGracePeriodSeconds": 5, "containers": [container]}
        spec |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        admin, spec = self.plane.admin, spec | {"strategy": rolling}
        admin.create(self.deployment.rpartition("/")[0], {"metadata": {"name": "greeters"}, "spec": spec})
        ports = [{"name": "web", "port": 443, "targetPort": "web"}]
        service = {"metadata": {"name": "greeters"}, "spec": {"selector": labels, "ports": ports}}
        self.address = admin.create(self.service.rpartition("/")[0], service)["spec"]["clusterIP"]

    def ready(self):
        return self.plane.admin.get(self.deployment)["status"].get("readyReplicas", 0)

    def change(self, argument):
        pod = {"spec": {"containers": [{"name": "greeter", "args": [argument]}]}}
        kind = "application/strategic-merge-patch+json"
        self.plane.admin.patch(self.deployment, {"spec": {"template": pod}}, kind=kind)

    def mark(self, pod, word):
        """Have the probe at this path fail."""
        (self.folder / pod.name / word).touch()

    def greetings(self, count=20):
        """Who answers, and with which argument."""
        return {tuple(self.greeting().split()) for _ in range(count)}

    def greeting(self):
        """Through the Service, as the API server dials it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.plane.layout.services_socket))
            connection.sendall(f"CONNECT {self.address}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = connection.recv(4096).decode()
            if " 200 " not in head:
                raise ConnectionRefusedError(head.split("\r\n")[0])
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode().rpartition("\r\n\r\n")[2]


@pytest.fixture
def greeters(plane, node, tmp_path):
    deployed = Greeters(plane, node, plane.make_namespace("greeters"), tmp_path)
    yield deployed
    with contextlib.suppress(ApiRefusedError):  # the test has done it
        plane.admin.delete(deployed.deployment)


async def test_a_service_sends_to_all_pods_that_are_ready_and_to_no_other(plane, node, greeters):
    greeters.deploy(replicas=2)
    await eventually(lambda: greeters.ready() == 2, within=60)
    one, other = sorted(pod.name for pod in node.pods)

    def are_both_heard():
        with contextlib.suppress(ConnectionError):  # the endpoints are written by another controller
            return greeters.greetings() == {(one, "first"), (other, "first")}

    await eventually(are_both_heard, within=60)

    greeters.mark(next(pod for pod in node.pods if pod.name == one), "not-ready")
    await eventually(lambda: greeters.greetings() == {(other, "first")}, within=60)
    plane.admin.patch(greeters.service, {"spec": {"publishNotReadyAddresses": True}})
    await eventually(lambda: len(greeters.greetings()) == 2, within=60)
    plane.admin.patch(greeters.service, {"spec": {"publishNotReadyAddresses": False}})
    greeters.mark(next(pod for pod in node.pods if pod.name == other), "not-ready")

    def is_refused():
        try:
            greeters.greeting()
        except ConnectionRefusedError as refusal:
            return "has no endpoint that is ready" in str(refusal)
        return False

    await eventually(is_refused, within=60)


async def test_a_rollout_waits_for_readiness_and_ends_the_old_pods_in_peace(node, greeters):
    greeters.deploy(replicas=1)
    await eventually(lambda: greeters.ready() == 1, within=60)
    (old,) = node.pods
    greeters.change("second")

    def is_second():
        # A pod that was ready a moment ago ends at its SIGTERM, as in a cluster: connections until then may break.
        with contextlib.suppress(ConnectionError, ValueError):
            return {argument for _, argument in greeters.greetings(5)} == {"second"}

    await eventually(is_second, within=60)
    await eventually(lambda: [pod.name for pod in node.pods] != [old.name] and len(node.pods) == 1, within=60)
    assert old.log.read_text().endswith("ends well\n")
    (new,) = node.pods
    greeters.mark(new, "not-ready")
    await eventually(lambda: greeters.ready() == 0, within=60)
    greeters.change("third")
    await eventually(lambda: greeters.ready() == 1, within=60)


async def test_a_process_that_ends_or_fails_its_liveness_probe_is_started_again(plane, node, greeters):
    greeters.deploy(replicas=1)
    await eventually(lambda: greeters.ready() == 1, within=60)
    (pod,) = node.pods

    def restarts():
        body = plane.admin.get(f"/api/v1/namespaces/{greeters.namespace}/pods/{pod.name}")
        return body["status"]["containerStatuses"][0]["restartCount"], greeters.ready()

    pod.kill()
    await eventually(lambda: restarts() == (1, 1), within=60)
    greeters.mark(pod, "not-alive")
    await eventually(lambda: restarts()[0] >= 2, within=60)


async def test_a_pod_has_the_token_of_its_service_account_and_its_rights(plane, node, greeters):
    greeters.deploy(replicas=1)
    await eventually(lambda: greeters.ready() == 1, within=60)
    (pod,) = node.pods
    folder = greeters.folder / pod.name / SERVICE_ACCOUNT
    assert (folder / "namespace").read_text() == greeters.namespace
    assert "BEGIN CERTIFICATE" in (folder / "ca.crt").read_text()
    review = {"spec": {"token": (folder / "token").read_text()}}
    status = plane.admin.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["user"]["username"] == f"system:serviceaccount:{greeters.namespace}:default"

    plane.admin.delete(greeters.deployment)
    await eventually(lambda: node.pods == [], within=60)
    with pytest.raises(ApiRefusedError, match="not found"):
        plane.admin.get(f"/api/v1/namespaces/{greeters.namespace}/pods/{pod.name}")
