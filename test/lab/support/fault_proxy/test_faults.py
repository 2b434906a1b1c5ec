"""Every fault of the catalogue on a real apiserver, and what precisely a client sees of it.

Leases stand for all objects: small, and nothing else in a namespace touches them. What a client sees is read
by `Api` where a library sees enough, and by `Wire` where it takes every byte.
"""

import asyncio
import json

import aiohttp
import pytest

from support.api import RefusedError
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import create, get, listing, opening, watch, write
from support.disturbances.fault_proxy.wire import Wire
from support.leases.lease_watch import last_events, lease, next_events


@pytest.fixture
async def wire(proxy, token):
    async with Wire.open(proxy, token) as wire:
        yield wire


@pytest.fixture
def ask_again(proxy, path, token):
    """Ask on a new connection, and return the code of the answer."""

    async def ask():
        async with Wire.open(proxy, token) as wire:
            await wire.ask(path)
            return (await wire.head())[0]

    return ask


async def hold(admin, path, name, holder):
    """Change a lease behind the proxy's back."""
    await admin.patch(f"{path}/{name}", {"spec": {"holderIdentity": holder}})


ADDED, MODIFIED, DELETED = ("ADDED", "a", "0"), ("MODIFIED", "a", "1"), ("DELETED", "a", "1")


@pytest.mark.parametrize(
    ("event", "fault", "expected"),
    [
        ("MODIFIED", faults.drop(), [ADDED, DELETED]),
        ("MODIFIED", faults.duplicate(times=2), [ADDED, MODIFIED, MODIFIED, MODIFIED, DELETED]),
        ("MODIFIED", faults.split(), [ADDED, MODIFIED, DELETED]),
        ("DELETED", faults.replay(), [ADDED, MODIFIED, DELETED, MODIFIED]),
        ("ADDED", faults.unknown_event(), [("FLUSHED", "a", "0"), ADDED, MODIFIED, DELETED]),
    ],
    ids=lambda value: str(value) if not isinstance(value, list) else "",
)
async def test_a_client_sees_of_a_life_what_the_fault_makes_of_it(
    *, event, fault, expected, proxy, client, admin, path
):
    proxy.on(watch("leases", event=event, name="a"), do=fault)
    async with client.watch(path) as events:
        await admin.create(path, lease("a"))
        await hold(admin, path, "a", "1")
        await admin.delete(f"{path}/a")
        await admin.create(path, lease("b"))
        assert await next_events(events, len(expected) + 1) == [*expected, ("ADDED", "b", "0")]


async def test_held_lines_wait_for_release_and_then_come_in_order(proxy, client, admin, path):
    with proxy.on(watch("leases", name="b"), do=faults.hold()) as rule:
        async with client.watch(path) as events:
            for name in "abc":
                await admin.create(path, lease(name))
            await next_events(events, 1)
            await proxy.until(rule.has_fired)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(nothing := asyncio.ensure_future(next_events(events, 2))), 0.2)
            rule.release()
            assert [name for _, name, _ in await nothing] == ["b", "c"]


async def test_a_held_stream_can_be_cut_and_its_reopening_answered_with_410(proxy, client, admin, path):
    """Fault 1, the event that is never seen: everything from event N on is held, cut off, and then expired."""
    held = proxy.on(watch("leases", event="DELETED"), do=faults.hold())
    async with client.watch(path) as events:
        created = await admin.create(path, lease("a"))
        await next_events(events, 1)
        await admin.delete(f"{path}/a")
        await proxy.until(held.has_fired)
        proxy.on(opening("leases"), do=faults.gone(), at_most=1)
        proxy.now(watch("leases"), do=faults.cut())
        assert await last_events(events) == []

    with pytest.raises(RefusedError) as refused:
        async with client.watch(path, resourceVersion=created["metadata"]["resourceVersion"]):
            pass
    assert (refused.value.status, refused.value.reason) == (410, "Expired")


@pytest.mark.parametrize("when", ["on the line", "now"])
@pytest.mark.parametrize("ending", [faults.CLEAN, faults.FIN, faults.RST], ids=lambda ending: ending.value)
async def test_a_watch_is_cut_before_the_line_or_at_once(*, when, ending, proxy, path, admin, wire):
    await wire.ask(f"{path}?watch=true")
    await wire.head()
    await admin.create(path, lease("a"))
    await wire.chunk()
    if when == "now":
        proxy.now(watch("leases"), do=faults.cut(ending))
    else:
        proxy.on(watch("leases", name="b"), do=faults.cut(ending))
        await admin.create(path, lease("b"))

    if ending is faults.CLEAN:
        assert await wire.chunk() == b""
        await wire.ask(path)
        assert (await wire.head())[0] == 200, "the connection is good for another request"
    elif ending is faults.FIN:
        assert await wire.rest() == b""
    else:
        with pytest.raises(ConnectionResetError):
            await wire.rest()
    await proxy.until(lambda: proxy.calls()[0].ending == ending.value)


