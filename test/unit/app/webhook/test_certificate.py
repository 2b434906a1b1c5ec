"""Keeping the webhook's certificate: the Secret, the CRDs, and who may write them."""

import asyncio
import base64
import ssl

import pytest
import structlog

from tf_operator.app.webhook import certificate, keys
from tf_operator.app.webhook.certificate import CRDS, SECRETS, KeptCertificate, NoCertificate
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.transport.errors import Forbidden, NotFound, Status
from tf_operator.meta import ObjectKey

SECRET = ObjectKey("kubeflow", "webhook")
CRD = ObjectKey("", "tfjobs.kubeflow.org")


class Cluster:
    """Two objects, and what was written to them."""

    def __init__(self, conversion):
        self.objects = {
            (str(SECRETS), SECRET): {"metadata": {"resourceVersion": "1"}, "data": {"tls.crt": "%", "other": "eA=="}},
            (str(CRDS), CRD): {"spec": {"conversion": conversion}},
        }
        self.patched = []
        self.refused = None

    async def get(self, resource, key):
        if (str(resource), key) not in self.objects:
            raise NotFound(404, Status(message="there is no such Secret"))
        return self.objects[str(resource), key]

    async def merge_patch(self, resource, key, body):
        if resource is self.refused:
            raise Forbidden(403, Status(message="not this one"))
        self.patched.append(str(resource))
        if resource is SECRETS:
            self.objects[str(resource), key]["data"] |= {name: text for name, text in body["data"].items() if text}
        else:
            self.objects[str(resource), key]["spec"]["conversion"]["webhook"] |= body["spec"]["conversion"]["webhook"]


async def kept(cluster, clock, *, guard=lambda: None):
    """After two looks."""
    found = KeptCertificate(cluster, guard, secret=SECRET, crds=[CRD.name], host="localhost", clock=clock)
    keeping = asyncio.create_task(found.keep())
    await clock.advance(certificate.EVERY)
    keeping.cancel()
    return found


def not_leading():
    raise NotLeading


def stored(cluster):
    return {name: base64.b64decode(text) for name, text in cluster.objects[str(SECRETS), SECRET]["data"].items()}


def encoded(found):
    return {name: base64.b64encode(value).decode() for name, value in found.data().items()}


async def test_a_leader_fills_the_secret_once_and_writes_the_authority_into_the_crd(clock):
    cluster = Cluster({"strategy": "Webhook", "webhook": {"clientConfig": {}}})
    found = await kept(cluster, clock)

    assert cluster.patched == [str(SECRETS), str(CRDS)]
    assert stored(cluster)["other"] == b"x"
    bundle = cluster.objects[str(CRDS), CRD]["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle) == keys.Keys.read(stored(cluster)).bundle
    assert (found.trouble(), found.context()) == ("", found.context())


async def test_a_standby_serves_what_it_finds_and_writes_nothing(clock):
    cluster = Cluster({"strategy": "Webhook", "webhook": {"clientConfig": {}}})
    nothing = await kept(cluster, clock, guard=not_leading)
    with pytest.raises(NoCertificate):
        nothing.context()
    assert nothing.trouble() == "the webhook has no certificate yet: starting"
    cluster.objects[str(SECRETS), SECRET]["data"] = encoded(keys.next_keys(keys.Keys(), "localhost", clock.now()))
    found = await kept(cluster, clock, guard=not_leading)

    assert (found.trouble(), cluster.patched) == ("", [])


async def test_a_new_certificate_waits_until_its_authority_could_be_written_into_the_crd(clock):
    cluster = Cluster({"strategy": "Webhook", "webhook": {"clientConfig": {}}})
    old = keys.next_keys(keys.Keys(), "localhost", clock.now() - keys.VALID_FOR * 0.7)
    cluster.objects[str(SECRETS), SECRET]["data"] = encoded(old)
    cluster.refused = CRDS
    for _ in range(10):
        await kept(cluster, clock)
    waiting = keys.Keys.read(stored(cluster)).waiting
    assert (stored(cluster)["tls.crt"], waiting == keys.Pair()) == (old.served.certificate, False)

    cluster.refused = None
    await kept(cluster, clock)
    assert cluster.patched[-3:] == [str(SECRETS), str(CRDS), str(SECRETS)]
    assert stored(cluster)["tls.crt"] == waiting.certificate


async def test_a_crd_without_a_webhook_is_left_alone(clock):
    cluster = Cluster({"strategy": "None"})
    await kept(cluster, clock)

    assert cluster.patched == [str(SECRETS)]


async def test_a_missing_secret_is_reported_once_and_looked_for_again(clock):
    cluster = Cluster({"strategy": "None"})
    secret = cluster.objects.pop((str(SECRETS), SECRET))
    with structlog.testing.capture_logs() as logs:
        found = await kept(cluster, clock)
    assert [entry["error"] for entry in logs] == ["there is no such Secret"]
    assert found.trouble() == "the webhook has no certificate yet: there is no such Secret"

    cluster.objects[str(SECRETS), SECRET] = secret
    assert (await kept(cluster, clock)).trouble() == ""


async def test_a_pair_that_openssl_refuses_is_reported_and_does_not_end_the_process(clock, monkeypatch):
    def refuse(_pair):
        raise ssl.SSLError("key too small")

    monkeypatch.setattr(certificate, "_server_context", refuse)
    cluster = Cluster({"strategy": "None"})
    assert (await kept(cluster, clock)).trouble().startswith("the webhook has no certificate yet: ('key too small'")
