"""Exec plugins: programs that print credentials, named by ``user.exec`` of a kubeconfig.

The ``kubernetes`` package continues as an anonymous client when a plugin fails, and waits for ever when one hangs
(seen in 37.0.2). So plugins are run here.

Credentials are kept for as long as they are good, as in client-go: a plugin may ask a person. No error message shows
what a plugin printed: it holds tokens.

A plugin is done when its process has ended. What it has left running may keep its output open, so that is no pipe,
whose end would have to be waited for, and whose reader could not go away without a signal to the writer.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tf_operator import meta
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors, private_files
from tf_operator.machinery.transport.config import RENEW_BEFORE, ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

_MOST_OUTPUT = 4 * 1024 * 1024


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

    async def credentials(
        self, spec: Mapping[str, Any], *, folder: Path, cluster: Mapping[str, Any], refused: bool
    ) -> Credentials:
        """What the plugin says, or said if that is still good; ``refused`` when the apiserver thinks otherwise.

        ``folder`` is that of the kubeconfig: a relative command is relative to it. ``cluster`` is for a plugin that
        wants to know it, as ``spec.cluster`` of an ExecCredential.
        """
        is_good = self._expires is None or self._clock.now() + RENEW_BEFORE < self._expires
        if refused or not is_good or spec != self._spec:
            status = await _run(spec, folder, cluster)
            self._credentials = Credentials(
                status.token or "", status.client_certificate_data or "", status.client_key_data or ""
            )
            self._expires = meta.parse_time(status.expiration_timestamp)
            self._spec = spec
        return self._credentials


async def _run(spec: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> _Status:
    command, version = str(spec.get("command") or ""), str(spec.get("apiVersion") or "")
    if not command or not version:
        raise ConfigurationError("exec: 'command' and 'apiVersion' are needed")
    is_interactive = spec.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    program = str(folder / command) if "/" in command else command
    code, output, complaint = await _output(
        [program, *map(str, spec.get("args") or ())],
        environment=_environment(spec, version, cluster, is_interactive=is_interactive),
        is_interactive=is_interactive,
        hint=str(spec.get("installHint") or ""),
    )
    if code != 0:
        raise ConfigurationError(f"exec: {command} ended with code {code}: {errors.excerpt(complaint)}")
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"exec: what {command} printed is not an ExecCredential: {error}") from None
    if (credential.kind, credential.api_version) != ("ExecCredential", version):
        raise ConfigurationError(f"exec: {command} printed no ExecCredential of {version}")
    if not (
        credential.status.token or (credential.status.client_certificate_data and credential.status.client_key_data)
    ):
        raise ConfigurationError(f"exec: {command} printed neither a token nor a certificate with its key")
    return credential.status


def _environment(
    spec: Mapping[str, Any], version: str, cluster: Mapping[str, Any], *, is_interactive: bool
) -> dict[str, str]:
    cluster_info = {"cluster": cluster} if spec.get("provideClusterInfo") else {}
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {**cluster_info, "interactive": is_interactive}}
    extra = {str(entry["name"]): str(entry["value"]) for entry in spec.get("env") or ()}
    return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}


async def _output(
    command: list[str], *, environment: Mapping[str, str], is_interactive: bool, hint: str
) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error. A plugin that is not waited for any longer is killed."""
    with private_files.scratch() as output, private_files.scratch() as complaint:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
                stdout=output,
                # A person has to see what a plugin asks; nobody else has to, so there it goes into the message.
                stderr=None if is_interactive else complaint,
                # A group of its own, so that what the plugin has started can be killed with it.
                start_new_session=not is_interactive,
            )
        except OSError as error:
            raise ConfigurationError(f"exec: cannot run {command[0]}: {error.strerror}. {hint}".rstrip(". ")) from error
        try:
            code = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                if is_interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return code, _written(output), _written(complaint)


def _written(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(_MOST_OUTPUT)
