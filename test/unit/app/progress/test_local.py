"""Where programs report to a local server, and to the one after it."""

import socket

import pytest

from support.fake_clock import FakeClock
from tf_operator.app.progress.local import LocalProgress
from tf_operator.local.state import StateFolder


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path)


def reached_at(folder):
    """Where a server is reached that has ended, and its secret."""
    progress = LocalProgress(FakeClock(), folder)
    progress._listener.close()
    assert progress.server.url == f"http://127.0.0.1:{progress.port}"
    return progress.port, progress.server.secret


def test_the_next_server_is_reached_as_this_one_and_believes_its_tokens(folder, tmp_path):
    first = reached_at(folder)
    assert reached_at(folder) == first
    assert (tmp_path / "progress.json").stat().st_mode & 0o777 == 0o600


def test_it_has_another_port_and_the_same_secret_where_somebody_else_listens(folder):
    port, secret = reached_at(folder)
    with socket.create_server(("127.0.0.1", port)):
        other = reached_at(folder)
    assert other[0] != port
    assert other[1] == secret


@pytest.mark.parametrize(
    "text", ["", "[]", "[1, 2, 3]", "{", '["x", "y"]', "null", '[70000, "s"]', '[-1, "s"]', '[0, ""]']
)
def test_what_cannot_be_read_counts_as_nothing(folder, tmp_path, text):
    (tmp_path / "progress.json").write_text(text)
    port, secret = reached_at(folder)
    assert port > 0
    assert len(secret) == 64
