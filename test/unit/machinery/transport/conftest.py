"""What tests of connections share."""

import pytest
import trustme


@pytest.fixture(scope="session")
def authority():
    """A certificate authority."""
    return trustme.CA()
