"""Which page is where: metrics and probes, at two addresses or at one, open or protected.

Everything here is put together once, before there is a connection to the API server: a certificate that cannot be used
ends the process when it starts, not when Prometheus connects. Until the reviewer is given a client nobody is allowed to
read protected metrics. Probes are always open: the kubelet has no token.

Neighbours: ``server`` serves the endpoints; what the pages say is made by ``metrics.exposition`` and ``health``.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tf_operator.app.http import metrics_auth, policies
from tf_operator.app.http.certificates import GivenCertificate, OwnCertificate
from tf_operator.app.http.health import Health
from tf_operator.app.http.metrics_auth import DECISION_WITHIN, Authorizer, Decision, Reviewer
from tf_operator.app.http.server import Endpoint, HttpReply, Page, PageRequest
from tf_operator.app.metrics.exposition import Exposition
from tf_operator.app.metrics.loop_monitor import LoopMonitor
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.options import Options, Protection
from tf_operator.machinery.clock import Clock

METRICS_PATH = "/metrics"
SAMPLE_WITHIN = 1.0
"""Seconds for which a page waits for the numbers of the moment; without them it shows the last ones."""
SCRAPES_AT_ONCE = policies.PAGES.most // 2
"""Requests that may wait for the page of metrics. They cannot be closed for others, and probes need places, too."""


def endpoints(
    options: Options, *, metrics: Metrics, health: Health, monitor: LoopMonitor, reviewer: Reviewer, clock: Clock
) -> list[Endpoint]:
    """The endpoints that the options ask for, metrics first; ``CertificateError`` when one cannot be served."""
    there, here = options.metrics_address, options.health_address

    async def sample() -> None:
        metrics.sample()

    exposition = Exposition(metrics.registry, clock, partial(monitor.run, sample, within=SAMPLE_WITHIN))
    measures = {METRICS_PATH: metrics_page(exposition)}
    probes = {
        "/healthz": probe(health.why_not_alive),
        "/readyz": probe(health.why_not_ready, notes=health.notes),
        "/readyz/loops": probe(health.stalled_loops),
    }
    if there and options.metrics_protection:
        return [
            _protected(Endpoint(there, measures), options.metrics_protection, monitor, reviewer, clock),
            *([Endpoint(here, probes)] if here else ()),
        ]
    if there and there == here and there.port:  # port 0 is another one each time
        return [Endpoint(there, measures | probes)]
    return [Endpoint(address, pages) for address, pages in ((there, measures), (here, probes)) if address]


def probe(problems: Callable[[], list[str]], *, notes: Callable[[], list[str]] = list) -> Page:
    """A page for the kubelet: 200 without problems, else 500 and what they are. ``notes`` are only said."""

    async def page(_request: PageRequest) -> HttpReply:
        lines = problems()
        return HttpReply(500 if lines else 200, ("\n".join([*(lines or ["ok"]), *notes()]) + "\n").encode())

    return page


def metrics_page(exposition: Exposition) -> Page:
    """A page for Prometheus, in the format and compression that it asks for."""
    scrapes = 0

    async def page(request: PageRequest) -> HttpReply:
        nonlocal scrapes
        if scrapes >= SCRAPES_AT_ONCE:
            return HttpReply(503, b"Too many requests wait for this page; try again later.\n")
        scrapes += 1
        try:
            rendered = await exposition.render(
                accept=request.headers.get("Accept", ""),
                accept_encoding=request.headers.get("Accept-Encoding", ""),
            )
        finally:
            scrapes -= 1
        encoding = {"Content-Encoding": "gzip"} if rendered.is_compressed else {}
        return HttpReply(200, rendered.body, {"Content-Type": rendered.content_type, **encoding})

    return page


def _protected(
    endpoint: Endpoint, protection: Protection, monitor: LoopMonitor, reviewer: Reviewer, clock: Clock
) -> Endpoint:
    """The endpoint by TLS, its pages for requests that are allowed."""

    async def review(token: str) -> Decision:
        return await monitor.run(partial(reviewer.review, token), within=DECISION_WITHIN) or Decision.UNAVAILABLE

    async def authorize(token: str, client: str) -> Decision:
        with suppress(TimeoutError):
            async with clock.timeout(DECISION_WITHIN):
                return await authorizer.authorize(token, client)
        return Decision.UNAVAILABLE

    authorizer = Authorizer(clock, review)
    pages = {path: metrics_auth.protected(page, authorize) for path, page in endpoint.pages.items()}
    return Endpoint(endpoint.address, pages, _certificate(protection, clock).context)


def _certificate(protection: Protection, clock: Clock) -> GivenCertificate | OwnCertificate:
    if protection.certificate:
        return GivenCertificate(METRICS_PATH, Path(protection.certificate), Path(protection.key))
    return OwnCertificate("tf-operator", clock)
