"""JSON documents, one per line, out of a stream of chunks: a Kubernetes watch, or etcd's gateway.

A line may be of any length (an object comes close to etcd's 1.5 MiB, and etcd sends it in base64, with its
predecessor) and a chunk may end anywhere. ``StreamReader.readline`` refuses lines above its limit, so this
reads chunks.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any


async def documents(chunks: AsyncIterable[bytes]) -> AsyncIterator[Any]:
    """The document of every complete line; a stream that was cut says nothing with its last half line."""
    pieces: list[bytes] = []
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            pieces.append(line)
            if whole := b"".join(pieces):
                yield json.loads(whole)
            pieces.clear()
        pieces.append(rest)
