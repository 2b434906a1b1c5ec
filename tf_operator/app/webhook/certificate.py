"""Keeps the webhook's certificate: serves it, renews it, and makes it known to the API server.

Every replica reads the Secret and serves what it finds there. What nobody could be served with, any replica replaces at
once, in the Secret and in the CRDs: a leader has complete caches, and while jobs are stored in older versions, no cache
can be complete before the webhook answers. Several may try; the resource version lets one of them win. Everything that
can wait is the leader's: ``keys.next_keys``, and the bundle of authorities in the CRDs that name this webhook: a bundle
of ours in the webhook of somebody else would end that one. Whoever installs the operator
makes all of these objects, so only to get and to patch them has to be allowed.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from tf_operator.app.crd_apply import CRDS
from tf_operator.app.webhook import keys
from tf_operator.app.webhook.keys import Keys, Pair
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import ApiError, Conflict
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, ObjectKey, key_of, resource_version_of

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
EVERY: Final = 10.0
"""Seconds between two looks; well below the minute in which every replica and API server has to know a new one."""
SOON: Final = 1.0
"""Seconds between two looks while nobody can be served: requests in older versions fail meanwhile."""

_log = Logger(__name__)


class NoCertificate(OSError):
    """There is nothing to serve with yet."""


class KeptCertificate:
    """A certificate that is kept in a Secret."""

    def __init__(
        self,
        client: ApiClient,
        leader: ApiClient,
        *,
        secret: ObjectKey,
        crds: Sequence[str],
        host: str,
        clock: Clock,
    ) -> None:
        """``leader`` raises ``NotLeading`` where only a leader may write; ``host`` is the name that is asked for."""
        self._client, self._leader = client, leader
        self._secret, self._host = secret, host
        self._crds = [ObjectKey("", name) for name in crds]
        self._clock = clock
        self._served = Pair()
        self._context: ssl.SSLContext | None = None
        self._is_trusted = False
        """Whether the API servers had the authority of what is served."""
        self._trouble = ""
        self._elsewhere: dict[str, str] = {}
        """The hosts of other webhooks, by the CRDs that name them."""

    def trouble(self) -> str:
        """Why there is nothing to serve with; empty when there is."""
        return "" if self._context else f"the webhook has no certificate yet: {self._trouble or 'starting'}"

    def outage(self) -> str:
        """Why no review is answered here; empty when they are."""
        if trouble := self.trouble():
            return trouble
        served = self._served.parsed
        if served and served.not_valid_after_utc <= self._clock.now():
            return f"the webhook's certificate has expired: {self._trouble}"
        return ", ".join(f"{crd} names another webhook, {host}" for crd, host in tuple(self._elsewhere.items()))

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
            except Conflict:  # somebody else was first: see what that has made of it
                pass
            except (ApiError, OSError) as error:  # OpenSSL's errors, too: it may refuse what somebody has put there
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    _log.warning("the webhook's certificate could not be kept", error=self._trouble)
            await self._clock.sleep(EVERY if self._context and self._is_trusted else SOON)

    async def _look(self) -> None:
        await self._repair()
        try:
            await self._renew()
        except NotLeading:
            await self._introduce()

    async def _repair(self) -> None:
        """Serve what the Secret has, and give it something of use if it has nothing."""
        stored, version = await self._read(self._client)
        now = self._clock.now()
        usable = keys.repaired(stored, self._host, now)
        if usable.served != stored.served:
            usable = keys.succeeding(usable, self._served, self._host, now)
        if usable is not stored:
            await self._write(self._client, usable, version)
        self._serve(usable.served)

    async def _introduce(self) -> None:
        """Give the CRDs the authority of what is served, if they lack it: whoever applies a CRD may have removed it.

        They are read before the Secret, so what is written is newer than what it replaces.
        """
        definitions = await self._definitions(self._client)
        stored, _ = await self._read(self._client)
        if stored.served != self._served:
            return  # see it first
        for definition in definitions:
            if not keys.is_trusted(_bundle(definition), stored.served):
                await self._make_known(self._client, definition, stored.bundle)
        self._is_trusted = True

    async def _renew(self) -> None:
        definitions = await self._definitions(self._leader)
        stored, version = await self._read(self._leader)
        renewed = keys.next_keys(stored, self._host, self._clock.now())
        if renewed.served == stored.waiting and any(_bundle(each) != stored.bundle for each in definitions):
            renewed = stored  # the API servers learn of its authority only now
        if renewed is not stored:
            await self._write(self._leader, renewed, version)
            self._serve(renewed.served)
        for definition in definitions:
            if _bundle(definition) != renewed.bundle:
                await self._make_known(self._leader, definition, renewed.bundle)
        self._is_trusted = True

    async def _read(self, client: ApiClient) -> tuple[Keys, str]:
        secret = await client.get(SECRETS, self._secret)
        return Keys.read(_decoded(secret.get("data") or {})), resource_version_of(secret)

    async def _write(self, client: ApiClient, new_keys: Keys, version: str) -> None:
        data = {name: base64.b64encode(value).decode() if value else None for name, value in new_keys.data().items()}
        await client.merge_patch(SECRETS, self._secret, {"metadata": {"resourceVersion": version}, "data": data})
        _log.info("the webhook's certificate has changed", stored_in=str(self._secret))

    async def _definitions(self, client: ApiClient) -> list[Body]:
        """Those that name this webhook: whoever installs a CRD decides that."""
        crds = [await client.get(CRDS, name) for name in self._crds]
        return [crd for crd in crds if self._is_named_by(crd)]

    def _is_named_by(self, crd: Body) -> bool:
        name, conversion = key_of(crd).name, crd.get("spec", {}).get("conversion", {})
        host = _host_of(conversion) if conversion.get("strategy") == "Webhook" else self._host
        if host == self._host:
            self._elsewhere.pop(name, None)
        elif self._elsewhere.get(name) != host:
            self._elsewhere[name] = host
            _log.warning(
                "the CRD names another webhook; its caBundle stays as it is", crd=name, host=host, own=self._host
            )
        return name not in self._elsewhere and conversion.get("strategy") == "Webhook"

    async def _make_known(self, client: ApiClient, definition: Body, bundle: bytes) -> None:
        config = {"caBundle": base64.b64encode(bundle).decode()}
        change = {
            "metadata": {"resourceVersion": resource_version_of(definition)},
            "spec": {"conversion": {"webhook": {"clientConfig": config}}},
        }
        await client.merge_patch(CRDS, key_of(definition), change)

    def _serve(self, pair: Pair) -> None:
        if pair != self._served and pair.parsed:
            self._served, self._context, self._is_trusted = pair, _server_context(pair), False


def _decoded(data: Mapping[str, Any]) -> dict[str, bytes]:
    """Of the data of a Secret, or of a clientConfig, what is base64; the rest is taken for missing."""
    by_name = {}
    for name, text in data.items():
        try:
            by_name[name] = base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue
    return by_name


def _host_of(conversion: Body) -> str:
    """The name by which the API server connects, which the certificate has to have."""
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    if service := config.get("service"):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    return urlsplit(str(config.get("url", ""))).hostname or ""


def _bundle(crd: Body) -> bytes:
    config = crd["spec"]["conversion"].get("webhook", {}).get("clientConfig", {})
    return _decoded(config).get("caBundle", b"")


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
