"""Keeps the webhook's certificate: serves it, renews it, and makes it known to the API server.

Every replica reads the Secret and serves what it finds there. The one that leads does what ``keys.next_keys`` says, and
writes the bundle of authorities into the CRDs. Whoever installs the operator makes all of them, so only to get and to
patch them has to be allowed.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from tf_operator.app.webhook.keys import Keys, Pair, next_keys
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import ApiError
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, ObjectKey, resource_version_of

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
EVERY: Final = 10.0
"""Seconds between two looks; well below the minute in which every replica and API server has to know a new one."""

_log = Logger(__name__)


class NoCertificate(OSError):
    """There is nothing to serve with yet."""


class KeptCertificate:
    """A certificate that is kept in a Secret."""

    def __init__(
        self,
        client: ApiClient,
        guard: Callable[[], object],
        *,
        secret: ObjectKey,
        crds: Sequence[str],
        host: str,
        clock: Clock,
    ) -> None:
        """``guard`` raises ``NotLeading`` where nothing may be written; ``host`` is the name that is asked for."""
        self._client, self._guard = client, guard
        self._secret, self._host = secret, host
        self._crds = [ObjectKey("", name) for name in crds]
        self._clock = clock
        self._served = Pair()
        self._context: ssl.SSLContext | None = None
        self._trouble = ""

    def trouble(self) -> str:
        """Why there is nothing to serve with; empty when there is."""
        return "" if self._context else f"the webhook has no certificate yet: {self._trouble or 'starting'}"

    def context(self) -> ssl.SSLContext:
        """What the next connection is served with; called from the server's thread."""
        if self._context is None:
            raise NoCertificate(self.trouble())
        return self._context

    async def keep(self) -> None:
        """Look again and again, until cancelled. Trouble is reported once, and tried again."""
        while True:
            try:
                await self._look()
                self._trouble = ""
            except (ApiError, OSError) as error:  # OpenSSL's errors, too: it may refuse what somebody has put there
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    _log.warning("the webhook's certificate could not be kept", error=self._trouble)
            await self._clock.sleep(EVERY)

    async def _look(self) -> None:
        secret = await self._client.get(SECRETS, self._secret)
        keys = Keys.read(_decoded(secret))
        self._serve(keys.served)
        wanted = next_keys(keys, self._host, self._clock.now())
        try:
            self._guard()
        except NotLeading:
            return
        if wanted.served == keys.waiting and await self._make_known(keys.bundle):
            return  # the API servers learn of its authority only now
        if wanted is not keys:
            await self._write(wanted, resource_version_of(secret))
            self._serve(wanted.served)
        await self._make_known(wanted.bundle)

    async def _write(self, keys: Keys, version: str) -> None:
        data = {name: base64.b64encode(value).decode() if value else None for name, value in keys.data().items()}
        await self._client.merge_patch(SECRETS, self._secret, {"metadata": {"resourceVersion": version}, "data": data})
        _log.info("the webhook's certificate has changed", secret=str(self._secret))

    async def _make_known(self, bundle: bytes) -> bool:
        """Only where there is a webhook: whoever installs the CRD decides that. Whether it was news."""
        text, is_news = base64.b64encode(bundle).decode(), False
        for crd in self._crds:
            found = _webhook(await self._client.get(CRDS, crd))
            if found is not None and found.get("clientConfig", {}).get("caBundle") != text:
                change = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": text}}}}}
                await self._client.merge_patch(CRDS, crd, change)
                is_news = True
        return is_news

    def _serve(self, pair: Pair) -> None:
        if pair != self._served and pair.parsed:
            self._served, self._context = pair, _server_context(pair)


def _decoded(secret: Body) -> dict[str, bytes]:
    """The data of a Secret; what is no base64 is taken for missing."""
    found = {}
    for name, text in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue
    return found


def _webhook(crd: Body) -> dict[str, Any] | None:
    conversion = crd.get("spec", {}).get("conversion", {})
    return conversion.get("webhook") if conversion.get("strategy") == "Webhook" else None


def _server_context(pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    file = os.memfd_create("certificate")  # OpenSSL reads from files only; this one is in memory
    try:
        os.write(file, pair.key + pair.certificate)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
