"""The store under the apiserver, read through etcd's JSON gateway: every change, in the order it happened.

This is the evidence that nothing can hide from: it bypasses the apiserver's caches and watches. etcd
numbers every change of the whole store (a revision), so "have I seen all of it" can be asked and answered.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, Self

import aiohttp

from lab import Json
from lab.control_plane import streams
from lab.control_plane.connections import TidyConnector

# From the zero byte to the zero byte: to etcd, all keys. Every revision then shows up as a change, also
# those of keys that no object lives under, and a gap in the numbers means a gap in the evidence.
_ALL_KEYS = b64encode(b"\0").decode()


class WatchLostError(Exception):
    """etcd ended the watch and it cannot be resumed: the revisions it would have sent are compacted."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one key. ``value`` is ``None`` when it was deleted."""

    revision: int
    key: str
    value: bytes | None
    previous: bytes | None
    is_creation: bool
    creator: str = ""
    """User agent of who has created the object, if the store knows it; else the body's managedFields say it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that arrived together; ``is_whole``: the last revision in it is not continued in the next."""

    changes: tuple[Change, ...]
    is_whole: bool


class Store(Protocol):
    """Where the changes of a plane can be read; to be used with ``async with``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *failure: object) -> None: ...

    async def revision(self) -> int:
        """The revision at this moment: nothing acknowledged is left out."""

    def watch(self, start: int) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        """Every change from revision ``start`` on, for ever, or until the connection breaks."""


class Etcd:
    """A connection to one etcd without TLS, as test planes have it; to be used with ``async with``."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        self._connector = TidyConnector()
        self._session = aiohttp.ClientSession(
            self._url, connector=self._connector, timeout=aiohttp.ClientTimeout(total=30)
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._session.close()
        await self._connector.abort_all()

    async def revision(self) -> int:
        """The store's revision at this moment (a linearizable read: nothing acknowledged is left out)."""
        body = {"key": _ALL_KEYS, "range_end": _ALL_KEYS, "limit": "1", "keys_only": True}
        async with self._session.post("/v3/kv/range", data=json.dumps(body)) as reply:
            reply.raise_for_status()
            return int(json.loads(await reply.read())["header"]["revision"])

    @asynccontextmanager
    async def watch(self, start: int) -> AsyncIterator[AsyncIterator[Batch]]:
        """Every change from revision ``start`` on, for ever, or until the connection breaks.

        The body of the ``async with`` runs once etcd has confirmed the watch. What can be resumed is
        raised as ``ConnectionError`` or ``aiohttp.ClientError``, what cannot as ``WatchLostError``.
        """
        request = {
            "key": _ALL_KEYS,
            "range_end": _ALL_KEYS,
            "start_revision": str(start),
            "prev_kv": True,
            "fragment": True,  # else a batch of many large objects may exceed a message's limit
        }
        no_limit = aiohttp.ClientTimeout(total=None)
        body = json.dumps({"create_request": request})
        async with self._session.post("/v3/watch", data=body, timeout=no_limit) as reply:
            reply.raise_for_status()
            messages = streams.documents(reply.content.iter_any())
            _checked(await anext(messages, {"error": "etcd said nothing"}))
            yield _batches(messages)


async def _batches(messages: AsyncIterator[Json]) -> AsyncIterator[Batch]:
    async for message in messages:
        result = _checked(message)
        changes = tuple(_change(event) for event in result.get("events", ()))
        yield Batch(changes, is_whole=not result.get("fragment"))


def _checked(message: Json) -> Json:
    result: Json = message.get("result", {})
    if result.get("compact_revision"):
        raise WatchLostError(json.dumps(message))
    if "error" in message or result.get("canceled"):
        raise ConnectionError(json.dumps(message))
    return result


def _change(event: Json) -> Change:
    # Protobuf's JSON leaves out what is zero or empty: PUT is 0, and so is a version of none.
    entry, previous = event["kv"], event.get("prev_kv")
    is_deletion = event.get("type") == "DELETE"
    return Change(
        revision=int(entry["mod_revision"]),
        key=b64decode(entry["key"]).decode(),
        value=None if is_deletion else b64decode(entry.get("value", "")),
        previous=b64decode(previous.get("value", "")) if previous else None,
        is_creation=not is_deletion and entry["create_revision"] == entry["mod_revision"],
    )
