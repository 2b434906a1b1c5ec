"""Which connections may stay, which make room, and when one has lasted for too long."""

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from dataclasses import replace

import pytest
import uvloop

from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.serving import connections
from tf_operator.machinery.serving.connections import (
    HANDSHAKES_AT_ONCE,
    ConnectionPolicy,
    Connections,
    HandshakeShare,
)

REQUEST_WITHIN, LONGEST, IDLE, HANDSHAKES = 5.0, 20.0, 120.0, 20.0
POLICY = ConnectionPolicy(2, REQUEST_WITHIN, LONGEST, IDLE, HANDSHAKES)


class Client:
    """The other end of a connection that is served."""

    def __init__(self, served):
        accepted, self.socket = socket.socketpair()
        accepted.setblocking(False)
        self.socket.setblocking(False)
        served.open.add(accepted)
        self.protocol = None
        """Once something was sent."""

    @property
    def is_connected(self):
        try:
            return self.socket.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:  # with what it had sent unread
            return False


class Protocol(asyncio.Protocol):
    """Reports that its connection is closed, and nothing else."""

    def __init__(self, served):
        self.served = served

    def connection_lost(self, _error):
        self.served.open.on_lost(self)


class Served:
    """Connections with room for two, and their clients."""

    def __init__(self, clock, tasks, policy=POLICY):
        self.clients = []
        self.protocols = []
        self.open = Connections(self.make_protocol, policy, clock, tasks=tasks)

    def make_protocol(self):
        self.protocols.append(Protocol(self))
        return self.protocols[-1]

    def connect_silently(self):
        self.clients.append(Client(self))
        return self.clients[-1]

    async def connect(self):
        """One that has begun its request, unless it was closed at once."""
        client, others = self.connect_silently(), len(self.protocols)
        with suppress(BrokenPipeError):
            client.socket.send(b"P")
            await turns()
            (client.protocol,) = self.protocols[others:]
        return client


