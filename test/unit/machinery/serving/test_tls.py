"""TLS on accepted sockets: what protocols and clients see of it, however slow or rude a client is."""

import asyncio
import socket
import ssl
import struct
import threading
from contextlib import suppress

import pytest
import uvloop

from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.serving.tls import CLOSED_WITHIN, MOST_UNSENT, TlsTransport

LONG = bytes(range(256)) * 8192


class Protocol(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self):
        self.transport, self.received, self.calls = None, b"", []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def eof_received(self):
        self.calls.append("eof")

    def connection_lost(self, error):
        self.calls.append(type(error).__name__ if error else "lost")


class Connection:
    """Both ends of a connection; the client's is read and written as far as that goes without waiting."""

    def __init__(self, clock, authority, tls):
        accepted, self.raw = socket.socketpair()
        accepted.setblocking(False)
        self.raw.setblocking(False)
        self.protocol = Protocol()
        self.transport = TlsTransport(accepted, tls, self.protocol, clock=clock)
        self.shaking = asyncio.ensure_future(self.transport.shake_hands())
        self.trust = ssl.create_default_context()
        authority.configure_trust(self.trust)
        self.client = self.raw

    async def shake_hands(self):
        self.client = self.trust.wrap_socket(self.raw, server_hostname="127.0.0.1", do_handshake_on_connect=False)
        await self.until(self.client.do_handshake)
        await self.shaking

    async def until(self, act):
        """The result of what the client does, once it can."""
        while True:
            try:
                return act()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                await asyncio.sleep(0)

    async def read(self, least=1):
        """What the client reads until it has so much, or the connection has ended."""
        received = b""
        while len(received) < least and (more := await self.until(lambda: self.client.recv(100_000))):
            received += more
        return received

    async def calls(self, *expected):
        while self.protocol.calls != list(expected):
            await asyncio.sleep(0)


@pytest.fixture
async def opening(clock, authority, tls):
    connection = Connection(clock, authority, tls)
    yield connection
    connection.transport.abort()
    connection.client.close()
    with suppress(OSError, asyncio.CancelledError):
        await connection.shaking
    assert clock.pending == 0


@pytest.fixture
async def connection(opening):
    await opening.shake_hands()
    return opening


async def test_the_protocol_gets_what_the_client_sends_and_the_client_what_it_writes(connection):
    connection.client.sendall(b"a question")
    while connection.protocol.received != b"a question":
        await asyncio.sleep(0)
    connection.protocol.transport.write(b"")
    connection.protocol.transport.write(b"an answer")

    assert await connection.read() == b"an answer"
    assert connection.transport.get_protocol() is connection.protocol
    assert connection.transport.get_extra_info("peername") == ""
    assert connection.transport.get_extra_info("of all this nothing", "else") == "else"


async def test_who_writes_waits_for_a_client_that_reads_slowly_and_all_of_it_arrives(connection):
    connection.transport.write(LONG)
    assert connection.protocol.calls == ["pause"]
    assert connection.transport.get_write_buffer_size() > MOST_UNSENT
    connection.transport.write(b"the end")

    assert await connection.read(len(LONG) + 7) == LONG + b"the end"
    await connection.calls("pause", "resume")
    assert connection.transport.get_write_buffer_size() == 0


async def test_what_was_written_before_the_end_arrives_and_then_the_end(connection):
    connection.transport.write(LONG)
    connection.transport.close()
    connection.transport.write(b"too late")

    assert connection.transport.is_closing()
    assert await connection.read(len(LONG) + 1) == LONG
    connection.client.close()
    await connection.calls("pause", "resume", "eof", "lost")


async def test_the_end_waits_for_room_and_is_said_all_the_same(connection, monkeypatch):
    """Without it a client cannot tell the end of a reply from a connection that broke."""
    tries, unwrap = [], ssl.SSLSocket.unwrap

    def without_room(tls):
        tries.append(tls)
        if len(tries) == 1:
            raise ssl.SSLWantWriteError
        return unwrap(tls)

    monkeypatch.setattr(ssl.SSLSocket, "unwrap", without_room)
    connection.client.suppress_ragged_eofs = False
    connection.transport.close()

    assert await connection.read() == b""


async def test_a_client_that_does_not_stop_sending_is_read_for_a_second(connection, clock):
    connection.transport.close()
    assert await connection.read() == b""
    connection.client.sendall(b"and another thing")
    await clock.advance(CLOSED_WITHIN - 0.1)
    assert connection.protocol.calls == []

    await clock.advance(0.1)
    await connection.calls("lost")
    assert connection.protocol.received == b""


async def test_nothing_is_read_while_the_protocol_wants_nothing(connection):
    connection.transport.pause_reading()
    connection.client.sendall(b"more")
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.protocol.received == b""

    connection.transport.resume_reading()
    while connection.protocol.received != b"more":
        await asyncio.sleep(0)


