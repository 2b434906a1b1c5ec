"""The certificate of /metrics or the webhook: that of the current files, or one of this process's own."""

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


def certificate_of(context):
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


def names(context):
    alternatives = certificate_of(context).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return alternatives.get_values_for_type(x509.DNSName)


class Files:
    """A certificate and its key, as a mounted Secret shows them: behind a link that is swapped."""

    def __init__(self, folder):
        self._folder = folder
        self._count = 0
        self.authority = trustme.CA()
        self.link = folder / "data"

    def certificate(self):
        return GivenCertificate("the webhook", self.link / "tls.crt", self.link / "tls.key")

    def write(self, name, *, key_of=None):
        issued = self.authority.issue_cert(name)
        self._count += 1
        target = self._folder / f"version-{self._count}"
        target.mkdir()
        (target / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        (target / "tls.key").write_bytes((key_of or issued).private_key_pem.bytes())
        link = self._folder / "new"
        link.symlink_to(target)
        link.rename(self.link)


@pytest.fixture
def files(tmp_path):
    files = Files(tmp_path)
    files.write("one.example")
    return files


def test_a_given_certificate_is_read_again_only_when_it_has_changed(files):
    certificate = files.certificate()
    context = certificate.context()
    assert names(context) == ["one.example"]
    assert certificate.context() is context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2

    files.write("two.example")
    with capture_logs() as logs:
        assert names(certificate.context()) == ["two.example"]
    assert [record["event"] for record in logs] == ["the certificate of the webhook was renewed"]


def test_an_incomplete_renewal_changes_nothing_and_is_logged_once(files):
    certificate = files.certificate()
    files.write("two.example", key_of=files.authority.issue_cert("other.example"))
    with capture_logs() as logs:
        assert names(certificate.context()) == ["one.example"]
        certificate.context()
    assert [record["log_level"] for record in logs] == ["warning"]
    assert "cannot be used" in logs[0]["error"]

    files.link.unlink()
    assert names(certificate.context()) == ["one.example"]
    files.write("three.example")
    assert names(certificate.context()) == ["three.example"]


def test_a_certificate_whose_first_read_fails_is_read_again(files, monkeypatch):
    certificate = files.certificate()
    files.write("two.example")
    with monkeypatch.context() as busy, capture_logs() as logs:
        busy.setattr(
            certificates, "_server_context", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files"))
        )
        old = [certificate.context(), certificate.context()]
    assert [record["error"].rpartition(": ")[2] for record in logs] == ["Too many open files"]
    assert [names(context) for context in old] == [["one.example"]] * 2

    assert names(certificate.context()) == ["two.example"]
    assert certificate.context() is certificate.context()


def test_a_certificate_that_cannot_be_used_at_the_start_is_an_error_that_names_it(files):
    files.write("one.example", key_of=files.authority.issue_cert("other.example"))
    with pytest.raises(CertificateError, match="key values mismatch"):
        files.certificate()

    files.link.unlink()
    with pytest.raises(CertificateError, match=r"tls\.crt with .*tls\.key cannot be used: No such file or directory"):
        files.certificate()


def test_an_own_certificate_names_the_operator_is_valid_for_a_year_and_no_authority(clock):
    open_files = set(OPEN_FILES.iterdir())
    own = OwnCertificate("tf-operator", clock)
    assert set(OPEN_FILES.iterdir()) <= open_files, "its key leaves no open file"

    certificate = certificate_of(own.context())
    assert names(own.context()) == ["tf-operator"]
    assert certificate.not_valid_before_utc < clock.now()
    assert certificate.not_valid_after_utc == clock.now() + certificates.VALID_FOR
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


async def test_an_own_certificate_is_renewed_long_before_it_expires(clock):
    own = OwnCertificate("tf-operator", clock)
    first = certificate_of(own.context())
    await clock.advance(certificates.RENEW_AFTER - 1)
    assert certificate_of(own.context()) == first

    await clock.advance(2)
    assert certificate_of(own.context()) != first


def test_without_the_package_that_makes_certificates_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(CertificateError, match=r"pip install 'tf-operator\[tls\]'"):
        OwnCertificate("tf-operator", FakeClock())
