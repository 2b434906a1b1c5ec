"""Serves the conversion webhook: an endpoint and a certificate, on an event loop and in a thread of its own.

Of its own, because a large review would keep the kubelet from the probes. Every replica serves it, leading or not, and
needs no caches for that.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tf_operator.app.http import server
from tf_operator.app.http.certificates import GivenCertificate
from tf_operator.app.http.server import Answer, Endpoint, Reply
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import Webhook
from tf_operator.app.webhook import review
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.client import ApiClient

_JSON: Final = {"Content-Type": "application/json"}


class Certificate(Protocol):
    """What the webhook is served with."""

    @property
    def is_ready(self) -> bool:
        """Whether there is one."""

    def context(self) -> ssl.SSLContext:
        """What the next connection is served with; raises where there is none."""

    async def keep(self) -> None:
        """Keep it valid, until cancelled."""


class _FromFiles(GivenCertificate):
    """A certificate that somebody else renews, such as cert-manager."""

    is_ready = True

    async def keep(self) -> None:
        await asyncio.get_running_loop().create_future()


def certificate(
    chosen: Webhook, apis: tuple[ServedAPI, ...], client: ApiClient, guard: Callable[[], object], clock: Clock
) -> Certificate:
    """The certificate that was chosen; ``CertificateError`` when it cannot be used."""
    if chosen.secret is None:
        return _FromFiles(Path(chosen.folder, "tls.crt"), Path(chosen.folder, "tls.key"))
    from tf_operator.app.webhook.certificate import KeptCertificate  # noqa: PLC0415 (cryptography is optional)

    crds = [str(api.resource) for api in apis if api.conversion.versions]
    return KeptCertificate(client, guard, secret=chosen.secret, crds=crds, host=chosen.host, clock=clock)


@contextmanager
def serving(address: Address, found: Certificate, apis: tuple[ServedAPI, ...]) -> Iterator[Address]:
    """Serve until the block is left; yields the address that was bound."""
    answers: Mapping[str, Answer] = {path_of(api): _answer(api) for api in apis if api.conversion.versions}
    with server.serving(Endpoint(address, {}, found.context, answers)) as (bound,):
        yield bound


def path_of(api: ServedAPI) -> str:
    """Where reviews of an API are answered: each has a path of its own, because its CRD names one."""
    return f"/convert/{api.resource}"


def _answer(api: ServedAPI) -> Answer:
    async def answer(body: bytes) -> Reply:
        try:
            return Reply(200, await review.answer(body, api.conversion.convert), _JSON)
        except review.ReviewError as error:
            return Reply(400, f"{error}\n".encode())

    return answer
