"""Waiting on evidence: until the cluster is quiet, and until a condition holds.

``settle`` returns when nothing has been written for a while. It counts etcd's revisions and does not look
at objects, so a write that changes a thing and one that changes it back both count, and silence is proved:
before it returns it asks the store whether the watch has told everything.

Both waits fail with a reason: who kept writing what, or what the condition last said.
"""

import inspect
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar, overload

from lab.control_plane.etcd import Change, Store
from support.history import Recorder
from support.registry_keys import Place, place_of
from tf_operator.machinery.clock import Clock, SystemClock

# The apiserver and leaders sign their leases for ever, also in a cluster where nothing happens.
_HEARTBEATS = {"leases", "masterleases", "peerserverleases"}
_LONGEST_REPORT = 10
_SYSTEM_CLOCK = SystemClock()
_T = TypeVar("_T")


class NotSettledError(AssertionError):
    """Something kept being written; the message says what, how often, by whom."""


async def settle(
    store: Store, *, quiet_for: float, within: float, namespace: str = "", with_events: bool = True
) -> int:
    """Wait until nothing has been written for ``quiet_for`` seconds; the store's revision then.

    Counted from this call: what was written before it does not matter. Leases never count; Events do unless
    ``with_events`` is false; with ``namespace`` nothing outside of it does. After ``within`` seconds raise
    NotSettledError.
    """

    def counts(place: Place) -> bool:
        is_ignored = place.plural in _HEARTBEATS or not place.plural
        is_event = place.plural == "events"
        return not is_ignored and (with_events or not is_event) and namespace in {"", place.namespace}

    async with Recorder(store) as recorder:
        return await wait_quiet(recorder, counts, quiet_for=quiet_for, within=within)


async def wait_quiet(
    source: Recorder, counts: Callable[[Place], bool], *, quiet_for: float, within: float, clock: Clock = _SYSTEM_CLOCK
) -> int:
    """Wait on a recording until nothing that ``counts`` was added for ``quiet_for`` seconds."""
    now = clock.monotonic
    deadline, last_write, read = now() + within, now(), 0
    written: list[Change] = []
    while True:
        fresh = source.changes(read)
        read += len(fresh)
        if relevant := [change for change in fresh if counts(place_of(change.key))]:
            written += relevant
            last_write = now()
        quiet_at = last_write + quiet_for
        if now() >= min(quiet_at, deadline):
            revision = await source.caught_up()
            if source.changes(read):
                continue  # the watch was behind: that was no silence yet
            if now() >= quiet_at:
                return revision
        if now() >= deadline:
            raise NotSettledError(_report(written, quiet_for=quiet_for, within=within))
        with suppress(TimeoutError):
            async with clock.timeout(min(quiet_at, deadline) - now()):
                await source.next_progress()


def _report(written: Sequence[Change], *, quiet_for: float, within: float) -> str:
    counts = Counter(place_of(change.key) for change in written)
    latest = {place_of(change.key): change for change in written}
    writes = f"{len(written)} writes to {len(counts)} objects"
    lines = [f"never quiet for {quiet_for:g} s within {within:g} s: {writes}"]
    for place, times in counts.most_common(_LONGEST_REPORT):
        lines.append(f"  {times} x {place}: {_description(latest[place])}")
    return "\n".join(lines)


def _description(change: Change) -> str:
    """What the change did, and who did it."""
    if change.value is None:
        return "deleted"
    entries = json.loads(change.value).get("metadata", {}).get("managedFields", ())
    writers = [entry["manager"] for entry in sorted(entries, key=lambda entry: str(entry.get("time", "")))]
    return f"{'created' if change.is_creation else 'updated'} by {writers[-1] if writers else 'unknown'}"


@overload
async def eventually(check: Callable[[], Awaitable[_T]], *, within: float = ..., every: float = ...) -> _T: ...
@overload
async def eventually(check: Callable[[], _T], *, within: float = ..., every: float = ...) -> _T: ...
async def eventually(
    check: Callable[[], object], *, within: float = 30.0, every: float = 0.05, clock: Clock = _SYSTEM_CLOCK
) -> object:
    """Call ``check`` until it returns something true, and return that.

    It says "not yet" by a false value or by an AssertionError, whose text is the reason that is printed
    when ``within`` seconds are over; any other exception ends the wait at once.
    """
    deadline = clock.monotonic() + within
    while True:
        try:
            outcome = check()
            result = await outcome if inspect.isawaitable(outcome) else outcome
            if result:
                return result
            reason = f"it returned {result!r}"
        except AssertionError as failure:
            reason = str(failure) or "an assertion without a message"
        if clock.monotonic() >= deadline:
            name = getattr(check, "__qualname__", repr(check))
            raise AssertionError(f"{name} did not hold within {within:g} s: {reason}")
        await clock.sleep(every)