async def test_a_protocol_learns_that_its_client_has_gone(connection):
    connection.client.close()
    await connection.calls("eof", "lost")

    connection.transport.close()
    connection.transport.pause_reading()
    connection.transport.resume_reading()
    connection.transport.abort()
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.protocol.calls == ["eof", "lost"]


@pytest.mark.parametrize("reads", [True, False])
async def test_a_connection_that_breaks_says_how(connection, reads, monkeypatch):
    def broken(*_):
        raise BrokenPipeError

    monkeypatch.setattr(ssl.SSLSocket, "recv" if reads else "send", broken)
    if reads:
        connection.client.write(b"x")
    else:
        connection.transport.write(b"x")
    await connection.calls("BrokenPipeError")


async def test_a_client_that_does_not_speak_tls_gets_no_protocol(opening):
    opening.raw.sendall(b"GET / HTTP/1.1\r\n\r\n")

    with pytest.raises(ssl.SSLError, match="HTTP_REQUEST"):
        await opening.shaking
    assert opening.protocol.transport is None


async def test_a_connection_that_is_cut_in_its_handshake_was_never_made(opening):
    await asyncio.sleep(0)
    opening.transport.abort()

    with pytest.raises(ConnectionResetError):
        await opening.shaking
    await asyncio.sleep(0)
    assert opening.protocol.calls == []


async def test_who_waits_for_a_handshake_may_be_cancelled(opening):
    await asyncio.sleep(0)
    opening.shaking.cancel()
    await asyncio.sleep(0)
    opening.transport.abort()
    await asyncio.sleep(0)

    assert opening.protocol.calls == []


async def test_a_client_that_has_ended_what_it_sends_gets_all_of_a_reply(connection):
    connection.transport.write(LONG)
    socket.socket.shutdown(connection.client, socket.SHUT_WR)

    assert await connection.read(len(LONG)) == LONG
    await connection.calls("pause", "resume", "eof", "lost")


async def test_nothing_is_read_while_a_client_does_not_read(connection):
    """OpenSSL would end the connection at a message about keys, which it answers in the middle of a record."""
    connection.transport.write(LONG)
    connection.client.sendall(b"more")
    connection.transport.pause_reading()
    connection.transport.resume_reading()
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.protocol.received == b""

    assert await connection.read(len(LONG)) == LONG
    while connection.protocol.received != b"more":
        await asyncio.sleep(0)


@pytest.mark.parametrize("method", ["recv", "do_handshake"])
async def test_the_loop_rests_while_openssl_has_no_room_for_what_it_sends_itself(opening, method, monkeypatch):
    if method == "recv":
        await opening.shake_hands()
    accepted, tries, act = opening.transport.get_extra_info("socket"), [], getattr(ssl.SSLSocket, method)

    def without_room(tls, *args):
        if tls is not accepted:
            return act(tls, *args)
        tries.append(method)
        raise ssl.SSLWantWriteError

    opening.client.send(b"a question")
    with suppress(BlockingIOError):
        while True:
            socket.socket.send(accepted, bytes(1000))
    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLSocket, method, without_room)
        for _ in range(9):
            await asyncio.sleep(0)
        assert tries == [method]
    with suppress(BlockingIOError):
        while True:
            socket.socket.recv(opening.client, 100_000)
    with suppress(ssl.SSLError):  # a question is no handshake
        await opening.shaking
    while method == "recv" and not opening.protocol.received:
        await asyncio.sleep(0)


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_protocol_may_end_its_connection_when_it_is_told_to_write(connection, end, caplog):
    connection.protocol.resume_writing = getattr(connection.transport, end)
    connection.transport.write(LONG)

    with suppress(ssl.SSLEOFError):
        assert await connection.read(len(LONG) + 1) == LONG
    connection.client.close()
    await connection.calls("pause", *["eof"] * (end == "close"), "lost")
    assert caplog.messages == []


async def test_a_bug_of_a_protocol_ends_its_connection(connection, caplog):
    def fails(_):
        raise KeyError("a bug")

    connection.protocol.data_received = fails
    connection.client.sendall(b"x")
    await connection.calls("lost")

    (record,) = caplog.records
    assert record.exc_info[0] is KeyError


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_reset_right_behind_what_was_sent_is_heard_of(authority, tls, loop):
    """Of an error uvloop tells once, and watches the connection no more."""
    trust, is_shaken = ssl.create_default_context(), threading.Event()
    authority.configure_trust(trust)

    def send_and_reset(address):
        with trust.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1") as client:
            is_shaken.wait()
            client.sendall(b"the beginning of a request")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def main():
        protocol = Protocol()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = threading.Thread(target=send_and_reset, args=(listener.getsockname(),))
            client.start()
            accepted, _ = listener.accept()
            accepted.setblocking(False)
            await TlsTransport(accepted, tls, protocol, clock=SystemClock()).shake_hands()
            is_shaken.set()
            client.join()  # the loop sees both at once
        while "lost" not in protocol.calls:
            await asyncio.sleep(0)
        return protocol.received, protocol.calls

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(main()) == (b"the beginning of a request", ["eof", "lost"])
