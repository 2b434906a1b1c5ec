"""What tests of metrics share."""

import pytest
from prometheus_client import CollectorRegistry

from support.fake_clock import FakeClock


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def clock():
    return FakeClock()
