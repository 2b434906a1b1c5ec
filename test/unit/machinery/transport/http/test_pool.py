"""Connections are shared in turn, up to a limit, by those whose way is the same."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest

from support.disturbances.loopback import CLOSED, SILENT, Loopback, reply
from support.fake_clock import FakeClock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.http.pool import IDLE_WITHIN, Pool
from tf_operator.machinery.transport.http.route import PeerAddress, Way

HEAD = b"GET / HTTP/1.1\r\n\r\n"
OK = reply(200, b"{}")


@asynccontextmanager
async def pool_to(server, *, limit=1):
    clock = FakeClock()
    pool = Pool(limit, clock=clock)
    pool.clock, pool.way = clock, Way(PeerAddress("127.0.0.1", server.port))
    yield pool
    pool.close()
    await asyncio.sleep(0)


async def exchange(pool, way=None):
    way = way or pool.way
    wire = await pool.take(way)
    try:
        await wire.send(HEAD)
        return await wire.read()
    finally:
        pool.give_back(way, wire)


async def waiting(pool):
    """Somebody who waits for a place."""
    task = asyncio.ensure_future(exchange(pool))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_connection_that_was_given_back_serves_the_next_request_and_the_last_one_first():
    async with Loopback(OK) as server, pool_to(server, limit=2) as pool:
        first, second = await pool.take(pool.way), await pool.take(pool.way)
        pool.give_back(pool.way, first)
        pool.give_back(pool.way, second)
        assert await pool.take(pool.way) is second
        assert await pool.take(pool.way) is first


async def test_who_waits_for_a_place_gets_it_in_turn():
    async with Loopback(OK) as server, pool_to(server) as pool:
        order, wire = [], await pool.take(pool.way)
        tasks = [await waiting(pool) for _ in range(3)]
        for number, task in enumerate(tasks):
            task.add_done_callback(lambda _, number=number: order.append(number))
        pool.give_back(pool.way, wire)
        late = asyncio.ensure_future(exchange(pool))
        late.add_done_callback(lambda _: order.append("late"))
        await asyncio.gather(*tasks, late)

        assert order == [0, 1, 2, "late"]
        assert server.open_connections == 1


@pytest.mark.parametrize("is_handed_over", [False, True])
async def test_the_place_of_somebody_who_gives_up_goes_to_the_next_one(is_handed_over):
    async with Loopback(OK) as server, pool_to(server) as pool:
        wire = await pool.take(pool.way)
        leaving, staying = await waiting(pool), await waiting(pool)
        if is_handed_over:
            pool.give_back(pool.way, wire)
        leaving.cancel()
        await asyncio.sleep(0)
        if not is_handed_over:
            pool.give_back(pool.way, wire)

        assert await staying == b"{}"
        assert await exchange(pool) == b"{}"


async def test_a_place_is_free_again_after_a_connection_that_could_not_be_opened():
    async with Loopback(OK) as server, pool_to(server) as pool:
        for _ in range(2):
            with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:1: "):
                await pool.take(Way(PeerAddress("127.0.0.1", 1)))

        assert await exchange(pool) == b"{}"


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used():
    async with Loopback([OK, OK, CLOSED, OK]) as server, pool_to(server) as pool:
        await exchange(pool)
        wire = await pool.take(pool.way)
        pool.give_back(pool.way, wire)
        server.hang_up(CLOSED.ending)
        while wire.is_reusable:
            await asyncio.sleep(0)

        assert await exchange(pool) == b"{}"
        assert [request.connection for request in server.requests] == [1, 2]


async def test_a_connection_is_not_used_after_it_was_idle_for_long():
    async with Loopback(OK) as server, pool_to(server) as pool:
        for seconds in (0, IDLE_WITHIN - 1, IDLE_WITHIN, 0):
            await pool.clock.advance(seconds)
            await exchange(pool)

        assert [request.connection for request in server.requests] == [1, 1, 2, 2]


async def test_no_request_uses_a_connection_that_was_opened_with_other_certificates(authority, tls):
    async with Loopback(OK, tls=tls) as server, pool_to(server) as pool:
        for number in range(2):
            trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
            way = Way(PeerAddress("127.0.0.1", server.port, trust))
            assert await exchange(pool, way) == await exchange(pool, way) == b"{}"
            assert [request.connection for request in server.requests[-2:]] == [number + 1] * 2


async def test_at_the_end_nobody_waits_for_ever():
    async with Loopback(SILENT) as server, pool_to(server) as pool:
        busy = asyncio.ensure_future(exchange(pool))
        await server.wait_seen(1)
        queued = await waiting(pool)
        pool.close()

        with pytest.raises(errors.ReplyLost):
            await busy
        with pytest.raises(errors.Unreachable):
            await queued


async def test_without_a_limit_nobody_waits():
    async with Loopback(OK) as server, pool_to(server, limit=0) as pool:
        await asyncio.gather(*(exchange(pool) for _ in range(20)))

        assert len(server.requests) == 20
