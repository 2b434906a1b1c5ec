"""Keeping the webhook's certificate: the Secret, the CRDs, and who may write them."""

import asyncio
import base64
import copy
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import structlog
import trustme

from tf_operator.app.crd_apply import CRDS
from tf_operator.app.logs import guarded
from tf_operator.app.webhook import certificate, endpoint, keys
from tf_operator.app.webhook.certificate import SECRETS, KeptCertificate, NoCertificate
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.transport.errors import Conflict, Forbidden, NotFound, Status
from tf_operator.meta import ObjectKey

SECRET = ObjectKey("kubeflow", "webhook")
CRD = ObjectKey("", "tfjobs.kubeflow.org")


class Cluster:
    """Two objects, each with a version, and what was written to them."""

    def __init__(self, conversion, data=None):
        self.objects = {
            str(SECRETS): {"data": data or {"tls.crt": "%", "other": "eA=="}},
            str(CRDS): {"spec": {"conversion": conversion}},
        }
        for resource, key in ((SECRETS, SECRET), (CRDS, CRD)):
            head = {"namespace": key.namespace, "name": key.name, "resourceVersion": "1"}
            self.objects[str(resource)]["metadata"] = head
        self.patched = []
        self.refused = None
        self.after_read = None
        """Called once, with the resource that was read."""

    async def get(self, resource, key):
        if str(resource) not in self.objects:
            raise NotFound(404, Status(message="there is no such Secret"))
        body = copy.deepcopy(self.objects[str(resource)])
        if self.after_read:
            self.after_read(resource)
        return body

    async def merge_patch(self, resource, key, body):
        if resource is self.refused:
            raise Forbidden(403, Status(message="not this one"))
        present = self.objects[str(resource)]
        if body["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise Conflict(409, Status(message="it has changed"))
        self.patched.append(str(resource))
        present["metadata"]["resourceVersion"] += "1"
        if resource is SECRETS:
            present["data"] = {name: text for name, text in (present["data"] | body["data"]).items() if text}
        else:
            config = body["spec"]["conversion"]["webhook"]["clientConfig"]
            present["spec"]["conversion"]["webhook"]["clientConfig"] |= config


class Standby:
    """What a client does that is for a leader, where another one leads."""

    async def get(self, *_):
        raise NotLeading

    merge_patch = get


def make(cluster, clock, leader=None):
    return KeptCertificate(cluster, leader or cluster, secret=SECRET, crds=[CRD.name], host="localhost", clock=clock)


async def certificate_after(cluster, clock, leader=None, *, seconds=certificate.EVERY):
    """After some seconds."""
    own_certificate = make(cluster, clock, leader)
    keeping = asyncio.create_task(own_certificate.keep())
    await clock.advance(seconds)
    keeping.cancel()
    return own_certificate


def stored(cluster):
    return {name: base64.b64decode(text) for name, text in cluster.objects[str(SECRETS)]["data"].items()}


def bundle(cluster):
    config = cluster.objects[str(CRDS)]["spec"]["conversion"]["webhook"]["clientConfig"]
    return base64.b64decode(config.get("caBundle", ""))


def with_webhook(text=""):
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://localhost:9443/convert"} | ({"caBundle": text} if text else {})},
    }


def encoded(own_keys):
    return {name: base64.b64encode(value).decode() for name, value in own_keys.data().items()}


@pytest.mark.parametrize("leader", [None, Standby()], ids=["a leader", "a standby"])
async def test_any_replica_fills_an_empty_secret_once_and_writes_its_authority_into_the_crd(clock, leader):
    cluster = Cluster(with_webhook())
    own_certificate = await certificate_after(cluster, clock, leader, seconds=3 * certificate.EVERY)

    assert cluster.patched == [str(SECRETS), str(CRDS)]
    assert stored(cluster)["other"] == b"x"
    assert bundle(cluster) == keys.Keys.read(stored(cluster)).bundle != b""
    assert (own_certificate.trouble(), own_certificate.context()) == ("", own_certificate.context())


async def test_of_replicas_that_fill_an_empty_secret_at_once_one_wins_and_all_serve_the_same(clock):
    cluster = Cluster(with_webhook())
    replicas = [make(cluster, clock, Standby()) for _ in range(3)]
    with structlog.testing.capture_logs() as logs:
        keeping = [asyncio.create_task(replica.keep()) for replica in replicas]
        await clock.advance(2 * certificate.SOON)
        for task in keeping:
            task.cancel()

    assert cluster.patched == [str(SECRETS), str(CRDS)]
    assert {replica._served for replica in replicas} == {keys.Keys.read(stored(cluster)).served}
    (record,) = (guarded(None, "info", entry) for entry in logs)
    assert (record["event"], record["stored_in"]) == ("the webhook's certificate has changed", str(SECRET))


