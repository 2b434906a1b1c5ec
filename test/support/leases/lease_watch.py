"""Leases stand for all objects in tests of the fault proxy: what a client is shown of them, ready to compare."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from support.api import WatchEvent

CHANGES = ("ADDED", "MODIFIED", "DELETED")


def lease(name: str, holder: str = "0") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder}}


def brief(event: WatchEvent) -> tuple[str, str | None, str | None]:
    """An event as tests compare it: its type, and which state of which object it brings."""
    return event.type, event.body["metadata"].get("name"), event.body.get("spec", {}).get("holderIdentity")


async def next_events(events: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str | None, str | None]]:
    async with asyncio.timeout(10):
        return [brief(await anext(events)) for _ in range(count)]


async def last_events(events: AsyncIterator[WatchEvent]) -> list[WatchEvent]:
    async with asyncio.timeout(10):
        return [event async for event in events]
