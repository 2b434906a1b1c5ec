"""Where the apiserver is and how to be let in, read from a kubeconfig or from inside a pod.

A source is read again and again, because credentials change while the process runs: ``shared_config`` decides when. The
sources are ``in_cluster`` and ``kubeconfig``.
"""

import re
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

RENEW_BEFORE = timedelta(minutes=2)
"""Credentials are looked at once a minute; so they are renewed while they still have more than that to live."""

_PRINTABLE = re.compile(r"[!-~]*( [!-~]+)?")


class ConfigurationError(Exception):
    """The process cannot know where its apiserver is, or who it is itself; the message says what to set."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Where the apiserver is and how to be let in. ``repr`` shows no credentials."""

    host: str
    authorization: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    """Without one, whom this machine trusts is trusted."""
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    namespace: str = ""
    """What commands mean that name none; empty where the source does not say."""
    context: str = ""
    """The name of this cluster and user in the kubeconfig; empty without one."""


class ConfigSource(Protocol):
    """Reads the configuration as it is now."""

    async def read(self, *, refused: bool = False) -> ClientConfig:
        """Read everything again; ``ConfigurationError`` when it cannot be had.

        ``refused``: the apiserver did not accept what was read last, so nothing that was remembered is good.
        """


def checked(authorization: str, origin: object) -> str:
    """What is to be sent as ``Authorization``, once it is sure that it can be: half a file is often no header."""
    if not _PRINTABLE.fullmatch(authorization):
        raise ConfigurationError(f"{origin}: the token is not one line of printable characters")
    return authorization


def make_tls(authorities: str | None, *, is_verified: bool = True) -> ssl.SSLContext:
    """A context that trusts ``authorities`` (PEM), or whom this machine trusts."""
    # Bundles have names in their comments, in any alphabet; OpenSSL takes nothing but ASCII.
    context = ssl.create_default_context(cadata=authorities and authorities.encode("ascii", "ignore").decode())
    # Some builds of Python leave it to OpenSSL's configuration, which may allow less.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # On since Python 3.13, and refuses what client-go accepts: the authorities of EKS and others lack an extension.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
