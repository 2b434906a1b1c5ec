"""Connections are accepted until the moment in which nobody wants them any more."""

import asyncio
import socket

import pytest

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
