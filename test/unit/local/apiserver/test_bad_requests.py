"""Whatever is sent, the answer is a Status, and what is stored stays."""

import random

import msgspec
import pytest

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import Request

TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONTAINERS = [
    {"name": "tensorflow", "image": "i", "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 1}]}
]
JOB = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": {"containers": CONTAINERS}}}}}}
GOOD = {
    "/api/v1/namespaces/default/pods": {"spec": {"containers": CONTAINERS, "volumes": [{"name": "v", "emptyDir": {}}]}},
    "/api/v1/namespaces/default/services": {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}},
    "/api/v1/namespaces/default/secrets": {"data": {"a": "Yg=="}},
    "/api/v1/namespaces/default/resourcequotas": {"spec": {"hard": {"pods": "9"}}},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"spec": {"holderIdentity": "x"}},
    TFJOBS: {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **JOB},
    CRDS: registry.DEFAULT.crd.load(),
}
JUNK = [None, True, -1, 1.5, 10**30, "", "a/b", "..", "\0", [], {}, [None], {"a": None}, [{}], [["x"]]]
FIELDS = [
    "metadata",
    "spec",
    "status",
    "finalizers",
    "ownerReferences",
    "labels",
    "generateName",
    "uid",
    "managedFields",
]
TEXTS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"[" * 5000,
    b'{"metadata":null}',
    b'[{"op":"test"}]',
    b'{"$patch":"delete"}',
]
MEDIA = [
    "json",
    "merge-patch+json",
    "json-patch+json",
    "strategic-merge-patch+json",
    "apply-patch+yaml",
    "yaml",
    "none",
]
QUERIES = [
    {"dryRun": "x"},
    {"limit": "x"},
    {"continue": "e30"},
    {"labelSelector": "a in (b"},
    {"watch": "1", "timeoutSeconds": "-3"},
    {"fieldManager": "m", "force": "x"},
    {"resourceVersion": "3", "resourceVersionMatch": "Exact"},
    {"gracePeriodSeconds": "-5"},
]


def broken(value, chance, *, depth=0):
    """A copy with junk in some places."""
    if depth and chance.random() < 0.1:
        return chance.choice(JUNK)
    if isinstance(value, list):
        return [broken(item, chance, depth=depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: broken(item, chance, depth=depth + 1) for name, item in value.items()}
    return fields | ({chance.choice(FIELDS): chance.choice(JUNK)} if chance.random() < 0.1 else {})


def bad_request(chance):
    path, body = chance.choice(list(GOOD.items()))
    method = chance.choice(["POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "GET", "OPTIONS"])
    if method != "POST":
        path += chance.choice(["", "/a", "/a", "/a/status", "/a/scale", "/a/binding", "/a/log", "/a/none", "/%2e%2e"])
    sent = msgspec.json.encode(broken({"metadata": {"name": "a"}, **body}, chance))
    sent = chance.choice(TEXTS) if chance.random() < 0.2 else sent
    media = "application/" + (chance.choice(MEDIA) if method == "PATCH" or chance.random() < 0.2 else "json")
    return Request("", method, path, chance.choice(QUERIES) if chance.random() < 0.3 else {}, sent, media)


@pytest.fixture(scope="module")
def server():
    api = ApiServer(FakeClock(), kinds=catalog.KINDS)
    toy_kinds.call(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    toy_kinds.call(api, "POST", CRDS, GOOD[CRDS])
    toy_kinds.call(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    toy_kinds.call(api, "POST", "/api/v1/namespaces/kept/configmaps", {"metadata": {"name": "a"}, "data": {"a": "b"}})
    return api


@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_bad_requests_end_in_a_status_each_and_nothing_is_lost(server, seed):
    chance, stored = random.Random(seed), toy_kinds.call(server, "GET", "/api/v1/namespaces/kept/configmaps/a")
    for request in [bad_request(chance) for _ in range(100)]:
        answer = server.handle(request)
        # One of them may delete all CRDs, and what was of their kinds has no Status then.
        if isinstance(answer, Response) and answer.body != b"404 page not found\n":
            body = msgspec.json.decode(answer.body)
            assert answer.code < 400 or (body["kind"], body["code"]) == ("Status", answer.code)
            assert body.get("reason") != "InternalError", (request, request.body)
        server.collect()
    assert toy_kinds.call(server, "GET", "/api/v1/namespaces/kept/configmaps/a") == stored
