"""The pages: what they say, in which form, and that no client can keep them from others."""

import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace

import pytest
import trustme

from tf_operator.app.http import policies, server
from tf_operator.app.options.flag_types import Address

ANYWHERE = Address("127.0.0.1", 0)


def served(pages):
    return server.serving(server.Endpoint(ANYWHERE, pages))


def fetch(address, path, *, method="GET", **headers):
    """Status, headers and body of a page."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://{address}{path}", headers=names, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers, refusal.read()


async def answer(_headers):
    return server.HttpReply(200, b"hello\n")


def test_a_page_that_does_not_exist_says_which_do():
    with served({"/healthz": answer, "/readyz": answer}) as (address,):
        status, _, body = fetch(address, "/")

    assert (status, body) == (404, b"There is /healthz and /readyz here.\n")


def test_a_page_that_fails_says_so_and_the_next_one_is_served():
    async def broken(_headers):
        raise LookupError

    with served({"/broken": broken, "/fine": answer}) as (address,):
        status, _, body = fetch(address, "/broken")
        assert (status, body) == (500, b"This page could not be rendered; see the log.\n")
        assert fetch(address, "/fine")[0] == 200


def test_head_has_no_body_and_other_methods_are_not_allowed():
    with served({"/healthz": answer}) as (address,):
        status, headers, body = fetch(address, "/healthz", method="HEAD")
        assert (status, headers["Content-Length"], body) == (200, "6", b"")
        status, headers, body = fetch(address, "/healthz", method="POST")
        assert (status, headers["Allow"], body) == (405, "GET, HEAD", b"Allowed here: GET and HEAD.\n")


def test_two_addresses_have_two_sets_of_pages():
    one, other = server.Endpoint(ANYWHERE, {"/a": answer}), server.Endpoint(Address("localhost", 0), {"/b": answer})
    with server.serving(one, other) as addresses:
        statuses = [[fetch(address, path)[0] for path in ("/a", "/b")] for address in addresses]

    assert statuses == [[200, 404], [404, 200]]


@pytest.mark.parametrize(
    ("listened", "has_ipv6", "reached"),
    [("", True, ["127.0.0.1", "[::1]"]), ("", False, ["127.0.0.1"]), ("::1", True, ["[::1]"])],
    ids=["every address", "every address without IPv6", "IPv6"],
)
def test_an_address_is_listened_on(monkeypatch, listened, has_ipv6, reached):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    with server.serving(server.Endpoint(Address(listened, 0), {"/a": answer})) as (bound,):
        assert [fetch(f"{host}:{bound.port}", "/a")[0] for host in reached] == [200] * len(reached)
    assert has_ipv6 or bound.host == "0.0.0.0"


def test_an_address_that_is_taken_is_named_with_the_reason():
    second = ExitStack()
    with served({"/a": answer}) as (taken,), pytest.raises(server.ServerError) as refused:
        second.enter_context(server.serving(server.Endpoint(taken, {"/b": answer})))
    assert str(refused.value) == f"cannot listen on {taken}: Address already in use"


def test_an_unknown_host_is_named_with_the_reason(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_server", unknown)
    with pytest.raises(server.ServerError, match=r"^cannot listen on elsewhere:80: Name or service not known$"):
        ExitStack().enter_context(server.serving(server.Endpoint(Address("elsewhere", 80), {})))


async def test_after_the_block_no_address_is_listened_on():
    with served({"/a": answer}) as (address,):
        pass
    with pytest.raises(urllib.error.URLError):
        fetch(address, "/a")


@pytest.mark.parametrize("sent", [b"", b"GET /hea"], ids=["nothing", "half a request"])
def test_clients_that_send_no_request_do_not_keep_others_from_a_page(sent):
    with served({"/healthz": answer}) as (address,), ExitStack() as idle:
        for _ in range(policies.PAGES.most + 5):
            connected(idle, address).sendall(sent)
        for _ in range(3):
            assert fetch(address, "/healthz")[0] == 200


def test_a_client_that_sends_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(policies, "PAGES", replace(policies.PAGES, request_within=0.1))
    with served({"/healthz": answer}) as (address,), ExitStack() as stack:
        assert connected(stack, address).recv(1) == b""


def test_a_client_that_sends_a_byte_now_and_then_is_disconnected_all_the_same(monkeypatch):
    monkeypatch.setattr(policies, "PAGES", replace(policies.PAGES, request_within=0.3))
    with served({"/healthz": answer}) as (address,), ExitStack() as stack:
        slow = connected(stack, address, timeout=0.05)
        assert is_disconnected(slow, b"GET /healthz HTTP/1.1\r\nHost: ")


def test_a_request_that_is_not_http_is_refused_and_not_logged(capsys):
    with served({"/healthz": answer}) as (address,), ExitStack() as stack:
        client = connected(stack, address)
        client.sendall(b"hello\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 400 ")

    assert capsys.readouterr() == ("", "")


def test_a_page_that_is_read_after_the_server_has_sent_it_arrives_whole_and_nothing_is_logged(monkeypatch, caplog):
    create, body = socket.create_server, bytes(60_000)

    def with_small_buffers(*arguments, **options):
        listener = create(*arguments, **options)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listener

    async def page(_headers):
        return server.HttpReply(200, body)

    monkeypatch.setattr(socket, "create_server", with_small_buffers)
    with served({"/metrics": page}) as (address,), ExitStack() as stack:
        late = connected(stack, address)
        late.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        received = late.recv(1)
        time.sleep(0.1)
        while more := late.recv(10_000):
            received += more
        time.sleep(0.1)  # what fails after the end is logged by the server's loop

    assert received.endswith(b"\r\n\r\n" + body)
    assert not caplog.records


def connected(stack, address, timeout=10):
    return stack.enter_context(socket.create_connection((address.host, address.port), timeout=timeout))


def is_disconnected(client, beginning=b"x"):
    """Whether a client that sends a byte every 50 ms is, in bounded time."""
    with suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(beginning)
        for _ in range(400):
            client.sendall(b"x")
            with suppress(TimeoutError):
                if not client.recv(1):
                    return True
        return False
    return True


def test_a_server_whose_thread_cannot_start_says_so(monkeypatch):
    def no_more(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(server.threading.Thread, "start", no_more)
    with pytest.raises(server.ServerError, match="can't start new thread"):
        ExitStack().enter_context(served({"/a": answer}))


async def test_a_connection_that_breaks_is_not_logged(capsys):
    with served({"/healthz": answer}) as (address,):
        connection = socket.create_connection((address.host, address.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.send(b"GET /healthz")
        connection.close()
        assert fetch(address, "/healthz")[0] == 200

    assert capsys.readouterr() == ("", "")


def fetch_safely(address, authority):
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with urllib.request.urlopen(f"https://{address}/a", timeout=10, context=trust) as reply:
        return reply.status, reply.read()


def test_an_endpoint_with_a_certificate_is_served_by_tls_only(authority, tls):
    with server.serving(server.Endpoint(ANYWHERE, {"/a": answer}, lambda: tls)) as (address,):
        assert fetch_safely(address, authority) == (200, b"hello\n")
        with pytest.raises(OSError, match=r"closed|reset"):
            fetch(address, "/a")


def test_each_connection_is_served_with_the_current_certificate(authority, tls):
    successor = trustme.CA()
    renewed = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    successor.issue_cert("127.0.0.1").configure_cert(renewed)
    contexts = iter([tls, renewed])
    with server.serving(server.Endpoint(ANYWHERE, {"/a": answer}, lambda: next(contexts))) as (address,):
        assert fetch_safely(address, authority)[0] == 200
        assert fetch_safely(address, successor)[0] == 200


def test_clients_that_never_shake_hands_keep_no_others_from_a_page(authority, tls):
    endpoint = server.Endpoint(ANYWHERE, {"/a": answer}, lambda: tls)
    with server.serving(endpoint) as (address,), ExitStack() as idle:
        for _ in range(policies.PAGES.most):
            connected(idle, address)
        for _ in range(3):
            assert fetch_safely(address, authority)[0] == 200


def test_a_client_that_never_shakes_hands_is_disconnected(tls, monkeypatch):
    monkeypatch.setattr(policies, "PAGES", replace(policies.PAGES, request_within=0.1))
    endpoint = server.Endpoint(ANYWHERE, {"/a": answer}, lambda: tls)
    with server.serving(endpoint) as (address,), ExitStack() as idle:
        assert connected(idle, address).recv(1) == b""


@pytest.mark.parametrize("is_admitted", [True, False])
def test_silent_connections_take_no_place_of_a_client_that_has_proved_who_it_is(is_admitted):
    async def take(_request, _body):
        return server.HttpReply(200, b"", is_admitted=is_admitted)

    endpoint = server.Endpoint(ANYWHERE, {}, answers={"/": take}, policy=replace(policies.REPORTS, most=4))
    with server.serving(endpoint) as (address,), ExitStack() as stack:
        client = stack.enter_context(closing(http.client.HTTPConnection(str(address), timeout=10)))
        client.request("POST", "/", b"")
        client.getresponse().read()
        place = address.host, address.port
        silent = [stack.enter_context(socket.create_connection(place, timeout=10)) for _ in range(8)]
        # The last one that makes room: by then, all are accepted.
        assert silent[4 if is_admitted else 3].recv(1) == b""
        client.auto_open = 0
        with nullcontext() if is_admitted else pytest.raises((OSError, http.client.HTTPException)):
            client.request("POST", "/", b"")
            assert client.getresponse().status == 200
