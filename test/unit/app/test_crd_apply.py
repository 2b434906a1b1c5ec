"""Applying the definition: how it is asked for, and when it is done."""

import json

import pytest

from support.disturbances.loopback import Loopback, reply
from support.fake_clock import FakeClock
from support.operators.config_source import ConfigSource
from tf_operator.app import crd_apply
from tf_operator.app.crd_apply import NotServed, StillStored, apply
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.in_cluster import InCluster

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tfjobs.x"},
    "spec": {
        "group": "x",
        "names": {"plural": "tfjobs", "kind": "TFJob"},
        "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
    },
}
ESTABLISHED = {"NamesAccepted": "True", "Established": "True"}


def at(server):
    return ConfigSource(ClientConfig(server.url))


def seen_as(**conditions):
    listed = [{"type": name, "status": status, "message": "so it is"} for name, status in conditions.items()]
    return reply(200, json.dumps({**CRD, "status": {"conditions": listed}}).encode())


class HastyClock(FakeClock):
    """Time passes at once for whatever sleeps."""

    async def sleep(self, seconds):
        await self.advance(seconds)


async def test_the_definition_is_applied_as_a_whole_by_force_and_waited_for():
    answers = [
        seen_as(),
        seen_as(Established="False"),
        *(seen_as(**ESTABLISHED), reply(404, b"404 page not found")),
        *(seen_as(**ESTABLISHED), reply(200, b"{}")),
    ]
    async with Loopback(answers) as server:
        await apply(CRD, at(server), HastyClock())

    patch, *reads = server.requests
    assert (patch.method, json.loads(patch.body)) == ("PATCH", CRD)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.x"
    assert patch.target == f"{path}?fieldManager=tf-operator&force=true"
    assert patch.headers["content-type"] == "application/apply-patch+yaml"
    listing = "/apis/x/v1/namespaces/default/tfjobs?limit=1"
    assert [read.target for read in reads] == [path, path, listing, path, listing]


async def test_the_right_to_list_the_objects_is_not_needed():
    denied = reply(403, b'{"kind":"Status","reason":"Forbidden","message":"not you"}')
    async with Loopback([seen_as(), seen_as(**ESTABLISHED), denied]) as server:
        await apply(CRD, at(server), HastyClock())


@pytest.mark.parametrize(
    ("conditions", "reason"), [({"NamesAccepted": "False"}, "so it is"), ({}, "it is not established yet")]
)
async def test_a_definition_that_is_never_served_is_an_error_with_the_reason(conditions, reason, monkeypatch):
    monkeypatch.setattr(crd_apply, "SERVED_WITHIN", 2)
    async with Loopback(seen_as(**conditions)) as server:
        with pytest.raises(NotServed, match=f"not served after 2 s: {reason}"):
            await apply(CRD, at(server), HastyClock())


async def test_a_refusal_is_an_error_of_the_api():
    async with Loopback(reply(403, b'{"kind":"Status","reason":"Forbidden","message":"not you"}')) as server:
        with pytest.raises(errors.Forbidden, match="not you"):
            await apply(CRD, at(server), FakeClock())


async def test_versions_that_wait_for_their_webhook_are_named():
    """The webhook may be there only after its definition."""
    conversion = {"conversion": {"strategy": "Webhook"}}
    crd = CRD | {"spec": CRD["spec"] | conversion}
    crd["spec"]["versions"] = [{"name": name, "served": True} for name in ("v1", "v0")]

    def answer(request):
        if request.target.startswith("/apis/x/v0/"):
            return reply(500, b'{"kind":"Status","reason":"InternalError","message":"conversion webhook failed"}')
        established = [{"type": name, "status": status} for name, status in ESTABLISHED.items()]
        return reply(200, json.dumps({**crd, "status": {"conditions": established}}).encode())

    async with Loopback(answer) as server:
        assert await apply(crd, at(server), HastyClock()) == ["v0"]


async def test_a_definition_without_a_version_that_is_stored_is_refused_with_the_way_on():
    refused = reply(422, b'{"kind":"Status","reason":"Invalid","message":"status.storedVersions: missing"}')
    stored = reply(200, json.dumps({**CRD, "status": {"storedVersions": ["v1beta1", "v1"]}}).encode())
    async with Loopback([refused, stored]) as server:
        with pytest.raises(StillStored, match="stored in v1beta1: first run tf-operator crd migrate"):
            await apply(CRD, at(server), HastyClock())


@pytest.mark.parametrize(
    ("kubeconfig", "environment", "is_pod"),
    [
        (None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        ("file", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        (None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "file"}, False),
        (None, {}, False),
    ],
)
def test_a_pod_without_a_kubeconfig_uses_its_service_account(kubeconfig, environment, is_pod, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert isinstance(crd_apply.source_of(kubeconfig, environment), InCluster) == is_pod
