"""The webhook's certificate over the years: at each moment an API server that is a minute behind can connect."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tf_operator.app.webhook.keys import Keys, Pair, next_keys, repaired

HOST = "tf-operator.kubeflow.svc"
START = datetime(2026, 1, 1, tzinfo=UTC)
GARBAGE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def authorities(bundle):
    return {authority.subject for authority in x509.load_pem_x509_certificates(bundle)}


def issuer(pair):
    return pair.parsed.issuer


def with_another_authority(pair):
    end = b"-----END CERTIFICATE-----\n"
    return Pair(pair.certificate.partition(end)[0] + end + next_keys(Keys(), HOST, START).bundle, pair.key)


def with_names_of_another_kind(pair):
    """Of X.400, which no library knows."""
    key = load_pem_private_key(pair.key, None)
    names = x509.UnrecognizedExtension(x509.oid.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes.fromhex("3004a3023000"))
    itself = (
        x509.CertificateBuilder()
        .subject_name(issuer(pair))
        .issuer_name(issuer(pair))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=9))
        .add_extension(names, critical=False)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    return Pair(itself * 2, pair.key)


def signed_elsewhere(key=None, *, is_authority=True, days=9):
    """Keys of somebody else, with this key and an authority, or what is none."""
    authority_key, pair_key = ec.generate_private_key(ec.SECP256R1()), key or ec.generate_private_key(ec.SECP256R1())

    def sign(holder, *, is_ca, until):
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(x509.Name([]))
            .public_key(holder.public_key())
            .serial_number(1)
            .not_valid_before(START)
            .not_valid_after(START + timedelta(days=until))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
            .sign(authority_key, SHA256())
            .public_bytes(Encoding.PEM)
        )

    authority = sign(authority_key, is_ca=is_authority, until=days)
    private = pair_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Keys(authority, Pair(sign(pair_key, is_ca=False, until=9) + authority, private))


@pytest.mark.parametrize(
    ("foreign", "is_kept"),
    [
        (signed_elsewhere(), True),
        (signed_elsewhere(rsa.generate_private_key(65537, 1024)), False),
        (signed_elsewhere(dsa.generate_private_key(1024)), False),
        (signed_elsewhere(is_authority=False), False),
        (signed_elsewhere(days=1), False),
    ],
    ids=["as good as ours", "too short a key", "a key that TLS has given up", "no authority", "an expired authority"],
)
def test_what_somebody_has_put_there_is_kept_if_an_api_server_takes_it(foreign, is_kept):
    assert (repaired(foreign, HOST, START + timedelta(days=2)) is foreign) == is_kept


def test_the_first_certificate_is_that_of_the_service_and_one_that_openssl_takes(tmp_path):
    keys = next_keys(Keys(), HOST, START)

    assert authorities(keys.bundle) == {issuer(keys.served)}
    path = tmp_path / "pair.pem"
    path.write_bytes(keys.served.key + keys.served.certificate)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    ssl.create_default_context(cadata=keys.bundle.decode())
    # For an API server whose clock is behind by hours, or ours ahead.
    assert keys.served.parsed.not_valid_before_utc <= START - timedelta(hours=23)


def test_what_is_stored_is_read_back_and_changed_no_more():
    keys = next_keys(Keys(), HOST, START)

    assert Keys.read(keys.data()) == keys
    assert next_keys(keys, HOST, START + timedelta(days=200)) is keys


def test_an_api_server_that_is_a_minute_behind_always_knows_what_is_served():
    keys, history = next_keys(Keys(), HOST, START), {}
    now, steps = START, 0
    while now < START + timedelta(days=1000):
        history[now] = keys
        known_keys = [entry for moment, entry in history.items() if moment <= now - timedelta(minutes=1)][-1:] or [keys]
        assert issuer(keys.served) in authorities(known_keys[0].bundle)
        assert issuer(known_keys[0].served) in authorities(keys.bundle)  # another replica may serve it still
        assert keys.served.parsed.not_valid_after_utc > now + timedelta(days=100)
        assert len(authorities(keys.bundle)) <= 2
        after = next_keys(keys, HOST, now)
        steps += after is not keys
        now += timedelta(seconds=20) if after is not keys or len(authorities(after.bundle)) == 2 else timedelta(days=5)
        keys = after
        history = dict(list(history.items())[-10:])
    assert steps == 3 * 4  # renewed four times in a thousand days


@pytest.mark.parametrize(
    "spoil",
    [
        lambda keys: Keys(keys.bundle, Pair(keys.served.certificate, b"no key")),
        lambda keys: Keys(keys.bundle, Pair(b"no certificate", keys.served.key)),
        lambda keys: Keys(keys.bundle, Pair(keys.served.certificate, next_keys(Keys(), HOST, START).served.key)),
        lambda keys: Keys(
            keys.bundle, Pair(b"-----BEGIN" + keys.served.certificate.split(b"-----BEGIN")[1], keys.served.key)
        ),
        lambda keys: Keys(keys.bundle, Pair(keys.served.certificate + GARBAGE, keys.served.key)),
        lambda keys: Keys(keys.bundle, with_another_authority(keys.served)),
        lambda keys: Keys(keys.bundle, with_names_of_another_kind(keys.served)),
    ],
    ids=[
        *("no key", "no certificate", "the key of another one", "no authority", "garbage behind it"),
        *("an authority that has not signed it", "names that cannot be read"),
    ],
)
def test_a_secret_that_cannot_be_used_is_replaced_at_once(spoil):
    keys = next_keys(Keys(), HOST, START)

    replacement = next_keys(spoil(keys), HOST, START + timedelta(days=1))

    (authority,) = x509.load_pem_x509_certificates(replacement.bundle)
    replacement.served.parsed.verify_directly_issued_by(authority)
    assert replacement.served.certificate != keys.served.certificate


def test_an_authority_that_somebody_has_removed_is_put_back():
    keys = next_keys(Keys(), HOST, START)

    assert next_keys(Keys(b"", keys.served), HOST, START) == keys


@pytest.mark.parametrize(
    ("host", "later"),
    [("other.kubeflow.svc", 1), (HOST, 366), (HOST, -2)],
    ids=["renamed", "expired", "of a leader whose clock was wrong"],
)
def test_a_certificate_that_nobody_can_use_is_replaced_at_once(host, later):
    keys = next_keys(Keys(), HOST, START)

    assert next_keys(keys, host, START + timedelta(days=later)).served != keys.served
