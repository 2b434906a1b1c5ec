"""What a server sends, cut anywhere and broken anyhow: a reply is whole or an error, and leaves nothing to the next."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.http import wire as wires
from tf_operator.machinery.transport.http.wire import LARGE, LARGEST_HEAD, Wire

HEAD = b"GET / HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = {
    "with a length": OK + b"Content-Type: application/json\r\nContent-Length: 5\r\n\r\nhello",
    "in chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\nX-Trailer: t\r\n\r\n",
    "after notices": b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early\r\n\r\n"
    + OK
    + b"Content-Length: 5\r\n\r\nhello",
    "the last one": OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello",
}
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


class Socket:
    """A transport that keeps what is written, and never takes more of it than ``takes``."""

    def __init__(self, wire, *, takes=10**9):
        self.wire, self.takes = wire, takes
        self.written = bytearray()
        self.is_cut = self.is_paused = False
        wire.connection_made(self)

    def write(self, data):
        self.written += data
        if len(self.written) > self.takes:
            self.wire.pause_writing()

    def abort(self):
        self.is_cut = True

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False


async def exchanged(data, cuts=(), *, ending=None):
    """The reply to a request, or its error, and the wire; ``data`` comes in pieces that end at ``cuts``."""
    wire = Wire()
    socket = Socket(wire)

    async def exchange():
        await wire.send(HEAD)
        return wire.status, await wire.read()

    task = asyncio.ensure_future(exchange())
    await asyncio.sleep(0)
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    for start, end in zip([0, *ends], ends, strict=False):
        if end > start and not socket.is_cut:
            wire.data_received(data[start:end])
            await asyncio.sleep(0)
    if ending is not None and not socket.is_cut:
        ending(wire)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        return None, wire, socket
    return task.exception() or task.result(), wire, socket


def end(wire):
    wire.eof_received()
    wire.connection_lost(None)


@pytest.mark.parametrize("name", WHOLE)
@given(cuts=some.lists(some.integers(0, 1000)))
async def test_a_reply_is_the_same_wherever_it_is_cut(name, cuts):
    outcome, wire, socket = await exchanged(WHOLE[name], cuts)

    assert outcome == (200, b"hello")
    assert not socket.is_cut
    assert wire.is_reusable is (name != "the last one")


@given(cuts=some.lists(some.integers(0, 1000)), name=some.sampled_from(sorted(WHOLE)), length=some.integers(0, 200))
async def test_a_reply_that_ends_too_early_is_lost(cuts, name, length):
    data = WHOLE[name][: min(length, len(WHOLE[name]) - 1)]
    found, wire, _ = await exchanged(data, cuts, ending=end)

    assert type(found) is errors.ReplyLost
    assert not wire.is_reusable


@given(
    data=some.one_of(
        some.binary(max_size=200),
        some.tuples(some.sampled_from([OK, *WHOLE.values()]), some.binary(max_size=60)).map(b"".join),
        some.tuples(some.sampled_from(sorted(WHOLE.values())), some.integers(0, 150), some.binary(max_size=3)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :]
        ),
    ),
    cuts=some.lists(some.integers(0, 300), max_size=5),
)
@example(data=b"SSH-2.0-x\r\n\r\n", cuts=[])
async def test_whatever_comes_is_a_reply_or_an_error_and_a_wire_is_used_again_only_after_a_whole_one(data, cuts):
    found, wire, _ = await exchanged(data, cuts, ending=end if len(data) % 2 else None)

    if isinstance(found, Exception):
        assert isinstance(found, errors.ReplyLost | errors.Garbled)
        assert "\n" not in str(found)
    if not isinstance(found, tuple):
        assert not wire.is_reusable
    if wire.is_reusable:
        again = asyncio.ensure_future(wire.send(HEAD))
        await asyncio.sleep(0)
        wire.data_received(EMPTY)
        await again
        assert (wire.status, await wire.read()) == (204, b"")


@pytest.mark.parametrize("surplus", [EMPTY, b"x", b"HTTP/1.1 100 Continue\r\n\r\n"])
@pytest.mark.parametrize("is_late", [False, True])
async def test_what_nobody_asked_for_is_never_the_reply_to_the_next_request(surplus, is_late):
    data = WHOLE["with a length"]
    outcome, wire, socket = await exchanged(data + (b"" if is_late else surplus))
    if is_late:
        assert wire.is_reusable
        wire.data_received(surplus)
        assert socket.is_cut

    assert outcome == (200, b"hello")
    assert not wire.is_reusable


async def test_a_body_that_nobody_read_is_not_part_of_the_next_one():
    wire = Wire()
    Socket(wire)
    for data, status in ((WHOLE["with a length"], 200), (EMPTY, 204)):
        sending = asyncio.ensure_future(wire.send(HEAD))
        await asyncio.sleep(0)
        wire.data_received(data)
        await sending
        assert wire.status == status

    assert await wire.read() == b""


async def test_nothing_is_sent_on_a_connection_that_ended_before():
    wire = Wire()
    socket = Socket(wire)
    end(wire)

    with pytest.raises(errors.Unreachable):
        await wire.send(HEAD)
    assert socket.written == b""


async def test_a_body_without_a_length_ends_with_the_connection_unless_that_breaks():
    data = OK + b"X: y\r\n\r\nhel"
    assert (await exchanged(data + b"lo", [40], ending=end))[0] == (200, b"hello")

    broken, wire, _ = await exchanged(data, ending=lambda wire: wire.connection_lost(ConnectionResetError("reset")))
    assert (type(broken), str(broken)) == (errors.ReplyLost, "ConnectionResetError: reset")
    assert not wire.is_reusable


# Limits


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(OK + b"X: " + b"a" * LARGEST_HEAD + b"\r\nContent-Length: 0\r\n\r\n", id="one header"),
        pytest.param(OK + b"X: yyyy\r\n" * (LARGEST_HEAD // 4), id="many headers"),
        pytest.param(b"HTTP/1.1 200 " + b"a" * 2 * LARGEST_HEAD, id="a reason"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, id="notices"),
        pytest.param(WHOLE["in chunks"][:-16] + b"X: yyyy\r\n" * 4000, id="a trailer"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * 2 * LARGEST_HEAD, id="a note on a chunk"),
    ],
)
async def test_a_head_or_trailer_without_end_is_refused(data):
    outcome, wire, socket = await exchanged(data, range(0, len(data), 1024))

    assert isinstance(outcome, errors.Garbled)
    assert "16 kB" in str(outcome)
    assert socket.is_cut
    assert not wire.is_reusable


async def test_a_large_body_may_come_with_its_head():
    body = b"a" * 3 * LARGEST_HEAD
    outcome, *_ = await exchanged(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    assert outcome == (200, body)


async def test_a_body_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(wires, "LARGEST_BODY", 1024 * 1024)
    data = OK + b"\r\n" + b"a" * 3 * 1024 * 1024
    outcome, *_ = await exchanged(data, range(0, len(data), 64 * 1024))

    assert (type(outcome), str(outcome)) == (errors.Garbled, "a reply of more than 1 MiB")


async def test_a_server_waits_while_nobody_reads_what_comes_piece_by_piece():
    wire = Wire()
    socket = Socket(wire)
    sending = asyncio.ensure_future(wire.send(HEAD))
    await asyncio.sleep(0)
    wire.data_received(OK + b"\r\n")
    await sending
    wire.data_received(b"a" * LARGE)
    assert not socket.is_paused
    wire.data_received(b"b")
    assert socket.is_paused

    assert await wire.read_piece() == b"a" * LARGE + b"b"
    assert not socket.is_paused


async def test_a_server_that_refuses_a_large_request_gets_no_more_of_it():
    wire = Wire()
    socket = Socket(wire, takes=LARGE)
    sending = asyncio.ensure_future(wire.send(HEAD, b"a" * 10 * LARGE))
    await asyncio.sleep(0)
    assert len(socket.written) == len(HEAD) + LARGE
    wire.resume_writing()
    await asyncio.sleep(0)
    assert len(socket.written) == len(HEAD) + 2 * LARGE

    wire.data_received(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
    await sending
    assert (wire.status, wire.header("CONTENT-length"), len(socket.written)) == (413, "0", len(HEAD) + 2 * LARGE)
    assert not wire.is_reusable
