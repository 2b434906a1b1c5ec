"""The informers of a process: shared, run together, ended together."""

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from support.embedded.scripted_transport import Routed, ScriptedTransport, Watch, added, bookmark, client_of, mark
from support.fake_clock import FakeClock
from support.toys.sample_objects import READ_THING, THINGS, ReflectorCounts, Thing, thing
from tf_operator.machinery.cache.factory import Need, SharedInformerFactory, name_of
from tf_operator.machinery.cache.reflector import Timing
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource, Scope

OTHERS = Resource("", "v1", "others", "Other")


def serving(clock, **scripts):
    """A client of an apiserver that has a script for each resource."""
    of = defaultdict(lambda: ScriptedTransport(clock))
    of |= {name: ScriptedTransport(clock, *script) for name, script in scripts.items()}
    return client_of(Routed(of, part=-1), clock)


def make_informers(**scripts):
    clock = FakeClock()
    informers = SharedInformerFactory(client=serving(clock, **scripts), clock=clock, chance=lambda: 0.5)
    return clock, informers


@asynccontextmanager
async def running(clock, informers):
    """All informers run; afterwards they have left no timer."""
    task = asyncio.ensure_future(informers.run())
    await clock.idle()
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.pending == 0


def owners(item):
    return [item.owner]


def sizes(item):
    return [str(item.size)]


async def test_the_same_resource_and_scopes_share_an_informer():
    _, informers = make_informers()
    scopes = [Scope("a"), Scope("b", "job=x")]

    one = informers.get(THINGS, decode=READ_THING, scopes=scopes, indexes={"owner": owners})
    other = informers.get(THINGS, decode=READ_THING, scopes=reversed(scopes), indexes={"size": sizes})

    assert one is other
    assert one.store.by_index("owner", "x") == one.store.by_index("size", "1") == ()


@pytest.mark.parametrize(
    ("resource", "scope"),
    [
        pytest.param(OTHERS, EVERYWHERE, id="another resource"),
        pytest.param(Resource("example.org", "v2", "things", "Thing"), EVERYWHERE, id="another version"),
        pytest.param(Resource("example.com", "v1", "things", "Thing"), EVERYWHERE, id="another group"),
        pytest.param(THINGS, Scope("a"), id="a namespace"),
        pytest.param(THINGS, Scope("", "a"), id="a label"),
        pytest.param(THINGS, Scope("", "", "a"), id="a field"),
    ],
)
async def test_another_resource_or_scope_has_an_informer_of_its_own(resource, scope):
    _, informers = make_informers()
    common = informers.get(THINGS, decode=READ_THING)

    assert informers.get(resource, decode=READ_THING, scopes=[scope]) is not common
    assert len(informers.idle_seconds()) == 2


async def test_a_shared_informer_has_one_projection():
    _, informers = make_informers()
    informers.get(THINGS, decode=READ_THING)

    with pytest.raises(ValueError, match=r"things\.example\.org is shared, and decodes in another way"):
        informers.get(THINGS, decode=msgspec.json.Decoder(Thing).decode)


async def test_all_run_together_and_are_synced_when_each_of_them_is():
    clock, informers = make_informers(
        things=[Watch(added(thing("a", 1)), mark(5), 1e9)], others=[Watch(7.0, mark(9), 20.0, bookmark(10), 1e9)]
    )
    things = informers.get(THINGS, decode=READ_THING)
    others = informers.get(OTHERS, decode=READ_THING)
    async with running(clock, informers):
        waiting = asyncio.ensure_future(informers.wait_synced())
        await clock.advance(6)
        assert (things.has_synced, others.has_synced, informers.has_synced) == (True, False, False)
        assert informers.unsynced() == ["others"]
        assert not waiting.done()

        await clock.advance(1)
        assert informers.has_synced
        assert waiting.done()

        await clock.advance(33)
        assert informers.idle_seconds() == {"things.example.org": 40, "others": 13}
        assert informers.sizes() == {"things.example.org": 1, "others": 0}