@pytest.mark.parametrize(
    ("host", "age"), [("other", 0.0), ("localhost", 1.1)], ids=["for another host", "that has expired"]
)
async def test_a_standby_replaces_a_certificate_that_is_of_no_use(clock, host, age):
    useless = keys.next_keys(keys.Keys(), host, clock.now() - keys.VALID_FOR * age)
    cluster = Cluster(with_webhook(base64.b64encode(useless.bundle).decode()), encoded(useless))
    await certificate_after(cluster, clock, Standby())

    assert cluster.patched == [str(SECRETS), str(CRDS)]
    assert bundle(cluster) == stored(cluster)["ca.crt"] != useless.bundle


async def test_a_standby_serves_what_it_finds_and_leaves_what_can_wait_to_the_leader(clock):
    old = keys.next_keys(keys.Keys(), "localhost", clock.now() - keys.VALID_FOR * 0.7)
    more = old.bundle + keys.next_keys(keys.Keys(), "localhost", clock.now()).bundle
    cluster = Cluster(with_webhook(base64.b64encode(more).decode()), encoded(old))
    own_certificate = await certificate_after(cluster, clock, Standby())
    assert (own_certificate.trouble(), cluster.patched) == ("", [])

    await certificate_after(cluster, clock)
    assert cluster.patched == [str(SECRETS), str(CRDS)]
    assert stored(cluster)["next.crt"] != b""


async def test_an_authority_that_was_read_before_a_renewal_is_not_written_after_it(clock):
    """The replica was stopped between the two: what it has read of the CRD and of the Secret is old."""
    first, second = (keys.next_keys(keys.Keys(), "localhost", clock.now()) for _ in range(2))
    cluster = Cluster(with_webhook(), encoded(first))

    def renew(resource):
        if resource is CRDS:
            cluster.after_read = None
            cluster.objects[str(SECRETS)]["data"] = encoded(second)
            cluster.objects[str(CRDS)] |= {"spec": {"conversion": with_webhook("AAAA")}}
            cluster.objects[str(CRDS)]["metadata"]["resourceVersion"] = "2"

    cluster.after_read = renew
    own_certificate = make(cluster, clock, Standby())
    await own_certificate._look()
    assert (cluster.patched, own_certificate._is_trusted) == ([], False)

    await own_certificate._look()
    assert (cluster.patched, bundle(cluster)) == ([str(CRDS)], second.bundle)


async def test_a_leader_that_has_lost_its_lease_renews_nothing(clock):
    """Each write is fenced: the term may end between a read and the write that follows from it."""
    old = keys.next_keys(keys.Keys(), "localhost", clock.now() - keys.VALID_FOR * 0.7)
    cluster = Cluster(with_webhook(base64.b64encode(old.bundle).decode()), encoded(old))

    class Deposed(Standby):
        """The lease was held until the reads were done."""

        get = cluster.get

    await certificate_after(cluster, clock, Deposed())
    assert cluster.patched == []


async def test_a_write_of_the_crd_loses_against_any_other_that_came_first(clock):
    own_keys = keys.next_keys(keys.Keys(), "localhost", clock.now())
    cluster = Cluster(with_webhook(), encoded(own_keys))

    def apply(resource):
        if resource is CRDS:
            cluster.after_read = None
            cluster.objects[str(CRDS)]["metadata"]["resourceVersion"] = "2"

    cluster.after_read = apply
    with pytest.raises(Conflict):
        await make(cluster, clock)._look()
    assert cluster.patched == []


async def test_a_new_certificate_waits_until_its_authority_could_be_written_into_the_crd(clock):
    old = keys.next_keys(keys.Keys(), "localhost", clock.now() - keys.VALID_FOR * 0.7)
    cluster = Cluster(with_webhook(base64.b64encode(old.bundle).decode()), encoded(old))
    cluster.refused = CRDS
    for _ in range(10):
        await certificate_after(cluster, clock)
    waiting = keys.Keys.read(stored(cluster)).waiting
    assert (stored(cluster)["tls.crt"], waiting == keys.Pair()) == (old.served.certificate, False)

    cluster.refused = None
    await certificate_after(cluster, clock)
    assert cluster.patched[-3:] == [str(SECRETS), str(CRDS), str(SECRETS)]
    assert stored(cluster)["tls.crt"] == waiting.certificate


@pytest.mark.parametrize("leader", [None, Standby()], ids=["a leader", "a standby"])
async def test_an_authority_that_somebody_removes_from_the_crd_is_put_back(clock, leader):
    """With jobs in older versions nobody may be able to lead before."""
    cluster = Cluster(with_webhook())
    keeping = asyncio.create_task(make(cluster, clock, leader).keep())
    await clock.advance(certificate.EVERY)
    cluster.objects[str(CRDS)]["spec"]["conversion"] = with_webhook()
    await clock.advance(certificate.EVERY)
    keeping.cancel()

    assert bundle(cluster) == stored(cluster)["ca.crt"]


async def test_a_crd_without_a_webhook_is_left_alone(clock):
    cluster = Cluster({"strategy": "None"})
    await certificate_after(cluster, clock)

    assert cluster.patched == [str(SECRETS)]


