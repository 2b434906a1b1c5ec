"""Unit tests take seconds in all, so that they are run all the time; random inputs are tried in ``test/simulation``."""

import os

import pytest

from support.fake_clock import FakeClock


@pytest.fixture(autouse=True)
def no_certificate_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit test trusts this machine's certificate authorities, and each TLS context would load them for 50 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setenv("SSL_CERT_DIR", os.devnull)


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes when a test says so."""
    return FakeClock()
