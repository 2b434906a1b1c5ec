"""What is sent to an endpoint: bodies, their bound, and methods."""

import asyncio
import http.client
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import pytest

from tf_operator.app.http import policies, server
from tf_operator.app.http.room import BodyRoom
from tf_operator.app.http.server import Endpoint, HttpReply
from tf_operator.app.options.flag_types import Address

REQUEST = b"POST /reverse HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
PATIENCE = 20
NOT_NOW = b"There is no room for this body now; send it again.\n"


async def reversed_body(_request, body):
    return HttpReply(200, body[::-1])


@contextmanager
def serving():
    policy = replace(policies.REVIEWS, request_within=60.0)
    endpoint = Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": reversed_body}, policy=policy)
    with server.serving(endpoint) as (address,):
        yield f"http://{address}"


def place(url):
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host, int(port)


@pytest.fixture
def url():
    with serving() as url:
        yield url


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


def test_an_endpoint_may_answer_all_paths_below_one_and_bound_its_bodies():
    endpoint = Endpoint(Address("127.0.0.1", 0), {}, answers={"/below/": reversed_body}, longest=3)
    with server.serving(endpoint) as (address,):
        assert post(f"http://{address}/below/a/b", b"abc") == (200, b"cba")
        assert post(f"http://{address}/below/a/b", b"abcd") == (413, b"There is room for 3 bytes.\n")
        assert post(f"http://{address}/below", b"abc")[0] == 404


def test_a_connection_is_kept_for_further_requests(url, monkeypatch):
    monkeypatch.setattr(server, "BodyRoom", partial(BodyRoom, most=20, small=0))
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    client.connect()
    first = client.sock
    for number in range(5):
        client.request("POST", "/reverse", f"1234567{number}")
        assert client.getresponse().read() == f"{number}7654321".encode()
        assert client.sock is first
    client.close()


def test_what_nobody_waits_for_any_more_is_given_up():
    """Or what waits for its turn would pile up, without a bound, from whoever sends and goes."""
    has_begun, has_ended = threading.Event(), threading.Event()

    async def wait_in_vain(_request, _body):
        has_begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            has_ended.set()

    with server.serving(Endpoint(Address("127.0.0.1", 0), {}, answers={"/reverse": wait_in_vain})) as (address,):
        with socket.create_connection((address.host, address.port)) as client:
            client.sendall(REQUEST % 1 + b"x")
            assert has_begun.wait(PATIENCE)
        assert has_ended.wait(PATIENCE)


def test_bodies_that_do_not_fit_are_refused_and_their_room_is_given_back(monkeypatch):
    monkeypatch.setattr(server, "BodyRoom", partial(BodyRoom, largest=10))
    with serving() as url:
        for _ in range(3):
            assert post(f"{url}/reverse", b"x" * 11) == (413, b"There is room for 10 bytes.\n")
            assert post(f"{url}/reverse", b"1234567890") == (200, b"0987654321")


def test_a_body_that_has_no_room_now_is_read_and_asked_for_again(monkeypatch):
    size = 6_000_000
    monkeypatch.setattr(server, "BodyRoom", partial(BodyRoom, most=size + 1, small=0))
    with serving() as url, socket.create_connection(place(url)) as slow:
        slow.sendall(REQUEST % size + b"x" * size)
        assert slow.recv(12) == b"HTTP/1.1 200"
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"{url}/reverse", b"x" * size, timeout=20)
        with refusal.value as reply:
            assert (reply.code, reply.headers["Retry-After"], reply.read()) == (503, "1", NOT_NOW)
        while slow.recv(1_000_000):
            pass
        assert post(f"{url}/reverse", b"12") == (200, b"21")


def test_clients_that_withhold_the_end_of_large_bodies_make_way_for_another_address(monkeypatch):
    size, held = 1_000_000, threading.Semaphore(0)

    class Watched(BodyRoom):
        def grow(self, place, size_now):
            super().grow(place, size_now)
            if size_now == size - 1:
                held.release()

    monkeypatch.setattr(server, "BodyRoom", partial(Watched, most=5 * size, small=0))
    with serving() as url, ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(socket.create_connection(place(url), source_address=("127.0.0.9", 0)))
            client.sendall(REQUEST % size + b"x" * (size - 1))
            assert held.acquire(timeout=20)
        for _ in range(3):
            assert post(f"{url}/reverse", b"12" * (size // 2)) == (200, b"21" * (size // 2))


def test_who_does_not_read_large_replies_makes_way_for_another_address(monkeypatch):
    size = 6_000_000
    monkeypatch.setattr(server, "BodyRoom", partial(BodyRoom, most=size * 2, small=0))
    with serving() as url, ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(socket.create_connection(place(url), source_address=("127.0.0.9", 0)))
            client.sendall(REQUEST % size + b"x" * size)
            assert client.recv(12) == b"HTTP/1.1 200"
        assert post(f"{url}/reverse", b"x" * size) == (200, b"x" * size)


def test_clients_that_never_send_the_end_of_a_body_keep_nobody_out(url, monkeypatch):
    begun, received = threading.Semaphore(0), server._read_body

    async def receiving(request, take):
        begun.release()
        return await received(request, take)

    monkeypatch.setattr(server, "_read_body", receiving)
    with ExitStack() as stack:
        for _ in range(policies.REVIEWS.most):
            client = stack.enter_context(socket.create_connection(place(url)))
            client.sendall(REQUEST % 10 + b"1")
            assert begun.acquire(timeout=20)
        assert post(f"{url}/reverse", b"12") == (200, b"21")


@pytest.mark.parametrize(
    ("path", "method", "answer"),
    [("/reverse", "GET", (405, b"Allowed here: POST.\n")), ("/", "POST", (404, b"There is /reverse here.\n"))],
)
def test_other_methods_and_paths_are_named(url, path, method, answer):
    assert post(f"{url}{path}", None if method == "GET" else b"", method) == answer


def test_a_body_in_chunks_is_refused_before_it_is_read(url):
    """An API server sends the length of each body."""
    with socket.create_connection(place(url)) as client:
        client.sendall(b"POST /reverse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        client.settimeout(20)
        assert client.recv(12) == b"HTTP/1.1 411"
        while client.recv(1_000):
            pass
    assert post(f"{url}/reverse", b"12") == (200, b"21")
