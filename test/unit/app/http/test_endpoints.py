"""Which page is where, what it says, and which pages are protected."""

import asyncio
import gzip
import ssl
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from support.fake_clock import FakeClock
from tf_operator.app.http import endpoints, server
from tf_operator.app.http.certificates import CertificateError
from tf_operator.app.http.health import Health
from tf_operator.app.http.metrics_auth import Reviewer
from tf_operator.app.metrics.exposition import Exposition
from tf_operator.app.metrics.loop_monitor import LoopMonitor
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import Options, Protection
from tf_operator.projections.jobs import JobMeta, StoredJob

REQUEST = server.PageRequest()
ONE, OTHER, ANY = Address("127.0.0.1", 8080), Address("127.0.0.1", 8081), Address("127.0.0.1", 0)


class Apiserver:
    """Knows one token, and allows it everything."""

    async def create(self, _resource, _namespace, body):
        is_known = body["spec"].get("token", "good") == "good"
        return {"status": {"authenticated": is_known, "user": {"username": "anna"}, "allowed": True}}


@pytest.fixture
async def make_endpoints():
    """A function that makes endpoints for some addresses."""
    clock, metrics = FakeClock(), Metrics()
    monitor = LoopMonitor(clock, metrics.loop)
    health, reviewer = Health(clock, monitor.heartbeat), Reviewer(clock, endpoints.METRICS_PATH)

    def make(there, here, protection=None):
        options = Options(metrics_address=there, health_address=here, metrics_protection=protection)
        return endpoints.endpoints(
            options, metrics=metrics, health=health, monitor=monitor, reviewer=reviewer, clock=clock
        )

    make.reviewer, make.metrics = reviewer, metrics
    return make


async def test_a_probe_without_problems_says_ok():
    reply = await endpoints.probe(list)(REQUEST)

    assert (reply.status, reply.body) == (200, b"ok\n")
    assert reply.headers["Content-Type"].startswith("text/plain")


async def test_a_probe_with_problems_fails_and_says_each_of_them():
    reply = await endpoints.probe(lambda: ["no caches", "no luck"])(REQUEST)

    assert (reply.status, reply.body) == (500, b"no caches\nno luck\n")


async def test_what_is_only_noted_does_not_fail_a_probe():
    reply = await endpoints.probe(list, notes=lambda: ["the queue has stood still for 61 s"])(REQUEST)

    assert (reply.status, reply.body) == (200, b"ok\nthe queue has stood still for 61 s\n")


async def test_metrics_have_the_headers_of_their_format_and_compression():
    async def sample():
        pass

    page = endpoints.metrics_page(Exposition(CollectorRegistry(), FakeClock(), sample))
    plain = await page(REQUEST)
    packed = await page(
        server.PageRequest({"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"})
    )

    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert gzip.decompress(packed.body) == b"# EOF\n"


async def test_many_scrapes_of_many_jobs_cost_one_sample_and_one_rendering(make_endpoints, monkeypatch):
    for number in range(10_000):
        make_endpoints.metrics.jobs["tensorflow"].phases.on_add(
            StoredJob(JobMeta(f"job-{number}", "ns", str(number), "1"))
        )
    samples, renderings, collect = [], [], make_endpoints.metrics.registry.collect
    monkeypatch.setattr(make_endpoints.metrics, "sample", lambda: samples.append(1))
    monkeypatch.setattr(make_endpoints.metrics.registry, "collect", lambda: renderings.append(1) or collect())
    (endpoint, _) = make_endpoints(ONE, OTHER)
    replies = await asyncio.gather(*(endpoint.pages["/metrics"](REQUEST) for _ in range(endpoints.SCRAPES_AT_ONCE)))

    assert (len(samples), len(renderings)) == (1, 1)
    assert all(b'phase="New"} 10000.0' in reply.body for reply in replies)


def paths(listeners):
    return [(endpoint.address, sorted(endpoint.pages)) for endpoint in listeners]


async def test_metrics_and_probes_have_an_address_each_metrics_first(make_endpoints):
    assert paths(make_endpoints(ONE, OTHER)) == [(ONE, ["/metrics"]), (OTHER, ["/healthz", "/readyz", "/readyz/loops"])]


async def test_one_address_may_have_all_pages(make_endpoints):
    assert paths(make_endpoints(ONE, ONE)) == [(ONE, ["/healthz", "/metrics", "/readyz", "/readyz/loops"])]


async def test_any_port_twice_is_two_ports(make_endpoints):
    assert len(make_endpoints(ANY, ANY)) == 2


@pytest.mark.parametrize(("there", "here"), [(None, OTHER), (ONE, None), (None, None)])
async def test_what_has_no_address_is_nowhere(make_endpoints, there, here):
    assert [endpoint.address for endpoint in make_endpoints(there, here)] == [
        address for address in (there, here) if address
    ]


def status(address, token):
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://{address}/metrics", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=trusting) as reply:
            return reply.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


async def test_protected_metrics_are_served_by_tls_to_tokens_that_are_allowed(make_endpoints):
    with server.serving(*make_endpoints(ANY, None, Protection())) as (address,):
        early_status = await asyncio.to_thread(status, address, "good")
        make_endpoints.reviewer.use(Apiserver())
        statuses = [await asyncio.to_thread(status, address, token) for token in ("good", "bad")]

    assert (early_status, statuses) == (503, [200, 401])


async def test_probes_beside_protected_metrics_stay_open(make_endpoints):
    metrics, probes = make_endpoints(ANY, ANY, Protection())

    assert metrics.tls
    assert not probes.tls


async def test_a_certificate_that_is_not_there_is_an_error_before_anything_is_served(make_endpoints):
    with pytest.raises(CertificateError, match=r"/nowhere/tls\.crt"):
        make_endpoints(ANY, None, Protection("/nowhere/tls.crt", "/nowhere/tls.key"))
