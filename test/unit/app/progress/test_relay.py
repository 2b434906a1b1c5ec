"""To whom a standby hands the reports of programs, and who never gets one: they carry tokens."""

import ssl
from contextlib import contextmanager
from dataclasses import replace

import pytest
import trustme
from multidict import CIMultiDict
from structlog.testing import capture_logs

from tf_operator.app.http import server
from tf_operator.app.http.server import Endpoint, HttpReply, PageRequest
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.progress import ProgressOptions
from tf_operator.app.progress import relay as relay_module
from tf_operator.app.progress.relay import ANNOTATION, FORWARDED, Relay, address_of_leader, annotations
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.election.lease import read_lease

HOST = "tf-operator-progress.kubeflow.svc"
PATH = "/apis/kubeflow.org/v1/namespaces/team/tfjobs/mnist/status"
BODY = b'{"trainerStatus": {}}'
OWN = Address("127.0.0.1", 1)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A machine of tests is slow now and then."""
    monkeypatch.setattr(relay_module, "FORWARDED_WITHIN", 60.0)


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def options(tmp_path, authority):
    """Those of all replicas, which have one folder."""
    issued = authority.issue_cert(HOST)
    (tmp_path / "tls.key").write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    return ProgressOptions(OWN, f"https://{HOST}", str(tmp_path), OWN)


def lease(address, *, holder="leader", writer="leader"):
    body = {"metadata": {"annotations": {ANNOTATION: f"{writer} {address}"}}, "spec": {"holderIdentity": holder}}
    return read_lease(body)


def report(**headers):
    return PageRequest(CIMultiDict({"Authorization": "Bearer secret", **headers}), "10.0.0.7", PATH)


@contextmanager
def leader(authority, *, host=HOST):
    """A server with a certificate for the host; yields its address, and what has reached it."""
    context, reached = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    authority.issue_cert(host).configure_cert(context)

    async def answer(request, body):
        reached.append((request, body))
        return HttpReply(429, b"{}", {"Content-Type": "application/json", "Retry-After": "5"})

    endpoint = Endpoint(Address("127.0.0.1", 0), {}, answers={"/apis/": answer}, tls=lambda: context)
    with server.serving(endpoint) as (address,):
        yield address, reached


@contextmanager
def relay(options, lease_of_leader):
    standby = Relay(SystemClock(), options, lambda: lease_of_leader)
    try:
        yield standby
    finally:
        standby.close()


async def test_a_report_is_handed_to_the_leader_and_its_reply_comes_back(authority, options):
    with leader(authority) as (address, reached), relay(options, lease(address)) as standby:
        replies = [await standby.forward(report(), BODY) for _ in range(2)]

    headers = {"Content-Type": "application/json", "Retry-After": "5"}
    assert replies == [HttpReply(429, b"{}", headers)] * 2
    for request, body in reached:
        assert (request.path, request.headers["Authorization"], body) == (PATH, "Bearer secret", BODY)


@pytest.mark.parametrize("host", [HOST, "attacker.team.svc"], ids=["of another authority", "for another host"])
async def test_no_token_is_sent_to_a_server_whose_certificate_is_not_that_of_the_replicas(authority, options, host):
    forger = authority if host != HOST else trustme.CA()
    served = leader(forger, host=host)
    with capture_logs() as logs, served as (address, reached), relay(options, lease(address)) as standby:
        assert [await standby.forward(report(), BODY) for _ in range(2)] == [None, None]

    assert reached == []
    assert [entry["event"] for entry in logs] == ["the leader cannot be reached for reports"]


async def test_a_certificate_of_a_new_authority_is_trusted_as_soon_as_the_file_says_so(authority, options, tmp_path):
    renewed = trustme.CA()
    with leader(renewed) as (address, _), relay(options, lease(address)) as standby:
        assert await standby.forward(report(), BODY) is None
        renewed.cert_pem.write_to_path(tmp_path / "ca.crt")
        assert (await standby.forward(report(), BODY)).status == 429


@pytest.mark.parametrize(
    "stored",
    [
        None,
        read_lease({}),
        lease("10.0.0.1:9444", holder=""),
        lease("10.0.0.1:9444", writer="earlier"),
        lease("10.0.0.1:9444", holder="", writer=""),
        lease("attacker.example:9444"),
        lease("10.0.0.1"),
        lease("0"),
        read_lease({"metadata": {"annotations": {ANNOTATION: 7}}, "spec": {"holderIdentity": "leader"}}),
    ],
)
async def test_a_lease_that_names_no_address_of_its_holder_leads_nowhere(options, stored):
    assert address_of_leader(stored) is None
    with relay(options, stored) as standby:
        assert await standby.forward(report(), BODY) is None


@pytest.mark.parametrize("address", [Address("10.0.0.1", 9444), Address("fd00::7", 9444)], ids=str)
def test_an_address_is_read_from_the_lease_as_its_holder_has_written_it(address):
    stored = read_lease({"metadata": {"annotations": annotations("a_1", address)}, "spec": {"holderIdentity": "a_1"}})

    assert address_of_leader(stored) == address
    assert annotations("a_1", None) == {}


async def test_a_report_is_handed_on_once_and_to_nobody_by_the_leader_itself(authority, options):
    with leader(authority) as (address, reached):
        with relay(options, lease(address)) as standby:
            assert await standby.forward(report(**{FORWARDED: "x 10.0.0.7"}), BODY) is None
        with relay(replace(options, own_address=address), lease(address)) as itself:
            assert await itself.forward(report(), BODY) is None

    assert reached == []


async def test_a_leader_that_is_gone_is_no_leader(authority, options):
    with leader(authority) as (address, _):
        pass
    with relay(options, lease(address)) as standby:
        assert await standby.forward(report(), BODY) is None


async def test_the_leader_believes_replicas_and_nobody_else_where_a_report_came_from(authority, options):
    with leader(authority) as (address, reached), relay(options, lease(address)) as replica:
        await replica.forward(report(), BODY)
        ((request, _),) = reached
        other_token = CIMultiDict({**request.headers, "Authorization": "Bearer stolen"})
        code = request.headers[FORWARDED].partition(" ")[0]
        assert request.client == "127.0.0.1"
        assert replica.origin_of(request) == "10.0.0.7"
        assert replica.origin_of(replace(request, headers=other_token)) is None
        for forged in (f"{code} 10.0.0.8", "10.0.0.8", " 10.0.0.8", "é 10.0.0.8", "\udcff 10.0.0.8", ""):
            assert replica.origin_of(report(**{FORWARDED: forged})) is None
        assert replica.origin_of(report()) is None


async def test_a_key_that_cannot_be_read_any_more_is_kept_and_the_log_says_so_once(authority, options, tmp_path):
    with capture_logs() as logs, leader(authority) as (address, reached), relay(options, lease(address)) as replica:
        (tmp_path / "tls.key").unlink()
        for _ in range(2):
            assert (await replica.forward(report(), BODY)).status == 429
        assert {replica.origin_of(request) for request, _ in reached} == {"10.0.0.7"}

    words = "the key of the certificate of reports cannot be read; keeping the old one"
    assert [entry["event"] for entry in logs] == [words]
