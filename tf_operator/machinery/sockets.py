"""Accepting connections so that it can be cancelled at any moment, and cutting those that are closed already, too.

Both are asyncio's, with what its versions get wrong put right in this one place.
"""

import asyncio
import socket
from contextlib import suppress


async def accept(listener: socket.socket) -> socket.socket:
    """The next connection of a socket that does not block.

    Not ``loop.sock_accept``: cancelled in the turn of the loop in which somebody connects, that accepts the connection
    all the same, loses it, and has asyncio log an error.
    """
    while True:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            await wait_readable(listener)
        else:
            sock.settimeout(0)
            return sock


def abort(transport: asyncio.WriteTransport) -> None:
    """Cut a connection now, with what has not been sent and without a goodbye; harmless when it is closed.

    In Python 3.11.2, which Debian 12 has, a TLS transport that was lost and then closed raises ``AttributeError``.
    """
    with suppress(AttributeError):
        transport.abort()


async def wait_readable(listener: socket.socket) -> None:
    """Return when a connection can be accepted."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listener)
