"""What /metrics is served with: the files of the moment, or a certificate of this process's own."""

import contextlib
import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from tf_operator.app.http import certificates
from tf_operator.app.http.certificates import CertificateError, GivenCertificate, OwnCertificate

OPEN_FILES = Path("/proc/self/fd")


def shown(context):
    """The certificate that a client is shown."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

        def serve():
            with contextlib.suppress(OSError), context.wrap_socket(ours, server_side=True) as secured:
                secured.recv(1)

        serving = threading.Thread(target=serve)
        serving.start()
        with trusting.wrap_socket(theirs) as secured:
            der = secured.getpeercert(binary_form=True)
        serving.join()
    return x509.load_der_x509_certificate(der)


class Files:
    """A certificate and its key, as a mounted Secret shows them: behind a link that is swapped."""

    def __init__(self, folder):
        self._folder = folder
        self._count = 0
        self.authority = trustme.CA()
        self.certificate, self.key = folder / "data" / "tls.crt", folder / "data" / "tls.key"

    def write(self, name, *, key_of=None):
        issued = self.authority.issue_cert(name)
        self._count += 1
        target = self._folder / f"version-{self._count}"
        target.mkdir()
        (target / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        (target / "tls.key").write_bytes((key_of or issued).private_key_pem.bytes())
        link = self._folder / "new"
        link.symlink_to(target)
        link.rename(self._folder / "data")
        return issued


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def names(certificate):
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.DNSName)


def test_a_given_certificate_is_shown(files):
    files.write("one.example")

    assert names(shown(GivenCertificate(files.certificate, files.key).context())) == ["one.example"]


def test_a_certificate_that_was_renewed_is_shown_from_then_on(files):
    files.write("one.example")
    given = GivenCertificate(files.certificate, files.key)
    files.write("two.example")
    with capture_logs() as logs:
        assert names(shown(given.context())) == ["two.example"]

    assert [record["event"] for record in logs] == ["the certificate of /metrics was renewed"]


def test_a_certificate_that_did_not_change_is_read_once(files):
    files.write("one.example")
    given = GivenCertificate(files.certificate, files.key)

    assert given.context() is given.context()


def test_half_a_renewal_changes_nothing_and_is_told_once(files):
    files.write("one.example")
    given = GivenCertificate(files.certificate, files.key)
    files.write("two.example", key_of=files.authority.issue_cert("other.example"))
    with capture_logs() as logs:
        assert names(shown(given.context())) == ["one.example"]
        given.context()
    assert [record["log_level"] for record in logs] == ["warning"]
    assert "cannot be used" in logs[0]["error"]

    files.write("three.example")
    assert names(shown(given.context())) == ["three.example"]


def test_files_that_are_gone_for_a_moment_change_nothing(files):
    files.write("one.example")
    given = GivenCertificate(files.certificate, files.key)
    (files.certificate.parent.parent / "data").unlink()
    assert names(shown(given.context())) == ["one.example"]

    files.write("two.example")
    assert names(shown(given.context())) == ["two.example"]


def test_a_certificate_that_is_missing_at_the_start_is_an_error_that_names_it(files):
    with pytest.raises(CertificateError, match=r"tls\.crt with .*tls\.key cannot be used: No such file or directory"):
        GivenCertificate(files.certificate, files.key)


def test_a_key_of_another_certificate_is_an_error_that_says_so(files):
    files.write("one.example", key_of=files.authority.issue_cert("other.example"))

    with pytest.raises(CertificateError, match="key values mismatch"):
        GivenCertificate(files.certificate, files.key)


def test_an_old_protocol_is_not_spoken(files):
    files.write("one.example")

    assert GivenCertificate(files.certificate, files.key).context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_certificate_of_ones_own_names_the_operator_is_valid_for_a_year_and_no_authority():
    clock = FakeClock()
    found = shown(OwnCertificate("tf-operator", clock).context())

    assert names(found) == ["tf-operator"]
    assert found.not_valid_before_utc < clock.now()
    assert found.not_valid_after_utc == clock.now() + certificates.VALID_FOR
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


async def test_a_certificate_of_ones_own_is_created_again_long_before_it_runs_out():
    clock = FakeClock()
    own = OwnCertificate("tf-operator", clock)
    first = shown(own.context())
    await clock.advance(certificates.RENEW_AFTER - 1)
    assert shown(own.context()) == first

    await clock.advance(2)
    assert shown(own.context()) != first


def test_the_key_of_ones_own_certificate_leaves_no_open_file():
    before = sorted(OPEN_FILES.iterdir())
    OwnCertificate("tf-operator", FakeClock())

    assert sorted(OPEN_FILES.iterdir()) == before


def test_without_the_package_that_makes_certificates_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(CertificateError, match=r"pip install 'tf-operator\[tls\]'"):
        OwnCertificate("tf-operator", FakeClock())
