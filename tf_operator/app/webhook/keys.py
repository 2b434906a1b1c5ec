"""The webhook's certificate as it is kept in a Secret, and what becomes of it with time.

``next_keys`` is pure but for the new keys that it draws: given a Secret and a time it says what the Secret should be.
Its first part, ``repaired``, cannot wait for a leader. A renewal has three steps, so that at no moment the API server
meets a certificate that it does not know:

1. two thirds of the life are over: a new authority is added to the bundle, and its certificate waits;
2. a minute later, when every API server has the bundle: the certificate is served;
3. an hour later: the old authority leaves the bundle.

Each step is one write of the Secret, and whoever does the next one needs nothing but the Secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tf_operator.machinery import authority

VALID_FOR: Final = timedelta(days=365)
RENEW_BEFORE: Final = VALID_FOR / 3
KNOWN_AFTER: Final = timedelta(minutes=1)
FORGOTTEN_AFTER: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, with the one of its authority behind it, and its key; all as PEM."""

    certificate: bytes = b""
    key: bytes = b""

    @property
    def parsed(self) -> x509.Certificate | None:
        """The certificate, if it is one, belongs to the key, and the next of the certificates has signed it."""
        try:
            certificate, *behind = x509.load_pem_x509_certificates(self.certificate)
            key = serialization.load_pem_private_key(self.key, password=None)
            for issuer in behind[:1]:
                certificate.verify_directly_issued_by(issuer)
            return certificate if key.public_key() == certificate.public_key() else None
        except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion):
            return None


@dataclass(frozen=True, slots=True)
class Keys:
    bundle: bytes = b""
    """The authorities that the API server trusts, as PEM."""
    served: Pair = Pair()
    waiting: Pair = Pair()
    """A new one, which not every API server knows yet."""

    @classmethod
    def read(cls, data: Mapping[str, bytes]) -> Self:
        """From the data of a Secret; what is missing is empty."""
        return cls(
            bundle=data.get("ca.crt", b""),
            served=Pair(data.get("tls.crt", b""), data.get("tls.key", b"")),
            waiting=Pair(data.get("next.crt", b""), data.get("next.key", b"")),
        )

    def data(self) -> dict[str, bytes]:
        """The data of a Secret of the type kubernetes.io/tls; empty entries are to be removed."""
        return {
            "ca.crt": self.bundle,
            "tls.crt": self.served.certificate,
            "tls.key": self.served.key,
            "next.crt": self.waiting.certificate,
            "next.key": self.waiting.key,
        }


def repaired(keys: Keys, host: str, now: datetime) -> Keys:
    """What the Secret should be if nobody could be served with it: empty, broken, expired. The same if somebody can."""
    if not _is_usable(keys.served, host, now):
        authority, pair = _draw(host, now)
        return Keys(authority, pair)
    own = _authority_of(keys.served)
    return keys if own in keys.bundle else Keys(own, keys.served)


def succeeding(drawn: Keys, served: Pair, host: str, now: datetime) -> Keys:
    """New keys as a renewal, for a Secret that has lost the pair with which this process still serves.

    Every replica then goes on with what the API server knows, and the new pair waits until that is known, too.
    """
    return Keys(_authority_of(served) + drawn.bundle, served, drawn.served) if _is_usable(served, host, now) else drawn


def next_keys(keys: Keys, host: str, now: datetime) -> Keys:
    """What the Secret should be now; the same when there is nothing to do."""
    usable = repaired(keys, host, now)
    served, waiting = usable.served.parsed, usable.waiting.parsed
    if usable is not keys or served is None:
        return usable
    if waiting is not None:
        return Keys(keys.bundle, keys.waiting) if now >= _drawn_at(waiting) + KNOWN_AFTER else keys
    if served.not_valid_after_utc - now <= RENEW_BEFORE:
        authority, pair = _draw(host, now)
        return Keys(keys.bundle + authority, keys.served, pair)
    own = _authority_of(keys.served)
    if keys.bundle != own and now >= _drawn_at(served) + FORGOTTEN_AFTER:
        return Keys(own, keys.served)
    return keys


def is_trusted(bundle: bytes, pair: Pair) -> bool:
    """Whether who trusts these authorities trusts this certificate, too."""
    own = _authority_of(pair) if pair.parsed else b""
    return bool(own) and own in bundle


def _is_usable(pair: Pair, host: str, now: datetime) -> bool:
    if pair.parsed is None:
        return False
    certificate, *authorities = x509.load_pem_x509_certificates(pair.certificate)
    is_valid = all(each.not_valid_before_utc <= now < each.not_valid_after_utc for each in (certificate, *authorities))
    # As it is drawn here: of other keys nobody knows whether OpenSSL and the API server take them.
    has_known_key = isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        limits = [each.extensions.get_extension_for_class(x509.BasicConstraints).value for each in authorities]
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return False
    is_signed = bool(limits) and all(limit.ca for limit in limits)
    return is_valid and has_known_key and is_signed and host in names.get_values_for_type(x509.DNSName)


def _drawn_at(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + authority.CLOCK_SKEW


def _authority_of(pair: Pair) -> bytes:
    return _pem(*x509.load_pem_x509_certificates(pair.certificate)[1:])


def _draw(host: str, now: datetime) -> tuple[bytes, Pair]:
    name = f"tf-operator conversion webhook {now:%Y-%m-%d}"
    root, certificate, key = authority.draw(name, hosts=(host,), now=now, valid_for=VALID_FOR)
    return root, Pair(certificate + root, key)


def _pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)
