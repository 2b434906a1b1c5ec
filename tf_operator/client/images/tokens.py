"""Authorization at a registry: what its challenge asks for, answered with the login or the token that it buys."""

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from yarl import URL

from tf_operator.client.images.docker_config import Login
from tf_operator.client.job import NotPossible

_PARAMETER: Final = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')
_CLIENT: Final = "tfjob"

Send = Callable[[str, URL, Mapping[str, str], Mapping[str, str]], Awaitable[Mapping[str, Any]]]
"""Method, address, headers and form of a request for a token; its reply."""


class Challenge(Exception):
    """The registry wants to know who asks."""

    def __init__(self, headers: Iterable[str]) -> None:
        super().__init__("a login is needed")
        schemes = {scheme.lower(): parameters for scheme, _, parameters in (it.partition(" ") for it in headers)}
        self.is_basic = "basic" in schemes and "bearer" not in schemes
        self.parameters = dict(_PARAMETER.findall(schemes.get("bearer", "")))


async def authorization(
    challenge: Challenge, login: Login | None, scopes: Sequence[str], *, send: Send, registry: str
) -> str:
    """The header that answers a challenge; without a login that of somebody anonymous, or none."""
    basic = _basic(login) if login and login.user else ""
    if challenge.is_basic:
        if not basic:
            raise challenge
        return basic
    address = _realm(challenge, registry)
    service = challenge.parameters.get("service", "")
    if login and login.identity_token:
        form = {"grant_type": "refresh_token", "refresh_token": login.identity_token, "client_id": _CLIENT}
        reply = await send("POST", address, {}, {**form, "service": service, "scope": " ".join(scopes)})
    else:
        query = [("service", service), *(("scope", scope) for scope in scopes)]
        headers = {"Authorization": basic} if basic else {}
        reply = await send("GET", address.extend_query(query), headers, {})
    token = reply.get("token") or reply.get("access_token")
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise NotPossible(f"{address.host} gave no token for {registry}")
    return f"Bearer {token}"


def _realm(challenge: Challenge, registry: str) -> URL:
    """Where tokens are had."""
    with suppress(ValueError):
        address = URL(challenge.parameters.get("realm", ""))
        if address.host and address.scheme in {"http", "https"}:
            return address
    raise NotPossible(f"{registry} asks for a login in a way that is not supported")


def _basic(login: Login) -> str:
    return f"Basic {base64.b64encode(f'{login.user}:{login.password}'.encode()).decode()}"
