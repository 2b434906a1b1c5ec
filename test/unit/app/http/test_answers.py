"""What is sent to an endpoint: bodies, their bound, and methods."""

import urllib.error
import urllib.request

import pytest

from tf_operator.app.http import server
from tf_operator.app.http.server import Endpoint, Reply
from tf_operator.app.options.flag_types import Address


async def reversed_body(body):
    return Reply(200, body[::-1])


@pytest.fixture
def url():
    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body})) as (address,):
        yield f"http://{address}"


def post(url, body, method="POST"):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=20) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_body_is_answered_as_a_whole(url):
    body = b"0123456789" * 300_000

    assert post(f"{url}/reverse", body) == (200, body[::-1])


def test_bodies_that_do_not_fit_are_refused_and_their_room_is_given_back(url, monkeypatch):
    monkeypatch.setattr(server, "MOST_BYTES", 10)
    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body})) as (address,):
        for _ in range(3):
            assert post(f"http://{address}/reverse", b"x" * 11) == (413, b"There is room for 10 bytes.\n")
            assert post(f"http://{address}/reverse", b"1234567890") == (200, b"0987654321")


@pytest.mark.parametrize(
    ("path", "method", "answer"),
    [("/reverse", "GET", (405, b"Allowed here: POST.\n")), ("/", "POST", (404, b"There is /reverse here.\n"))],
)
def test_other_methods_and_paths_are_named(url, path, method, answer):
    assert post(f"{url}{path}", None if method == "GET" else b"", method) == answer
