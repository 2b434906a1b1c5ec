"""A new certificate authority, which signs one certificate for a server; then its key is thrown away.

Import this only where one is needed: ``cryptography`` is optional, and costs a tenth of a second.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

CLOCK_SKEW: Final = timedelta(days=1)
"""The clock of whoever verifies the certificate may be behind, or the own one ahead: nobody can connect meanwhile."""


def draw(
    authority_name: str, *, hosts: Sequence[str], now: datetime, valid_for: timedelta
) -> tuple[bytes, bytes, bytes]:
    """The certificate of the authority, the one for these hosts, and its key, as PEM."""
    until = now + valid_for
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = _name(authority_name), _name(hosts[0][:64])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # noqa: FBT003 (x509's order)
    names = [_general_name(host) for host in hosts]
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    # The identifiers and usages: OpenSSL's strict verification, Python's default from 3.13 on, insists on them.
    authority = (
        _builder(issuer, issuer, key=authority_key, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(subject, issuer, key=key, now=now, until=until)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), certificate.public_bytes(pem), private


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, *, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
    )
