"""The certificate and the token of the local server: made once, kept, and made again in time."""

import ssl
from datetime import timedelta

import pytest

from tf_operator.local import certificate
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import SystemClock


@pytest.fixture
def folder(tmp_path):
    folder = StateFolder(tmp_path / "local")
    folder.create()
    return folder


def handshake(credentials, host):
    """Connect both ends in memory, with OpenSSL's strict rules."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=credentials.authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    server = credentials.tls.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version()


@pytest.mark.parametrize("host", certificate.HOSTS)
def test_a_strict_client_believes_it_on_loopback(folder, host):
    assert handshake(certificate.credentials(folder, SystemClock().now()), host) == "TLSv1.3"


def test_credentials_are_kept_until_half_of_their_time_is_over(folder, clock):
    first = certificate.credentials(folder, clock.now())
    later = certificate.credentials(folder, clock.now() + certificate.RENEW_AFTER - timedelta(hours=1))
    last = certificate.credentials(folder, clock.now() + certificate.RENEW_AFTER + timedelta(hours=1))

    assert (first.authority, first.token) == (later.authority, later.token)
    assert first.authority != last.authority
    assert first.token == last.token


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key", "token"])
@pytest.mark.parametrize("damage", [b"", b"\xff garbage"])
def test_what_is_damaged_is_made_again(folder, clock, name, damage):
    certificate.credentials(folder, clock.now())
    folder.write(name, damage)
    credentials = certificate.credentials(folder, clock.now())

    assert len(credentials.token) == 64
    assert damage not in (folder.read(name), b"never")
