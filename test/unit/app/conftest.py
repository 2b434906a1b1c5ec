"""What tests of the process change of the interpreter they run in, and have to put back."""

import json
import logging
import signal

import pytest


@pytest.fixture
def own_logging():
    """Logging as it was before the test, for all that come after it."""
    root = logging.getLogger()
    state = root.handlers[:], root.level, logging.raiseExceptions
    switches = {
        name: getattr(logging, name) for name in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")
    }
    yield
    for name, value in switches.items():
        setattr(logging, name, value)
    logging.captureWarnings(capture=False)
    root.handlers[:], logging.raiseExceptions = state[0], state[2]
    root.setLevel(state[1])


@pytest.fixture
def own_signals():
    """The handlers of signals as they were before the test."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def kubeconfig(tmp_path):
    """That of an apiserver that does not run."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    return str(path)
