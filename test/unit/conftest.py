"""Unit tests take seconds in all, so that they are run all the time: random inputs are few here.

``test/properties`` is where inputs are tried by the hundred. A test that needs more of them here says so itself.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("unit", max_examples=10)

# No unit test trusts the authorities of this machine, and to read them anew for each TLS context takes 50 ms.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


def pytest_runtest_setup(item: pytest.Item) -> None:
    settings.load_profile("unit")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    settings.load_profile("default")
