"""The history of a test: every revision of the store, in total order, as evidence for invariants.

``Recorder`` takes down what the store says, raw, and knows how far it has come; ``History`` is that, decoded, with the
questions that invariants ask. The recorder outlives a restart of etcd and fails when anything is missing.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import aiohttp

from lab.control_plane.etcd import Change, Store
from support.registry_keys import Place, place_of
from support.resources import Json

UNREADABLE: Json = {"metadata": {}}
"""Stands in for a body that is nested deeper than the decoder goes: the change itself still shows."""

_PROTOBUF = b"k8s\0"


@dataclass(frozen=True, slots=True)
class Revision:
    """One change of one object. Bodies are shared between revisions: read them, never change them."""

    revision: int
    place: Place
    change: Literal["create", "update", "delete"]
    body: Json | None
    """The object after the change, as it was stored; ``None`` after a deletion."""
    previous: Json | None
    """The object before the change; ``None`` before a creation."""
    known_creator: str = ""

    @property
    def creator(self) -> str:
        """The name of the client that has created the object; empty if nothing says it."""
        entries = self.last_body.get("metadata", {}).get("managedFields") or [{}]
        return self.known_creator or str(entries[0].get("manager", ""))

    @property
    def last_body(self) -> Json:
        return self.body or self.previous or {}

    @property
    def resource(self) -> str:
        """The kind as ``Resource.qualified`` names it: ``pods``, ``leases.coordination.k8s.io``."""
        group = self.place.group or self.last_body.get("apiVersion", "").rpartition("/")[0]
        return f"{self.place.plural}.{group}" if group else self.place.plural

    @property
    def uid(self) -> str:
        return str(self.last_body.get("metadata", {}).get("uid", ""))

    @property
    def owner_uids(self) -> frozenset[str]:
        owners = self.last_body.get("metadata", {}).get("ownerReferences", ())
        return frozenset(owner["uid"] for owner in owners)


@dataclass(frozen=True, slots=True)
class History:
    """Revisions in their order, ascending and without a gap in the numbers."""

    revisions: tuple[Revision, ...]

    def of(self, resource: str, namespace: str = "", name: str = "") -> tuple[Revision, ...]:
        """The revisions of a kind, of a kind in a namespace, or of one name (maybe of several UIDs)."""
        return tuple(
            entry
            for entry in self.revisions
            if entry.resource == resource
            and namespace in {"", entry.place.namespace}
            and name in {"", entry.place.name}
        )

    def owned_by(self, uid: str) -> tuple[Revision, ...]:
        return tuple(entry for entry in self.revisions if uid in entry.owner_uids)


def history_of(changes: Iterable[Change]) -> History:
    """Decode changes; keys that no object lives under are left out."""
    bodies: dict[str, Json | None] = {}
    revisions = []
    for change in changes:
        previous = bodies[change.key] if change.key in bodies else _decoded(change.previous)
        body = bodies[change.key] = _decoded(change.value)
        if place := _place_of_object(change.key, body or previous):
            kind: Literal["create", "update", "delete"] = "update"
            if body is None:
                kind = "delete"
            elif change.is_creation:
                kind = "create"
            revisions.append(Revision(change.revision, place, kind, body, previous, change.creator))
    return History(tuple(revisions))


def _place_of_object(key: str, body: Json | None) -> Place | None:
    return place_of(key) if body and "metadata" in body else None


def _decoded(value: bytes | None) -> Json | None:
    if value is None:
        return None
    if value.startswith(_PROTOBUF):
        raise ValueError("protobuf in the store: the apiserver needs --storage-media-type=application/json")
    try:
        body = json.loads(value)
    except ValueError:
        return None
    except RecursionError:
        return UNREADABLE
    return body if isinstance(body, dict) else None


class Recorder:
    """Takes down every change while its ``async with`` runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes: list[Change] = []
        self._revision = 0
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        try:
            self._revision = await self._store.revision()
            listening = asyncio.Event()
            self._task = asyncio.create_task(self._record(listening))
            await self._either(listening)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *failure: object) -> None:
        outcome = await self._close()
        if failure[0] is None and isinstance(outcome, Exception):
            raise outcome  # nobody asked, but evidence is missing all the same

    async def _close(self) -> object:
        """End the recording; what had ended it before, if anything had."""
        self._cancel()
        outcomes = await asyncio.gather(*([self._task] if self._task else []), return_exceptions=True)
        await self._store.__aexit__()
        return outcomes[0] if outcomes else None

    def _cancel(self) -> None:
        if self._task:
            self._task.cancel()

    def changes(self, first: int = 0) -> Sequence[Change]:
        return self._changes[first:]

    def history(self) -> History:
        return history_of(self._changes)

    async def stop(self, *, within: float = 30.0) -> History:
        """Record what has been written up to now, then no more; the history is complete up to this call."""
        await self.caught_up(within=within)
        self._cancel()
        return self.history()

    async def caught_up(self, *, within: float = 30.0) -> int:
        """Wait until everything in the store at this moment has been recorded; its revision."""
        target = await self._store.revision()
        async with asyncio.timeout(within):
            while self._revision < target:
                await self.next_progress()
        return target

    async def next_progress(self) -> None:
        """Wait until something more has been recorded; raises what ended the recording, if that was it."""
        self._progress.clear()
        await self._either(self._progress)

    async def _either(self, event: asyncio.Event) -> None:
        """Wait for an event, or for the end of the recording, which is a failure."""
        if self._task is None:
            raise RuntimeError("a Recorder records while its `async with` runs")
        waiter = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({waiter, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        if self._task.done():
            self._task.result()

    async def _record(self, listening: asyncio.Event) -> None:
        while True:
            try:
                await self._record_connection(listening)
            except (aiohttp.ClientError, ConnectionError):
                if not listening.is_set():
                    raise
            await asyncio.sleep(0.1)  # etcd restarts; nothing is lost, as the watch resumes by number

    async def _record_connection(self, listening: asyncio.Event) -> None:
        pieces: list[Change] = []
        async with self._store.watch(self._revision + 1) as batches:
            listening.set()
            async for batch in batches:
                pieces += batch.changes
                if pieces and batch.is_whole:  # else a part of the last revision may still be under way
                    self._changes += pieces
                    self._revision = pieces[-1].revision
                    self._progress.set()
                    pieces.clear()
