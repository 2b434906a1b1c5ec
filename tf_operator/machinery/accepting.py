"""Accepting connections, so that it can be cancelled at any moment."""

import asyncio
import socket


async def accept(listener: socket.socket) -> socket.socket:
    """The next connection of a socket that does not block.

    Not ``loop.sock_accept``: cancelled in the turn of the loop in which somebody connects, that accepts the connection
    all the same, loses it, and has asyncio log an error.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            await _readable(loop, listener)
        else:
            accepted.settimeout(0)
            return accepted


async def _readable(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    readable = asyncio.Event()
    loop.add_reader(listener, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listener)
