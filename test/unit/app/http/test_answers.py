"""What is sent to an endpoint: bodies, their bound, and methods."""

import http.client
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack

import pytest

from tf_operator.app.http import connections, server
from tf_operator.app.http.server import Endpoint, HttpReply
from tf_operator.app.options.flag_types import Address

REQUEST = b"POST /reverse HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


async def reversed_body(body):
    return HttpReply(200, body[::-1])


@pytest.fixture
def url():
    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body})) as (address,):
        yield f"http://{address}"


def post(url, body, method="POST"):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=20) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_body_is_answered_as_a_whole(url):
    body = b"0123456789" * 300_000

    assert post(f"{url}/reverse", body) == (200, body[::-1])


def test_a_connection_is_kept_for_further_requests(url, monkeypatch):
    monkeypatch.setattr(server, "MOST_BYTES", 20)
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    client.connect()
    first = client.sock
    for number in range(5):
        client.request("POST", "/reverse", f"1234567{number}")
        assert client.getresponse().read() == f"{number}7654321".encode()
        assert client.sock is first
    client.close()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "LARGEST_BODY"])
def test_bodies_that_do_not_fit_are_refused_and_their_room_is_given_back(monkeypatch, limit):
    monkeypatch.setattr(server, limit, 10)
    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body})) as (address,):
        for _ in range(3):
            assert post(f"http://{address}/reverse", b"x" * 11) == (413, b"There is room for 10 bytes.\n")
            assert post(f"http://{address}/reverse", b"1234567890") == (200, b"0987654321")


def test_a_reply_takes_room_until_it_has_been_read(monkeypatch):
    size = 6_000_000
    monkeypatch.setattr(server, "MOST_BYTES", size + 1)
    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body})) as (address,):
        with socket.create_connection((address.host, address.port)) as slow:
            slow.sendall(REQUEST % size + b"x" * size)
            assert slow.recv(12) == b"HTTP/1.1 200"
            assert post(f"http://{address}/reverse", b"12") == (413, b"There is room for 1 bytes.\n")
            while slow.recv(1_000_000):
                pass
        assert post(f"http://{address}/reverse", b"12") == (200, b"21")


def test_clients_that_never_send_the_end_of_a_body_keep_nobody_out(url, monkeypatch):
    begun, received = threading.Semaphore(0), server._received

    async def receiving(request, take):
        begun.release()
        return await received(request, take)

    monkeypatch.setattr(server, "_received", receiving)
    with ExitStack() as stack:
        for _ in range(connections.MOST_KEPT):
            client = stack.enter_context(socket.create_connection(url.removeprefix("http://").split(":")))
            client.sendall(REQUEST % 10 + b"1")
            assert begun.acquire(timeout=20)
        assert post(f"{url}/reverse", b"12") == (200, b"21")


@pytest.mark.parametrize(
    ("path", "method", "answer"),
    [("/reverse", "GET", (405, b"Allowed here: POST.\n")), ("/", "POST", (404, b"There is /reverse here.\n"))],
)
def test_other_methods_and_paths_are_named(url, path, method, answer):
    assert post(f"{url}{path}", None if method == "GET" else b"", method) == answer