async def test_a_missing_secret_is_reported_once_and_looked_for_again(clock):
    cluster = Cluster({"strategy": "None"})
    secret = cluster.objects.pop(str(SECRETS))
    with structlog.testing.capture_logs() as logs:
        own_certificate = await certificate_after(cluster, clock)
    assert [entry["error"] for entry in logs] == ["there is no such Secret"]
    assert own_certificate.trouble() == "the webhook has no certificate yet: there is no such Secret"
    with pytest.raises(NoCertificate):
        own_certificate.context()

    cluster.objects[str(SECRETS)] = secret
    assert (await certificate_after(cluster, clock)).trouble() == ""


async def test_a_pair_that_openssl_refuses_is_reported_and_does_not_end_the_process(clock, monkeypatch):
    def refuse(_pair):
        raise ssl.SSLError("key too small")

    monkeypatch.setattr(certificate, "_server_context", refuse)
    cluster = Cluster({"strategy": "None"})
    own_certificate = await certificate_after(cluster, clock)
    assert own_certificate.trouble().startswith("the webhook has no certificate yet: ('key too small'")


@pytest.mark.parametrize(
    ("config", "host"),
    [
        ({"service": {"name": "theirs", "namespace": "team"}}, "theirs.team.svc"),
        ({"url": "https://example.org/convert"}, "example.org"),
        ({}, ""),
    ],
    ids=["service", "url", "neither"],
)
async def test_the_webhook_of_somebody_else_keeps_its_authority_and_is_reported_once(clock, config, host):
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": config | {"caBundle": "AAAA"}}}
    cluster = Cluster(conversion)
    with structlog.testing.capture_logs() as logs:
        own_certificate = await certificate_after(cluster, clock, seconds=5 * certificate.EVERY)

    assert cluster.patched == [str(SECRETS)]
    assert bundle(cluster) == b"\0\0\0"
    (record,) = (entry for entry in logs if entry["log_level"] == "warning")
    assert (record["crd"], record["host"], record["own"]) == (CRD.name, host, "localhost")
    assert (own_certificate.trouble(), own_certificate.outage()) == ("", f"{CRD.name} names another webhook, {host}")

    cluster.objects[str(CRDS)]["spec"]["conversion"] = with_webhook()
    await own_certificate._look()
    assert (own_certificate.outage(), bundle(cluster)) == ("", keys.Keys.read(stored(cluster)).bundle)


async def test_a_service_is_the_one_of_its_name_and_namespace(clock):
    service = {"name": "webhook", "namespace": "kubeflow"}
    cluster = Cluster({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}})
    own_certificate = KeptCertificate(
        cluster, cluster, secret=SECRET, crds=[CRD.name], host="webhook.kubeflow.svc", clock=clock
    )
    await own_certificate._look()
    assert cluster.patched == [str(SECRETS), str(CRDS)]


async def test_a_certificate_that_expires_while_it_cannot_be_renewed_answers_nothing(clock):
    cluster = Cluster(with_webhook())
    own_certificate = await certificate_after(cluster, clock)
    assert own_certificate.outage() == ""

    cluster.refused = SECRETS
    await clock.advance(keys.VALID_FOR.total_seconds() + 1)
    assert (own_certificate.trouble(), own_certificate.outage()) == ("", "the webhook's certificate has expired: ")


@pytest.mark.parametrize(
    ("lasts", "outage"), [(1, ""), (-1, "the webhook's certificate has expired")], ids=["valid", "expired"]
)
def test_a_certificate_from_files_answers_nothing_once_it_has_expired(tmp_path, lasts, outage):
    issued = trustme.CA().issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(hours=lasts))
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "tls.crt")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    own_certificate = endpoint._FromFiles("the webhook", tmp_path / "tls.crt", tmp_path / "tls.key")
    assert (own_certificate.trouble(), own_certificate.outage()) == ("", outage)


async def test_a_secret_that_is_emptied_is_a_renewal_and_no_replica_serves_what_the_api_server_does_not_know(clock):
    cluster = Cluster(with_webhook())
    replicas = [make(cluster, clock, Standby()) for _ in range(3)] + [make(cluster, clock)]
    keeping = [asyncio.create_task(replica.keep()) for replica in replicas]
    await clock.advance(2 * certificate.EVERY)
    first = keys.Keys.read(stored(cluster)).served

    cluster.objects[str(SECRETS)]["data"] = {}
    cluster.objects[str(SECRETS)]["metadata"]["resourceVersion"] += "1"
    lasted = []
    while not lasted or (lasted[-1] == {first} and len(lasted) < 100):
        await clock.advance(certificate.SOON)
        lasted.append({replica._served for replica in replicas})
        assert all(keys.is_trusted(bundle(cluster), replica._served) for replica in replicas)
    await clock.advance(2 * certificate.EVERY)
    for task in keeping:
        task.cancel()
    (second,) = {replica._served for replica in replicas}

    assert second == keys.Keys.read(stored(cluster)).served != first
    assert len(lasted) * certificate.SOON >= keys.KNOWN_AFTER.total_seconds()
