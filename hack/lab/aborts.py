"""Cutting connections, whatever has become of them."""

import asyncio
from contextlib import suppress


def abort(transport: asyncio.WriteTransport) -> None:
    """Cut a connection now. Python 3.11.2 raises ``AttributeError`` of one with TLS that was lost and then closed."""
    with suppress(AttributeError):
        transport.abort()
