"""A stand-in for a Service: connections to one address go to its endpoints in turn, to none that refuses them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

Endpoint = tuple[str, int]


@asynccontextmanager
async def service(endpoints: Sequence[Endpoint]) -> AsyncIterator[Endpoint]:
    """Serve while the body runs; yields the address. The sequence may change meanwhile."""
    turns, pumps = 0, set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turns
        turns += 1
        for number in range(len(endpoints)):
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(*endpoints[(turns + number) % len(endpoints)])
                for source, target in ((reader, far_writer), (far_reader, writer)):
                    task = asyncio.create_task(_pump(source, target))
                    pumps.add(task)
                    task.add_done_callback(pumps.discard)
                return
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()
        for task in list(pumps):
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while piece := await source.read(1 << 16):
                target.write(piece)
                await target.drain()
    finally:
        target.close()
