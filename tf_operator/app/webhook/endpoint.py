"""Serves the conversion webhook: an endpoint and a certificate, on an event loop and in a thread of its own.

Of its own, because a large review would keep the kubelet from the probes. Every replica serves it, leading or not, and
needs no caches for that.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from tf_operator.app.http import server
from tf_operator.app.http.certificates import GivenCertificate
from tf_operator.app.http.health import Health
from tf_operator.app.http.server import Answer, Endpoint, HttpReply, PageRequest
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.options import Options, Webhook
from tf_operator.app.webhook import review, stored_versions
from tf_operator.app.webhook.share import TimeShare
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.transport.client import ApiClient

_JSON: Final = {"Content-Type": "application/json"}


class Certificate(Protocol):
    """What the webhook is served with."""

    def trouble(self) -> str:
        """Why there is none; empty when there is one."""

    def outage(self) -> str:
        """Why no review is answered, with or without a certificate; empty when they are."""

    def context(self) -> ssl.SSLContext:
        """What the next connection is served with; raises where there is none."""

    async def keep(self) -> None:
        """Keep it valid, until cancelled."""


class _FromFiles(GivenCertificate):
    """A certificate that somebody else renews, such as cert-manager."""

    def trouble(self) -> str:
        return ""

    def outage(self) -> str:
        self.context()  # new files may be there, and nobody has connected since
        is_over = self.expires_at is not None and self.expires_at <= SystemClock().now()
        return "the webhook's certificate has expired" if is_over else ""

    async def keep(self) -> None:
        await asyncio.get_running_loop().create_future()


@contextmanager
def serving(
    options: Options,
    client: ApiClient,
    leader: ApiClient,
    *,
    probes: Health,
    metrics: Metrics,
) -> Iterator[dict[str, Coroutine[Any, Any, object]]]:
    """Serve until the block is left, if the options ask for it; yields what has to run meanwhile.

    Without a certificate nothing is ready. ``leader`` sends only while this process leads. ``CertificateError`` when a
    certificate from files cannot be used.
    """
    if (webhook := options.webhook) is None:
        yield {}
        return
    measures = metrics.webhook()
    apis = [api for api in options.apis if api.conversion.versions]
    crds = [str(api.resource) for api in apis]
    certificate = _certificate(webhook, crds, client, leader)
    probes.wait_for(certificate.trouble)
    measures.read_outage_by(certificate.outage)
    older: dict[str, int] = {}

    def report(crd: str, count: int) -> None:
        older[crd] = count
        measures.stored(crd, count)

    probes.wait_for_no_cache_of(lambda: [crd for crd, count in older.items() if count])
    answers = answers_of(apis, SystemClock(), older)
    with server.serving(Endpoint(webhook.address, {}, certificate.context, answers)):
        yield {
            "webhook": certificate.keep(),
            "stored versions": stored_versions.watch(crds, client, SystemClock(), report),
        }


def _certificate(webhook: Webhook, crds: list[str], client: ApiClient, leader: ApiClient) -> Certificate:
    if webhook.secret is None:
        return _FromFiles("the webhook", Path(webhook.folder, "tls.crt"), Path(webhook.folder, "tls.key"))
    from tf_operator.app.webhook.certificate import KeptCertificate  # noqa: PLC0415 (cryptography is optional)

    return KeptCertificate(client, leader, secret=webhook.secret, crds=crds, host=webhook.host, clock=SystemClock())


def path_of(api: ServedAPI) -> str:
    """Where reviews of an API are answered: each has a path of its own, because its CRD names one."""
    return f"/convert/{api.resource}"


def answers_of(apis: Iterable[ServedAPI], clock: Clock, older: Mapping[str, int]) -> dict[str, Answer]:
    """What answers reviews, by path; all APIs have one share of the time.

    ``older``: by CRD, in how many older versions objects may be stored, as far as that is known.
    """
    share = TimeShare(clock)

    def answer(api: ServedAPI) -> Answer:
        count = partial(older.get, str(api.resource))
        return _answer(review.refusing_new(api.conversion, clock, count), share)

    return {path_of(api): answer(api) for api in apis}


def _answer(convert: review.Convert, share: TimeShare) -> Answer:
    async def answer(request: PageRequest, body: bytes) -> HttpReply:
        work = review.answer(body, convert)
        try:
            return HttpReply(200, await share.take(work, client=request.client, size=len(body)), _JSON)
        except review.ReviewError as error:
            return HttpReply(400, f"{error}\n".encode())

    return answer