async def test_a_refresh_is_over_when_each_of_them_was_relisted():
    clock, informers = make_informers(
        things=[Watch(mark(5), 1e9), Watch(added(thing("a", 1)), mark(6), 1e9)],
        others=[Watch(mark(5), 1e9), Watch(7.0, mark(9), 1e9)],
    )
    things = informers.get(THINGS, decode=READ_THING)
    informers.get(OTHERS, decode=READ_THING)
    async with running(clock, informers):
        assert informers.awaited() == []
        refresh = asyncio.ensure_future(informers.refresh())

        await clock.advance(6)
        assert len(things.store) == 1
        assert informers.awaited() == ["others"]
        assert not refresh.done()

        await clock.advance(1)
        assert informers.awaited() == []
        assert refresh.done()


async def test_an_informer_that_is_not_required_is_not_waited_for():
    """Its resource may be served later, or never; its readers check that themselves."""
    clock, informers = make_informers(things=[Watch(mark(5), 1e9)] * 2, others=[Watch(1e9)])
    informers.get(THINGS, decode=READ_THING)
    other = informers.get(OTHERS, decode=READ_THING, need=Need.OPTIONAL)
    async with running(clock, informers):
        assert informers.has_synced
        await informers.wait_synced()
        refreshing = asyncio.ensure_future(informers.refresh())
        await clock.advance(60)
        assert refreshing.done(), "nor is it waited for by a new leader"
        assert not other.has_synced


async def test_an_informer_on_demand_lists_nothing_before_somebody_wants_it():
    clock, informers = make_informers(things=[Watch(mark(5), 1e9)])
    informer = informers.get(THINGS, decode=READ_THING, need=Need.OPTIONAL, on_demand=True)

    async with running(clock, informers):
        await clock.advance(3600)
        await informers.refresh()
        assert not informer.has_settled
        assert (informer.idle_seconds, informer.stuck_seconds) == (0, 0)

        informer.demand()
        await clock.idle()
        assert informer.has_settled


async def test_a_crd_that_is_removed_keeps_no_refresh_waiting():
    """Its informer has synced, so it is refreshed; it may never be listed again."""
    gone = errors.refused(404, b"404 page not found")
    clock, informers = make_informers(things=[Watch(mark(5), 1e9), gone], others=[Watch(mark(5), 1e9)] * 2)
    things = informers.get(THINGS, decode=READ_THING, need=Need.OPTIONAL)
    informers.get(OTHERS, decode=READ_THING)
    async with running(clock, informers):
        refreshing = asyncio.ensure_future(informers.refresh())
        await clock.idle()
        assert refreshing.done()
        assert things.is_stale("ns")


async def test_a_bug_in_one_informer_ends_all_of_them():
    clock, informers = make_informers(things=[Watch(mark(5), 1e9)], others=[Watch(5.0, mark(9), 1e9)])
    informers.get(THINGS, decode=READ_THING)
    others = informers.get(OTHERS, decode=READ_THING)
    others._reflectors[0]._writer._on_list = lambda namespace: 1 / 0
    async with running(clock, informers) as task:
        await clock.advance(5)

        with pytest.raises(ExceptionGroup) as failure:
            await task
        assert failure.group_contains(ZeroDivisionError)


async def test_an_informer_that_is_requested_too_late_would_never_run_and_is_refused():
    clock, informers = make_informers()
    informer = informers.get(THINGS, decode=READ_THING)
    async with running(clock, informers):
        with pytest.raises(RuntimeError, match="ask for others before"):
            informers.get(OTHERS, decode=READ_THING)
        assert informers.get(THINGS, decode=READ_THING) is informer


async def test_each_informer_has_its_own_metrics_by_its_name(clock):
    counts = defaultdict(ReflectorCounts)
    client = serving(clock, things=[Watch(added(thing("a", 1, size="large")), mark(5), 1e9)])
    informers = SharedInformerFactory(
        client=client, clock=clock, instruments=lambda name: counts[name], timing=Timing(mark=3.0)
    )
    informers.get(THINGS, decode=READ_THING)
    informers.get(OTHERS, decode=READ_THING)
    async with running(clock, informers):
        await clock.advance(1)

    assert counts["things.example.org"].of == {"undecodable": 1, "watching": 1, "listed": 1}
    assert counts["others"].of == {}


