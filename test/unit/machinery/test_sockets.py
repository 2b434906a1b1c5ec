"""Connections are accepted, and cut, at any moment."""

import asyncio
import socket
import ssl
from asyncio import sslproto

import pytest
import trustme

from tf_operator.machinery import sockets


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


async def test_a_connection_that_comes_in_the_turn_in_which_accepting_ends_waits_for_who_accepts_next(listener):
    loop, failures = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    ending = asyncio.ensure_future(sockets.accept(listener))
    for _ in range(3):
        await asyncio.sleep(0)

    with socket.create_connection(listener.getsockname()) as client:
        loop.call_soon(ending.cancel)  # and then what the loop sees of its sockets
        await asyncio.wait([ending])
        assert (ending.cancelled(), failures) == (True, [])
        with await sockets.accept(listener) as accepted:
            assert accepted.getpeername() == client.getsockname()


class LostConnection(asyncio.Protocol):
    """Says when its connection is lost."""

    def __init__(self):
        self.is_lost = asyncio.Event()

    def connection_lost(self, exc):
        self.is_lost.set()


async def test_a_connection_that_its_server_closed_and_then_we_is_cut_without_an_error(monkeypatch):
    """As after a reply with the server's end right behind it; Python 3.11.2 raises then."""
    abort = sslproto._SSLProtocolTransport.abort

    def abort_of_python_3_11_2(transport):
        if transport._ssl_protocol is None:
            raise AttributeError("'NoneType' object has no attribute '_abort'")
        abort(transport)

    monkeypatch.setattr(sslproto._SSLProtocolTransport, "abort", abort_of_python_3_11_2)
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(ours)

    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=theirs) as server:
        address = server.sockets[0].getsockname()
        transport, protocol = await asyncio.get_running_loop().create_connection(LostConnection, *address, ssl=ours)
        await protocol.is_lost.wait()
        transport.close()
        sockets.abort(transport)
