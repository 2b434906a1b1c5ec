"""What tests of the process change of the interpreter they run in, and have to put back."""

import logging
import signal

import pytest
import structlog


@pytest.fixture
def own_logging():
    """Logging as it was before the test, for all that come after it."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], logging.raiseExceptions = before[0], before[2]
    root.setLevel(before[1])
    structlog.reset_defaults()


@pytest.fixture
def own_signals():
    """The handlers of signals as they were before the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
