"""Unit tests take seconds in all, so that they are run all the time; random inputs are tried in ``test/simulation``."""

import os
import ssl

import pytest
import structlog
import trustme

from support.fake_clock import FakeClock
from tf_operator.machinery import log


@pytest.fixture(autouse=True)
def no_certificate_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit test trusts this machine's certificate authorities, and each TLS context would load them for 50 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)


@pytest.fixture(autouse=True)
def logs_of_a_new_process() -> None:
    """What a test before this one has configured, or would have with its first record, drops no record of this one."""
    log._preparations.clear()
    structlog.reset_defaults()


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes when a test says so."""
    return FakeClock()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="session")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """A context for a server at 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context