async def turns():
    """The loop has to look at its sockets."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
async def served(clock):
    async with asyncio.TaskGroup() as tasks:
        served = Served(clock, tasks)
        yield served
        for client in served.clients:
            client.socket.close()
        await clock.advance(IDLE)


async def connected(clock, served):
    """Which clients are connected, after everything has happened that can."""
    for _ in range(5):  # the loop has to look at its sockets
        await asyncio.sleep(0)
        await clock.idle()
    return [client.is_connected for client in served.clients]


async def test_the_oldest_without_a_request_makes_room(served, clock):
    for _ in range(4):
        await served.connect()

    assert await connected(clock, served) == [False, False, True, True]


async def test_one_that_has_sent_nothing_costs_its_socket_only_and_makes_room_in_its_turn(served, clock):
    served.connect_silently()
    await served.connect()
    served.connect_silently()

    assert await connected(clock, served) == [False, True, True]
    assert len(served.protocols) == 1


async def test_a_first_byte_makes_a_connection_no_younger_than_those_that_came_after_it(served, clock):
    older = served.connect_silently()
    await served.connect()
    older.socket.send(b"P")
    await turns()
    served.connect_silently()

    assert await connected(clock, served) == [False, True, True]


async def test_one_that_the_system_cannot_watch_is_closed_and_the_next_is_served(served, clock, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "add_reader", fail)
        served.connect_silently()
        assert len(served.open) == 0
    await served.connect()

    assert await connected(clock, served) == [False, True]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("turns", range(5))
def test_a_protocol_hears_of_the_end_of_a_connection_that_is_closed_while_it_begins(loop, turns):
    calls = []

    class Told(asyncio.Protocol):
        def connection_made(self, _transport):
            calls.append("made")

        def connection_lost(self, _error):
            calls.append("lost")

    async def main():
        async with asyncio.TaskGroup() as tasks:
            served = Connections(Told, POLICY, SystemClock(), tasks=tasks)
            accepted, client = socket.socketpair()
            accepted.setblocking(False)
            served.add(accepted)
            client.send(b"P")
            for _ in range(turns):
                await asyncio.sleep(0)
            served.close_all()
            for _ in range(5):
                await asyncio.sleep(0)
        client.settimeout(1)
        with client, suppress(ConnectionResetError):
            assert client.recv(2) == b""

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert calls in ([], ["made", "lost"])


async def test_one_whose_reply_is_being_sent_makes_room_when_all_have_asked(served, clock):
    first, second = await served.connect(), await served.connect()
    await clock.idle()
    served.open.on_request(first.protocol)
    served.open.on_reply(second.protocol)
    await served.connect()

    assert await connected(clock, served) == [True, False, True]


async def test_an_idle_one_whose_client_has_proved_who_it_is_makes_room_after_the_others(served, clock):
    proved, unknown = await served.connect(), await served.connect()
    await connected(clock, served)
    served.open.on_request(proved.protocol, is_admitted=True)
    served.open.on_reply_sent(proved.protocol)
    served.open.on_request(unknown.protocol)
    served.open.on_reply_sent(unknown.protocol)
    await served.connect()

    assert await connected(clock, served) == [True, False, True]


async def test_a_request_that_was_not_let_in_gets_no_more_time(served, clock):
    client = await served.connect()
    await connected(clock, served)
    served.open.on_reply_sent(client.protocol)
    await clock.advance(REQUEST_WITHIN)

    assert await connected(clock, served) == [False]


async def test_a_reply_without_a_limit_lasts_for_as_long_as_its_client_reads(clock):
    async with asyncio.TaskGroup() as tasks:
        served = Served(clock, tasks, ConnectionPolicy(2, REQUEST_WITHIN))
        client = await served.connect()
        await connected(clock, served)
        served.open.on_request(client.protocol)
        await clock.advance(10_000)
        assert await connected(clock, served) == [True]

        client.socket.close()


async def test_none_makes_room_while_its_reply_is_being_made(served, clock):
    for client in (await served.connect(), await served.connect()):
        served.open.on_request(client.protocol)
    await served.connect()

    assert await connected(clock, served) == [True, True, False]


@pytest.mark.parametrize("stage", ["waiting", "preparing", "sending"])
async def test_the_client_with_most_connections_makes_room_for_another_address(served, clock, monkeypatch, stage):
    addresses = iter(["greedy", "greedy", "modest"])
    monkeypatch.setattr(connections, "_client_of", lambda _accepted: next(addresses))
    for client in (await served.connect(), await served.connect()):
        await clock.idle()
        if stage != "waiting":
            served.open.on_request(client.protocol)
        if stage == "sending":
            served.open.on_reply(client.protocol)
    await served.connect()

    assert await connected(clock, served) == [False, True, True]


async def test_a_connection_of_many_clients_makes_room_last_and_is_no_greed_of_its_address(clock, monkeypatch):
    addresses = iter(["standby", "standby", "pod", "new", "newer"])
    monkeypatch.setattr(connections, "_client_of", lambda _accepted: next(addresses))
    async with asyncio.TaskGroup() as tasks:
        served = Served(clock, tasks, replace(POLICY, most=3))
        for index in range(3):
            client = await served.connect()
            await clock.idle()
            served.open.on_request(client.protocol, is_admitted=True, is_shared=index < 2)
            served.open.on_reply_sent(client.protocol)
        await served.connect()
        assert await connected(clock, served) == [True, True, False, True]
        served.open.on_request(served.clients[3].protocol, is_admitted=True, is_shared=True)
        served.open.on_reply_sent(served.clients[3].protocol)
        await served.connect()
        assert await connected(clock, served) == [False, True, False, True, True]
        for client in served.clients:
            client.socket.close()
        await clock.advance(IDLE)


async def test_a_client_that_has_gone_leaves_its_place_at_once(served, clock):
    (await served.connect()).socket.shutdown(socket.SHUT_RDWR)
    await connected(clock, served)

    assert len(served.open) == 0


@pytest.mark.parametrize(("asks", "seconds"), [(False, REQUEST_WITHIN), (True, LONGEST)])
async def test_a_connection_lasts_so_long_and_no_longer(served, clock, asks, seconds):
    client = await served.connect()
    await connected(clock, served)
    if asks:
        served.open.on_reply(client.protocol)
    await clock.advance(seconds - 0.5)
    assert await connected(clock, served) == [True]

    await clock.advance(1)
    assert (await connected(clock, served), len(served.open)) == ([False], 0)


async def test_those_that_have_sent_nothing_are_closed_when_no_more_are_accepted_and_others_end_first(served, clock):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        accepting = asyncio.create_task(served.open.accept(listener))
        await served.connect()
        served.connect_silently()
        await turns()
        accepting.cancel()

        assert await connected(clock, served) == [True, False]


async def test_one_that_sends_something_at_the_moment_of_the_end_is_closed_and_waited_for_by_nobody(clock):
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, ours, theirs:
        listener.settimeout(0)
        async with asyncio.TaskGroup() as tasks:
            served = Served(clock, tasks)
            accepting = tasks.create_task(served.open.accept(listener))
            client = served.connect_silently()
            await turns()
            # The loop sees both in one turn, and this one first.
            asyncio.get_running_loop().add_reader(ours, accepting.cancel)
            theirs.send(b".")
            client.socket.send(b"P")
        asyncio.get_running_loop().remove_reader(ours)

        assert served.protocols == []
        assert await connected(clock, served) == [False]
        client.socket.close()


async def test_the_one_that_was_idle_for_longest_makes_room(served, clock):
    first, second = await served.connect(), await served.connect()
    await connected(clock, served)
    for client in (second, first):
        served.open.on_request(client.protocol)
        served.open.on_reply_sent(client.protocol)
    await served.connect()

    assert await connected(clock, served) == [True, False, True]


@pytest.mark.parametrize(
    ("reports", "seconds"),
    [
        ((), IDLE),
        (("on_request_begun",), REQUEST_WITHIN),
        (("on_request_begun", "on_request"), LONGEST),
        (("on_request_begun", "on_request", "on_reply_sent"), IDLE),
    ],
)
async def test_a_kept_connection_has_the_time_of_a_new_one_for_each_further_request(served, clock, reports, seconds):
    client = await served.connect()
    for _ in range(2):
        await connected(clock, served)
        for report in ("on_request_begun", "on_request", "on_reply", "on_reply_sent"):
            getattr(served.open, report)(client.protocol)
        await clock.advance(REQUEST_WITHIN + LONGEST)
    for report in reports:
        getattr(served.open, report)(client.protocol)
    await connected(clock, served)
    left = seconds if reports else seconds - REQUEST_WITHIN - LONGEST
    await clock.advance(left - 0.5)
    assert await connected(clock, served) == [True]

    await clock.advance(1)
    assert await connected(clock, served) == [False]


async def received(clock):
    """Until what was sent is read: the loop looks at its sockets when all tasks wait."""
    for _ in range(2):
        await clock.idle()


async def test_handshakes_of_one_address_wait_for_their_share_of_the_time_and_others_do_not(clock, monkeypatch):
    addresses = ["flood"] * (HANDSHAKES_AT_ONCE + 10) + ["modest"]
    arriving, begun = iter(addresses), []
    monkeypatch.setattr(connections, "_client_of", lambda _accepted: next(arriving))

    def refuse():
        begun.append(clock.monotonic())
        raise OSError("there is no certificate yet")

    policy = replace(POLICY, most=len(addresses))
    async with asyncio.TaskGroup() as tasks:
        served = Connections(asyncio.Protocol, policy, clock, tasks=tasks, tls=refuse)
        for _ in addresses:
            accepted, client = socket.socketpair()
            served.add(accepted)
            client.close()
        await received(clock)
        assert len(begun) == HANDSHAKES_AT_ONCE + 1 + 1

        await clock.advance(9 / HANDSHAKES)
    assert len(begun) == len(addresses)


async def test_who_waits_for_a_handshake_has_half_of_its_time_left_and_others_are_closed_at_once(clock, monkeypatch):
    monkeypatch.setattr(connections, "_client_of", lambda _accepted: "flood")
    begun, began = [], clock.monotonic()

    def refuse():
        begun.append(clock.monotonic() - began)
        raise OSError("there is no certificate yet")

    async with asyncio.TaskGroup() as tasks:
        served = Connections(asyncio.Protocol, replace(POLICY, most=1000), clock, tasks=tasks, tls=refuse)
        for _ in range(500):
            accepted, client = socket.socketpair()
            served.add(accepted)
            client.close()
        await received(clock)
        in_time = HANDSHAKES * REQUEST_WITHIN / 2
        assert len(served) == pytest.approx(in_time, abs=1)
        await clock.advance(REQUEST_WITHIN)

    assert len(begun) == pytest.approx(HANDSHAKES_AT_ONCE + in_time, abs=1)
    assert max(begun) < REQUEST_WITHIN / 2


async def test_a_connection_that_will_have_no_handshake_in_time_is_counted(clock, monkeypatch):
    monkeypatch.setattr(connections, "_client_of", lambda _accepted: "flood")
    policy, refused = replace(POLICY, most=HANDSHAKES_AT_ONCE * 2, request_within=3 / HANDSHAKES), []
    async with asyncio.TaskGroup() as tasks:
        arguments = {"tls": lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "on_refused": lambda: refused.append(1)}
        served = Connections(asyncio.Protocol, policy, clock, tasks=tasks, **arguments)
        for _ in range(HANDSHAKES_AT_ONCE + 5):
            accepted, client = socket.socketpair()
            served.add(accepted)
            client.close()
        await received(clock)
        await clock.advance(1)

    assert len(refused) == 3


async def test_a_connection_that_sends_nothing_takes_no_handshake_from_others(clock):
    begun = []

    def refuse():
        begun.append(clock.monotonic())
        raise OSError("there is no certificate yet")

    policy = replace(POLICY, most=3 * HANDSHAKES_AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        served = Connections(asyncio.Protocol, policy, clock, tasks=tasks, tls=refuse)
        pairs = [socket.socketpair() for _ in range(2 * HANDSHAKES_AT_ONCE)]
        for accepted, _ in pairs:
            served.add(accepted)
        await received(clock)
        assert not begun

        pairs[-1][1].send(b"\x16")
        await received(clock)
        assert len(begun) == 1
        await clock.advance(REQUEST_WITHIN)
    for _, client in pairs:
        client.close()
    assert len(begun) == 1


async def test_an_address_that_waits_too_long_for_a_handshake_does_not_wait_for_ever(clock):
    share = HandshakeShare(clock, POLICY)
    pauses = [share.pause("flood") for _ in range(10_000)]
    assert max(pauses) <= share.longest + 1 / HANDSHAKES
    assert [share.pause(f"{number}") for number in range(2_000)] == [0.0] * 2_000
    assert share.pause("flood") == pytest.approx(share.longest, abs=1 / HANDSHAKES)

    await clock.advance(REQUEST_WITHIN)
    assert share.pause("flood") == pytest.approx(0.0, abs=1 / HANDSHAKES)


async def test_all_addresses_together_have_a_share_of_handshakes_that_one_address_cannot_take_alone(clock):
    share = HandshakeShare(clock, replace(POLICY, all_handshakes=50.0))
    for _ in range(10_000):
        share.pause("flood")
    pauses = [share.pause(f"{number}") for number in range(10)]

    assert max(pauses) < share.longest
    many = [share.pause(f"more-{number}") for number in range(1000)]
    assert max(many) == pytest.approx(share.longest, abs=0.1)