async def test_a_half_open_watch_is_silent_and_open_in_both_directions(proxy, client, admin, path, wire):
    await wire.ask(f"{path}?watch=true")
    await wire.head()
    await proxy.until(lambda: proxy.open_watches(watch("leases")) == 1)
    proxy.now(watch("leases"), do=faults.half_open())
    await admin.create(path, lease("a"))
    await wire.ask(path)
    assert await wire.is_silent()
    assert [item["metadata"]["name"] for item in await client.list(path)] == ["a"], "another connection works"


@pytest.mark.parametrize("when", ["opening", "line", "now"])
async def test_410_in_its_second_form_is_an_error_event_and_the_end(when, proxy, client, admin, path):
    trigger = opening("leases") if when == "opening" else watch("leases", name="a")
    if when != "now":
        proxy.on(trigger, do=faults.gone_event())
    async with client.watch(path) as events:
        if when == "now":
            await proxy.until(lambda: proxy.open_watches(watch("leases")) == 1)
            proxy.now(watch("leases"), do=faults.gone_event())
        elif when == "line":
            await admin.create(path, lease("a"))
        (event,) = await last_events(events)
    assert (event.type, event.body["code"], event.body["reason"]) == ("ERROR", 410, "Expired")


async def test_410_in_its_first_form_is_the_http_status(proxy, client, path):
    proxy.on(listing("leases"), do=faults.gone())
    with pytest.raises(RefusedError) as refused:
        await client.get(path)
    assert (refused.value.status, refused.value.reason, refused.value.body["kind"]) == (410, "Expired", "Status")


@pytest.mark.parametrize("text", ["30", "Fri, 31 Dec 2027 23:59:59 GMT", "-5", None], ids=str)
async def test_429_carries_any_text_as_retry_after(text, proxy, path, wire):
    proxy.on(listing("leases"), do=faults.throttle(text))
    await wire.ask(path)
    code, headers = await wire.head()
    assert (code, headers.get("retry-after")) == (429, text)
    body = json.loads(await wire.body())
    assert body["reason"] == "TooManyRequests"
    assert body.get("details") == ({"retryAfterSeconds": int(text)} if text and text.isdecimal() else None)


async def test_errors_by_chance_are_as_many_as_expected_and_the_same_for_the_same_seed(control_plane, path, token):
    async def codes(seed):
        with FaultProxy(control_plane.kubeconfig("admin"), seed=seed) as proxy:
            proxy.on(get("leases"), do=faults.fail(500, 502, 503), chance=0.2)
            async with Wire.open(proxy, token) as wire:
                for _ in range(100):
                    await wire.ask(f"{path}/a")
                    await wire.head()
                    await wire.body()
            return [call.code for call in proxy.calls()]

    first, again, other = [await codes(seed) for seed in (1, 1, 2)]
    assert first == again != other
    assert set(first) == {404, 500, 502, 503}
    assert 8 <= sum(code != 404 for code in first) <= 32


@pytest.mark.parametrize("act", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("fault", [faults.lose_reply(), faults.reset()], ids=["after commit", "before forward"])
async def test_a_write_is_made_and_its_reply_lost_or_not_even_sent(*, fault, act, proxy, client, admin, path):
    is_committed = fault.label == "lose_reply"
    stored = await admin.create(path, lease("a"))
    changed = stored | {"spec": {"holderIdentity": "1"}}
    proxy.on(write("leases"), do=fault)
    writes = {
        "POST": lambda: client.create(path, lease("b")),
        "PUT": lambda: client.replace(f"{path}/a", changed),
        "PATCH": lambda: client.patch(f"{path}/a", {"spec": {"holderIdentity": "1"}}),
        "DELETE": lambda: client.delete(f"{path}/a"),
    }
    with pytest.raises(aiohttp.ClientError):
        await writes[act]()

    leases = {item["metadata"]["name"]: item["spec"]["holderIdentity"] for item in await admin.list(path)}
    after = {"POST": {"a": "0", "b": "0"}, "PUT": {"a": "1"}, "PATCH": {"a": "1"}, "DELETE": {}}[act]
    assert leases == (after if is_committed else {"a": "0"})
    for call in proxy.calls(write()):  # aiohttp would make two of a PUT or a DELETE
        assert (call.code, call.ending, call.upstream_code is not None) == (None, "rst", is_committed)


async def test_a_late_write_is_refused_at_once_and_made_afterwards(proxy, client, admin, path):
    rule = proxy.on(create("leases"), do=faults.late_write(None))
    with pytest.raises(RefusedError) as refused:
        await client.create(path, lease("a"))
    assert (refused.value.status, refused.value.reason) == (504, "Timeout")
    assert await client.list(path) == [], "asked through the proxy, so a write on its way would have left before"
    assert proxy.calls()[0].upstream is None

    rule.release()
    await proxy.until(lambda: proxy.calls()[0].upstream_code == 201)
    assert [item["metadata"]["name"] for item in await admin.list(path)] == ["a"]


async def test_connections_are_refused_and_open_ones_reset(proxy, path, wire, ask_again):
    await wire.ask(path)
    await wire.head()
    await wire.body()
    with proxy.refusing():
        with pytest.raises(ConnectionRefusedError):
            await ask_again()
        with pytest.raises(ConnectionResetError):
            await wire.rest()
    assert await ask_again() == 200
