"""ID tokens of OpenID Connect, refreshed at their issuer: ``user.auth-provider`` of a kubeconfig.

The ``kubernetes`` package refuses tokens whose JSON needs the characters ``-`` and ``_`` of base64url, and sends the
refresh token and the client's secret over TLS that is not verified (seen in 37.0.2). So it is done here.

Tokens are kept for as long as they are good: an issuer may accept a refresh token only once. A refreshed token is not
written back into the user's file. No error message shows what an issuer answered: it holds tokens.
"""

import base64
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import proxies
from tf_operator.machinery.transport.config import RENEW_BEFORE, ConfigurationError, make_tls
from tf_operator.text import one_line

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import aiohttp

ISSUER_WITHIN = 20.0


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


class _Discovery(msgspec.Struct, frozen=True):
    token_endpoint: str


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    refresh_token: str = ""


class OpenIdConnect:
    """The ID token of ``user.auth-provider``, refreshed at its issuer when it is about to expire or was refused."""

    def __init__(self, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        self._clock = clock
        self._environment = environment
        self._config: Mapping[str, Any] | None = None
        self._tokens = _Tokens("")

    async def token(self, config: Mapping[str, Any], *, folder: Path, refused: bool = False) -> str:
        """An ID token that is still good; ``refused`` when the apiserver thinks otherwise of the last one.

        ``folder`` is that of the kubeconfig.
        """
        if config != self._config:
            self._tokens = _Tokens(str(config.get("id-token") or ""), str(config.get("refresh-token") or ""))
            self._config = config
            refused = False  # that was another one
        is_good = self._tokens.id_token and self._clock.now() + RENEW_BEFORE < _expiry(self._tokens.id_token)
        if refused or not is_good:
            if not self._tokens.refresh_token:
                cause = "was refused" if is_good else "has expired"
                raise ConfigurationError(f"oidc: the id-token {cause}, and there is no refresh-token: log in again")
            tokens = await self._refresh(config, folder)
            self._tokens = _Tokens(tokens.id_token, tokens.refresh_token or self._tokens.refresh_token)
        return self._tokens.id_token

    async def _refresh(self, config: Mapping[str, Any], folder: Path) -> _Tokens:
        import aiohttp  # noqa: PLC0415 (no command should wait for it that needs no token)

        issuer, client = (_require(config, name) for name in ("idp-issuer-url", "client-id"))
        form = {"grant_type": "refresh_token", "refresh_token": self._tokens.refresh_token, "client_id": client}
        secret = str(config.get("client-secret") or "")
        headers = {"Authorization": aiohttp.encode_basic_auth(client, secret)} if secret else {}
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=make_tls(_authorities(config, folder))),
            timeout=aiohttp.ClientTimeout(total=ISSUER_WITHIN),
        )
        try:
            async with session:
                discovery = self._sent(session, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                endpoint = msgspec.json.decode(await _body(discovery), type=_Discovery).token_endpoint
                renewal = self._sent(session, "POST", endpoint, form=form, headers=headers)
                return msgspec.json.decode(await _body(renewal), type=_Tokens)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # msgspec's errors are ValueErrors; none of them quotes what was read.
            raise ConfigurationError(f"oidc: {issuer} gives no new token: {one_line(str(error))}") from None

    def _sent(
        self,
        session: "aiohttp.ClientSession",
        method: str,
        address: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "AbstractAsyncContextManager[aiohttp.ClientResponse]":
        proxy = proxies.from_environment(address, self._environment)
        return session.request(method, address, proxy=proxy, data=form, headers=headers, allow_redirects=False)


async def _body(request: "AbstractAsyncContextManager[aiohttp.ClientResponse]") -> bytes:
    async with request as reply:
        if reply.status != 200:
            raise OSError(f"HTTP {reply.status} from {reply.url}")
        return await reply.read()


def _require(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name)
    if not value:
        raise ConfigurationError(f"oidc: {name!r} is missing")
    return str(value)


def _authorities(config: Mapping[str, Any], folder: Path) -> str | None:
    """The issuer's own authorities as PEM; ``None`` for those that the machine trusts."""
    data, file = (str(config.get(f"idp-certificate-authority{suffix}") or "") for suffix in ("-data", ""))
    if data:
        return base64.b64decode(data).decode()
    return (folder / file).read_text() if file else None


def _expiry(token: str) -> datetime:
    """When a JWT expires; one that does not say so does not."""
    try:
        payload = base64.urlsafe_b64decode(token.split(".")[1] + "==")
        expires = msgspec.json.decode(payload, type=_Claims).exp
        return datetime.max.replace(tzinfo=UTC) if expires is None else datetime.fromtimestamp(expires, UTC)
    except (IndexError, ValueError, OverflowError, OSError):
        raise ConfigurationError("oidc: the id-token is not a JWT") from None
