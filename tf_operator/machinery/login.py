"""What has to be run or asked for before a kubeconfig lets anybody in: exec plugins and OpenID Connect.

The ``kubernetes`` package does both in ways that an operator cannot live with (seen in 37.0.2): a plugin that fails
is a line in the log, and then an anonymous client; one that hangs hangs for ever; tokens whose JSON happens to need
the characters ``-`` and ``_`` of base64url are refused; the refresh token and the client's secret are sent over TLS
that is not verified. So these two are done here, and ``kubeconfig`` leaves everything else to the package.

Both remember what they were given for as long as it is good, as client-go does: a plugin may ask a person, and an
issuer may accept a refresh token only once. What was refreshed is not written back into the user's file. No message
of an error shows what a plugin printed or an issuer answered: it holds tokens.
"""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tf_operator import meta
from tf_operator.machinery import errors
from tf_operator.machinery.access import ConfigurationError, make_tls
from tf_operator.machinery.clock import Clock

RENEW_BEFORE = timedelta(minutes=2)
"""Credentials are looked at once a minute; so they are renewed while they still have more than that to live."""
ISSUER_WITHIN = 20.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """A bearer token, or a client certificate with its key as PEM, or both."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status


class ExecPlugin:
    """Credentials from the program that ``user.exec`` names."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spec: Mapping[str, Any] | None = None
        self._credentials = Credentials()
        self._expires: datetime | None = None

    async def credentials(self, spec: Mapping[str, Any], *, folder: Path, refused: bool) -> Credentials:
        """What the plugin says, or said if that is still good; ``refused`` when the apiserver thinks otherwise.

        ``folder`` is that of the kubeconfig: a relative command is relative to it.
        """
        is_good = self._expires is None or self._clock.now() + RENEW_BEFORE < self._expires
        if refused or not is_good or spec != self._spec:
            status = await _run(spec, folder)
            self._credentials = Credentials(
                status.token or "", status.client_certificate_data or "", status.client_key_data or ""
            )
            self._expires = meta.parse_time(status.expiration_timestamp)
            self._spec = spec
        return self._credentials


async def _run(spec: Mapping[str, Any], folder: Path) -> _Status:
    command, version = str(spec.get("command") or ""), str(spec.get("apiVersion") or "")
    if not command or not version:
        raise ConfigurationError("exec: 'command' and 'apiVersion' are needed")
    is_interactive = spec.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    program = str(folder / command) if "/" in command else command
    code, output, complaint = await _output(
        [program, *map(str, spec.get("args") or ())],
        environment=_environment(spec, version, is_interactive=is_interactive),
        is_interactive=is_interactive,
        hint=str(spec.get("installHint") or ""),
    )
    if code != 0:
        raise ConfigurationError(f"exec: {command} ended with code {code}: {errors.excerpt(complaint)}")
    try:
        found = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"exec: what {command} printed is no ExecCredential: {error}") from None
    if (found.kind, found.api_version) != ("ExecCredential", version):
        raise ConfigurationError(f"exec: {command} printed no ExecCredential of {version}")
    if not (found.status.token or (found.status.client_certificate_data and found.status.client_key_data)):
        raise ConfigurationError(f"exec: {command} printed neither a token nor a certificate with its key")
    return found.status


def _environment(spec: Mapping[str, Any], version: str, *, is_interactive: bool) -> dict[str, str]:
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": is_interactive}}
    extra = {str(entry["name"]): str(entry["value"]) for entry in spec.get("env") or ()}
    return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}


async def _output(
    command: list[str], *, environment: Mapping[str, str], is_interactive: bool, hint: str
) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error. A plugin that is not waited for any longer is killed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A person has to see what a plugin asks; nobody else has to, so there it goes into the message.
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
            # A group of its own, so that what the plugin has started can be killed with it.
            start_new_session=not is_interactive,
        )
    except OSError as error:
        raise ConfigurationError(f"exec: cannot run {command[0]}: {error.strerror}. {hint}".rstrip(". ")) from error
    try:
        output, complaint = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            if is_interactive:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return process.returncode or 0, output, complaint or b""


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


class _Discovery(msgspec.Struct, frozen=True):
    token_endpoint: str


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    refresh_token: str = ""


class OpenIdConnect:
    """The ID token of ``user.auth-provider``, refreshed at its issuer when it is about to expire."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._config: Mapping[str, Any] | None = None
        self._tokens = _Tokens("")

    async def token(self, config: Mapping[str, Any], *, folder: Path) -> str:
        """An ID token that is still good; ``folder`` is that of the kubeconfig."""
        if config != self._config:
            self._tokens = _Tokens(str(config.get("id-token") or ""), str(config.get("refresh-token") or ""))
            self._config = config
        if not self._tokens.id_token or self._clock.now() + RENEW_BEFORE >= _expiry(self._tokens.id_token):
            tokens = await self._refreshed(config, folder)
            self._tokens = _Tokens(tokens.id_token, tokens.refresh_token or self._tokens.refresh_token)
        return self._tokens.id_token

    async def _refreshed(self, config: Mapping[str, Any], folder: Path) -> _Tokens:
        if not self._tokens.refresh_token:
            raise ConfigurationError("oidc: the id-token has expired, and there is no refresh-token: log in again")
        issuer, client = (_required(config, name) for name in ("idp-issuer-url", "client-id"))
        form = {"grant_type": "refresh_token", "refresh_token": self._tokens.refresh_token, "client_id": client}
        secret = str(config.get("client-secret") or "")
        headers = {"Authorization": aiohttp.encode_basic_auth(client, secret)} if secret else {}
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=make_tls(_authorities(config, folder))),
            timeout=aiohttp.ClientTimeout(total=ISSUER_WITHIN),
            trust_env=True,
        )
        try:
            async with session:
                discovery = session.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", allow_redirects=False)
                endpoint = msgspec.json.decode(await _body(discovery), type=_Discovery).token_endpoint
                renewal = session.post(endpoint, data=form, headers=headers, allow_redirects=False)
                return msgspec.json.decode(await _body(renewal), type=_Tokens)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # msgspec's errors are ValueErrors; none of them quotes what was read.
            raise ConfigurationError(f"oidc: {issuer} gives no new token: {errors.one_line(str(error))}") from None


async def _body(request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> bytes:
    async with request as reply:
        if reply.status != 200:
            raise aiohttp.ClientError(f"HTTP {reply.status} from {reply.url}")
        return await reply.read()


def _required(config: Mapping[str, Any], name: str) -> str:
    found = config.get(name)
    if not found:
        raise ConfigurationError(f"oidc: {name!r} is missing")
    return str(found)


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
        raise ConfigurationError("oidc: the id-token is no JWT") from None
