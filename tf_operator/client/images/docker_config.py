"""Logins as docker has them, in its configuration, and the credential helpers that it names.

A helper is a program ``docker-credential-NAME`` that gets a registry on standard input and prints the login as JSON. No
message shows what it printed, because it holds passwords.
"""

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tf_operator.client.images.image_name import DOCKER_HUB
from tf_operator.client.job import NotPossible
from tf_operator.machinery.clock import SystemClock

_HUB_ENTRY: Final = "https://index.docker.io/v1/"
_HELPER_WITHIN: Final = 60.0
"""Seconds; a helper may ask a person, or a service."""
_TOKEN_USER: Final = "<token>"  # noqa: S105 (by this a helper says that the secret is a token)
_NO_LOGIN: Final = b"credentials not found"


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password, or an identity token, by which tokens are had."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


async def login(registry: str, environment: Mapping[str, str] = os.environ) -> Login | None:
    """The login for a registry; ``None`` without one, and ``NotPossible`` where it cannot be read."""
    path = _path(environment)
    config = _read(path)
    entry = _HUB_ENTRY if registry == DOCKER_HUB else registry
    helper = _mapping(config, "credHelpers").get(entry) or config.get("credsStore")
    if helper:
        return await _from_helper(f"docker-credential-{helper}", entry, environment)
    auths = _mapping(config, "auths")
    for name in (entry, f"https://{entry}", f"http://{entry}"):
        if isinstance(stored := auths.get(name), dict):
            return _stored_login(stored, registry, path)
    return None


def _path(environment: Mapping[str, str]) -> Path:
    folder = environment.get("DOCKER_CONFIG")
    return Path(folder) / "config.json" if folder else Path("~/.docker/config.json").expanduser()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotPossible(f"cannot read the logins of docker in {path}: {error.strerror}") from None
    except ValueError:
        raise NotPossible(f"the logins of docker cannot be read: {path} is not JSON") from None
    return config if isinstance(config, dict) else {}


def _mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _stored_login(entry: Mapping[str, Any], registry: str, path: Path) -> Login | None:
    token = str(entry.get("identitytoken") or "")
    user, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if auth := entry.get("auth"):
        try:
            user, _, password = base64.b64decode(str(auth), validate=True).decode().partition(":")
        except ValueError:
            problem = f"the login for {registry} in {path} is damaged; docker login {registry} writes it again"
            raise NotPossible(problem) from None
    return Login(user, password.rstrip("\0"), token) if user or token else None


async def _from_helper(program: str, entry: str, environment: Mapping[str, str]) -> Login | None:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise NotPossible(f"docker's logins are with {program}, which cannot be run: {error.strerror}") from None
    try:
        async with SystemClock().timeout(_HELPER_WITHIN):
            output, _ = await process.communicate(entry.encode())
    except BaseException as error:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise NotPossible(f"{program} does not answer within {_HELPER_WITHIN:g} s") from None
        raise
    if process.returncode:
        if _NO_LOGIN in output:
            return None
        raise NotPossible(f"{program} ended with code {process.returncode} when asked for the login for {entry}")
    try:
        reply = json.loads(output)
        user, secret = str(reply["Username"]), str(reply["Secret"])
    except (ValueError, KeyError, TypeError):
        raise NotPossible(f"{program} printed no login for {entry}") from None
    return Login(identity_token=secret) if user == _TOKEN_USER else Login(user, secret)