@pytest.mark.parametrize(
    ("resource", "scopes", "name"),
    [
        (OTHERS, [EVERYWHERE], "others"),
        (THINGS, [EVERYWHERE], "things.example.org"),
        (Resource("example.org", "v2", "things", "Thing"), [EVERYWHERE], "things.example.org v2"),
        (OTHERS, [Scope("b"), Scope("a")], "others in a, b"),
        (OTHERS, [Scope("a", "job=x"), Scope("b")], "others in a (job=x), b"),
        (OTHERS, [Scope(name) for name in "abc"], "others in a, b, c"),
        (OTHERS, [Scope(name) for name in "abcd"], "others in several namespaces"),
        (OTHERS, [Scope(name, "job=x") for name in "abcd"], "others in several namespaces (job=x)"),
        (OTHERS, [Scope("a", "job=x"), *map(Scope, "bcd")], "others in a (job=x), b, c, d"),
        (OTHERS, [Scope("", "job=x", "status.phase=Running")], "others in (job=x; fields status.phase=Running)"),
    ],
)
def test_an_informer_is_called_by_what_it_watches(resource, scopes, name):
    assert name_of(resource, scopes) == name


def test_informers_of_one_name_read_the_same_namespaces():
    _, informers = make_informers()
    informers.get(THINGS, decode=READ_THING, scopes=map(Scope, "abcd"))

    with pytest.raises(ValueError, match=r"things\.example\.org in several namespaces reads other namespaces"):
        informers.get(THINGS, decode=READ_THING, scopes=map(Scope, "abce"))


def test_an_informer_is_required_if_any_of_its_users_requires_it():
    _, informers = make_informers()
    informers.get(THINGS, decode=READ_THING, need=Need.OPTIONAL)
    assert informers.has_synced

    informers.get(THINGS, decode=READ_THING)

    assert not informers.has_synced


GONE = errors.refused(404, b"404 page not found")


@pytest.mark.parametrize("need", [Need.ALTERNATIVE, Need.OPTIONAL])
async def test_what_is_not_served_and_may_be_missing_holds_up_nobody(need):
    """It is asked for a few times a minute, no oftener than the script goes, and noted in the log once."""
    clock, informers = make_informers(things=[Watch(mark(5), 1e9)] * 2, others=[GONE] * 10)
    informers.get(THINGS, decode=READ_THING, need=Need.ALTERNATIVE)
    other = informers.get(OTHERS, decode=READ_THING, need=need)
    with capture_logs() as logs:
        running = asyncio.create_task(informers.run())
        await clock.idle()
        assert informers.has_synced
        await informers.wait_synced()
        refreshing = asyncio.create_task(informers.refresh())
        await clock.idle()
        assert refreshing.done(), "nor does a new leader wait for it"
        await clock.advance(70)

    assert (other.has_synced, other.is_absent) == (False, True)
    assert informers.idle_seconds() == {"things.example.org": 70.0, "others": 0.0}, "nothing is wrong with its watch"
    assert [record["event"] for record in logs] == ["the watch ended; trying again"]

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_one_of_the_alternatives_has_to_be_served():
    clock, informers = make_informers(things=[GONE, Watch(mark(5), 1e9)], others=[GONE] * 20)
    informers.get(THINGS, decode=READ_THING, need=Need.ALTERNATIVE)
    informers.get(OTHERS, decode=READ_THING, need=Need.ALTERNATIVE)
    running = asyncio.create_task(informers.run())
    waiting = asyncio.create_task(informers.wait_synced())
    await clock.idle()
    assert (informers.unsynced(), waiting.done()) == (["things.example.org", "others"], False)

    await clock.advance(60)
    assert (informers.unsynced(), waiting.done()) == ([], True)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
