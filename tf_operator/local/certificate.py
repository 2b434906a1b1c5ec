"""The certificate of the local server, and the token that it lets in; both are kept in the state folder.

When half of the certificate's time is over, a start makes a new one (``authority``).
"""

import secrets
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tf_operator.local.state import StateError, StateFolder

VALID_FOR: Final = timedelta(days=730)
RENEW_AFTER: Final = VALID_FOR / 2
HOSTS: Final = ("127.0.0.1", "localhost", "::1")
_FILES: Final = ("ca.crt", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """What the server proves itself with, and what it asks of others."""

    authority: bytes
    """PEM."""
    tls: ssl.SSLContext
    token: str


def credentials(folder: StateFolder, now: datetime) -> ServerCredentials:
    """What the folder holds; made if it is missing, damaged or old."""
    context = _context(folder, now)
    if context is None:
        for name, content in zip(_FILES, _draw(now), strict=True):
            folder.write(name, content)
        context = _context(folder, now)
    if context is None:
        raise StateError(f"the certificate in {folder.path} cannot be used; delete its files: {', '.join(_FILES)}")
    token = folder.read("token").decode(errors="replace")
    if len(token) < 32 or not token.isascii() or not token.isalnum():
        token = secrets.token_hex(32)
        folder.write("token", token.encode())
    return ServerCredentials(folder.read("ca.crt"), context, token)


def _context(folder: StateFolder, now: datetime) -> ssl.SSLContext | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(folder.path / "tls.crt", folder.path / "tls.key", password="")
        authorities = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authorities.load_verify_locations(folder.path / "ca.crt")
        (authority,) = authorities.get_ca_certs()
    except (OSError, ValueError):  # an SSLError is an OSError
        return None
    begins, ends = (ssl.cert_time_to_seconds(str(authority[name])) for name in ("notBefore", "notAfter"))
    return context if begins <= now.timestamp() < ends - RENEW_AFTER.total_seconds() else None


def _draw(now: datetime) -> tuple[bytes, bytes, bytes]:
    try:
        from tf_operator.machinery import authority  # noqa: PLC0415 (what it imports is optional, and slow)
    except ImportError as error:
        raise StateError("kubectl needs TLS, and that a package: pip install 'tf-operator[local]'") from error
    return authority.draw(f"tfjob local {now:%Y-%m-%d %H:%M}", hosts=HOSTS, now=now, valid_for=VALID_FOR)
