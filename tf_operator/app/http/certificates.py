"""The certificates that /metrics and the webhook are served with: from files, or made by this process.

Files are checked for each connection, because cert-manager, or the kubelet with a Secret, replaces them while the
process runs. A pair that cannot be used, such as a new certificate beside the old key in the middle of a renewal,
changes nothing: the last valid one stays in use, and the log says why.

Without files the process makes a certificate itself. It encrypts the traffic and proves nothing: scrapers have to be
configured not to verify it. Its key is never on a disk. ``context`` may be called from any thread.
"""

import os
import ssl
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger

VALID_FOR = timedelta(days=365)
RENEW_AFTER = timedelta(days=180).total_seconds()

_log = Logger(__name__)
_Stamp = tuple[tuple[int, int, int], ...]
_NOTHING: Final = object()


class CertificateError(Exception):
    """There is no certificate to serve with; the message says why."""


class GivenCertificate:
    """A certificate and its key in two files, as they are at the moment."""

    def __init__(self, of: str, certificate: Path, key: Path) -> None:
        """Read them now; ``CertificateError`` when they are of no use. ``of``: what it is for, for the log."""
        self._of = of
        self._files = certificate, key
        self._lock = threading.Lock()
        # The stamp first: what changes while it is read is read again next time.
        self._served_stamp = self._stamp()
        self._failed: object = _NOTHING
        """The state of the files whose failure is in the log."""
        self.expires_at: datetime | None = None
        """``None`` where nothing is installed that can read it."""
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        with self._lock:
            if (stamp := self._stamp()) != self._served_stamp:
                self._renew(stamp)
            return self._context

    def _renew(self, stamp: _Stamp | None) -> None:
        """Read the files; again for the next connection if that fails, which may have had a passing cause."""
        try:
            self._context = self._read()
        except CertificateError as error:
            if stamp != self._failed:
                _log.warning(f"the new certificate of {self._of} is invalid; keeping the old one", error=str(error))
            self._failed = stamp
        else:
            self._served_stamp, self._failed = stamp, _NOTHING
            _log.info(f"the certificate of {self._of} was renewed", file=str(self._files[0]))

    def _read(self) -> ssl.SSLContext:
        try:
            context = _server_context(*map(str, self._files))
            expires_at = _expiry_of(self._files[0])
        except OSError as error:
            certificate, key = self._files
            words = f"{certificate} with {key} cannot be used: {_words(error)}"
            raise CertificateError(f"the certificate of {self._of}: {words}") from error
        self.expires_at = expires_at
        return context

    def _stamp(self) -> _Stamp | None:
        """What changes when a file does; ``None`` while one is missing."""
        try:
            states = [file.stat() for file in self._files]
        except OSError:
            return None
        return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)


class OwnCertificate:
    """A certificate that this process has made, and replaces long before it expires."""

    def __init__(self, name: str, clock: Clock) -> None:
        """``CertificateError`` when the means to make one are not installed."""
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._made_at, self._context = clock.monotonic(), self._make()

    def context(self) -> ssl.SSLContext:
        with self._lock:
            if self._clock.monotonic() - self._made_at > RENEW_AFTER:
                self._made_at, self._context = self._clock.monotonic(), self._make()
            return self._context

    def _make(self) -> ssl.SSLContext:
        # OpenSSL reads from files only; this one is in memory.
        file = os.memfd_create("certificate")
        try:
            os.write(file, _self_signed(self._name, self._clock))
            return _server_context(f"/proc/self/fd/{file}")
        finally:
            os.close(file)


def _self_signed(name: str, clock: Clock) -> bytes:
    """A new key and a certificate that it has signed itself, as one PEM."""
    try:
        from cryptography import x509  # noqa: PLC0415 (it is optional)
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError:
        raise CertificateError(
            "--metrics-secure without --metrics-cert-path makes a certificate itself, which needs the package "
            "cryptography: pip install 'tf-operator[tls]'"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(clock.now() - timedelta(hours=1))  # the reader's clock may be behind
        .not_valid_after(clock.now() + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _expiry_of(certificate: Path) -> datetime | None:
    with suppress(ImportError, ValueError):
        from cryptography import x509  # noqa: PLC0415 (it is optional)

        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    return None


def _server_context(certificate: str, key: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Session tickets are for clients that resume, and none does: those of Go and Python shake hands each time.
    context.num_tickets = 0
    # An encrypted key would make OpenSSL ask the terminal; an empty password makes it an error.
    context.load_cert_chain(certificate, key, password="")
    return context


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error).replace("_", " ").lower()
    return error.strerror or str(error)
