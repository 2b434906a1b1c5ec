"""The informer with a scripted apiserver: what is stored, and what handlers are notified of."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
from structlog.testing import capture_logs

from support.embedded.scripted_transport import (
    Hang,
    Routed,
    ScriptedTransport,
    Watch,
    added,
    bookmark,
    client_of,
    deleted,
    mark,
    modified,
    page,
)
from support.fake_clock import FakeClock
from support.toys.sample_objects import READ_THING, THINGS, Diary, HistoryKeeper, ReflectorCounts, thing
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Scope

EXPIRED = errors.refused(410, b'{"reason": "Expired"}')
A, B, C = thing("a", 1), thing("b", 2), thing("c", 3)
POISON = {"size": "large"}


class Harness:
    """An informer that runs, with a diary among its handlers."""

    def __init__(self, *script, handlers=(), **more):
        self.clock = FakeClock()
        self.server = ScriptedTransport(self.clock, *script)
        self.counts = ReflectorCounts()
        self.diary = Diary()
        more = {"decode": READ_THING, "chance": lambda: 0.5} | more
        client = client_of(self.server, self.clock)
        self.informer = Informer(THINGS, client=client, clock=self.clock, instruments=self.counts, **more)
        for handler in (*handlers, self.diary):
            self.informer.add_handler(handler)
        self.store = self.informer.store

    async def __aenter__(self):
        self.task = asyncio.get_running_loop().create_task(self.informer.run())
        await self.clock.idle()
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        assert self.clock.pending == 0, "a timer has leaked"
        assert self.server.open_watches == 0, "a watch has leaked"
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task has leaked"

    async def notified(self, seconds=0.0):
        """What was reported while this time passed."""
        await self.clock.advance(seconds)
        return self.diary.taken()


# --- Notifications -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "notified"),
    [
        pytest.param([added(A), mark(5), deleted(thing("a", 9))], ["+a@1", "-a@9"], id="the final state"),
        pytest.param(
            [mark(1), added(B) * 2, modified(thing("b", 9)) * 3, added(B), deleted(thing("b", 12)), added(B)],
            ["+b@2", "b@2>9", "-b@12"],
            id="no duplicates and replays",
        ),
        pytest.param(
            [added(A), mark(5), modified(thing("a", 9, uid="second"))],
            ["+a@1", "-a@1?", "+a@9"],
            id="an object that was created again",
        ),
        pytest.param([mark(5), deleted(thing("a", 9))], [], id="no deletion of an unknown object"),
        pytest.param(
            [added(A) * 2, modified(thing("a", 9)), added(A), added(B), deleted(thing("b", 10)), added(B), mark(20)],
            ["+a@9"],
            id="no duplicates and replays of the initial list",
        ),
        pytest.param(
            [added(A), added(B), mark(5), modified(thing("a", 9, **POISON)), modified(thing("a", 10))],
            ["+a@1", "+b@2", "-a@1?", "+a@10"],
            id="an object that cannot be decoded for a while",
        ),
        pytest.param(
            [added(A), mark(5), deleted(thing("a", 9, **POISON))],
            ["+a@1", "-a@1?"],
            id="the last known state if the final one cannot be decoded",
        ),
    ],
)
async def test_a_watch_notifies_handlers_of_each_change_once(steps, notified):
    history = HistoryKeeper()

    async with Harness(Watch(*steps, 1e9), handlers=[history]) as harness:
        assert await harness.notified() == notified
        assert {item.metadata.uid: item for item in harness.store} == history.alive


@pytest.mark.parametrize(
    ("first", "second", "notified"),
    [
        pytest.param(
            [added(A), added(B), added(C)],
            [added(A), added(thing("c", 30)), added(thing("d", 31)), mark(40)],
            ["-b@2?", "c@3>30", "+d@31"],
            id="the difference",
        ),
        pytest.param([added(A), added(B)], [added(B), added(A), mark(9)], [], id="nothing about the same list"),
        pytest.param(
            [added(A), added(B)],
            [added(A), added(B), deleted(thing("b", 12)), added(thing("a", 14, uid="second")), mark(20)],
            ["b@2>12", "-b@12", "-a@1?", "+a@14"],
            id="the last change of an object that was deleted during the list, which may have taken it from its owner",
        ),
        pytest.param(
            [added(A)],
            [added(A), deleted(thing("a", 12)), added(thing("a", 14, uid="second")), mark(20)],
            ["a@1>12", "-a@12", "+a@14"],
            id="an object that was deleted and created again during the list",
        ),
        pytest.param(
            [added(A), added(B)],
            [added(B), added(A), deleted(thing("a", 12, **POISON)), mark(20)],
            ["-a@1?"],
            id="the last known state if the final one cannot be decoded",
        ),
        pytest.param(
            [added(thing("a", 10, size=1)), added(thing("b", 20))],
            [added(thing("a", 10, size=2)), mark(15), added(thing("c", 16))],
            ["-b@20?", "a@10>10", "+c@16"],
            id="an older history, of an etcd that was restored",
        ),
    ],
)
async def test_a_relist_notifies_handlers_of_the_difference(first, second, notified):
    """client-go: TestReflectorReplacesStoreOnUnsafeDelete, TestRealFIFO_ReplaceMakesDeletions."""
    history, watches = HistoryKeeper(), (Watch(*first, mark(5), 3.0), EXPIRED, Watch(*second, 1e9))

    async with Harness(*watches, handlers=[history]) as harness:
        await harness.notified()

        assert await harness.notified(10) == notified
        assert {item.metadata.uid: item for item in harness.store} == history.alive


async def test_no_handler_sees_a_part_of_a_list():
    """client-go: TestRealFIFO_ReplaceAtomic."""
    notices = []

    class Witness(Diary):
        def _write(self, entry, item):
            names = "".join(sorted(thing.metadata.name for thing in harness.store))
            notices.append((entry, names, harness.store.resource_version_in(""), harness.informer.has_synced))

    harness = Harness(Watch(added(A) + added(B), mark(5), 3.0), EXPIRED, Watch(added(C) + added(A), mark(9), 1e9))
    harness.informer.add_handler(Witness())
    async with harness:
        await harness.clock.advance(10)

    assert notices == [
        ("+a@1", "ab", "5", False),
        ("+b@2", "ab", "5", False),
        ("-b@2?", "ac", "9", True),
        ("+c@3", "ac", "9", True),
    ]


# --- Handlers ---------------------------------------------------------------------------------------------


class Fails(Diary):
    def _write(self, entry, item):
        super()._write(entry, item)
        raise RuntimeError("a bug")


async def test_a_handler_that_fails_affects_neither_the_others_nor_the_watch():
    """client-go: TestEventPanics."""
    fails = Fails()
    watch = Watch(added(A), mark(5), modified(thing("a", 6)), deleted(thing("a", 7)), 1e9)

    with capture_logs() as logs:
        async with Harness(watch, handlers=[fails]) as harness:
            assert await harness.notified() == fails.taken() == ["+a@1", "a@1>6", "-a@7"]
            assert harness.counts.of["handler failed"] == 3
            assert not harness.task.done()

    assert [log["event"] for log in logs if log.get("exc_info")] == [
        "a handler failed; the others are still notified"
    ] * 3


async def test_a_handler_that_runs_out_of_memory_ends_the_informer():
    class Starved(Diary):
        def _write(self, entry, item):
            raise MemoryError

    async with Harness(Watch(added(A), mark(5), 1e9), handlers=[Starved()]) as harness:
        with pytest.raises(ExceptionGroup) as failure:
            await harness.task

    assert isinstance(failure.value.exceptions[0], MemoryError)


async def test_a_late_handler_is_notified_of_all_objects_and_then_of_changes():
    late = Diary()

    async with Harness(Watch(added(A) + added(B), mark(5), 1.0, modified(thing("a", 6)), 1e9)) as harness:
        harness.informer.add_handler(late)
        assert late.taken() == ["+a@1", "+b@2"]
        assert harness.diary.taken() == ["+a@1", "+b@2"], "and no other handler is notified again"

        await harness.clock.advance(1)
        assert late.taken() == ["a@1>6"]


async def test_a_handler_that_is_added_by_a_handler_is_notified_of_everything_once():
    late = Diary()

    class Adds(Diary):
        def on_add(self, item):
            if not late.entries:
                harness.informer.add_handler(late)

    harness = Harness(Watch(added(A) + added(B) + added(C), mark(5), deleted(thing("b", 9)), 1e9))
    harness.informer.add_handler(Adds())
    async with harness:
        assert late.taken() == ["+a@1", "+b@2", "+c@3", "-b@9"]


async def test_store_and_version_have_changed_before_handlers_are_notified():
    notices = []

    class Witness(Diary):
        def _write(self, entry, item):
            notices.append((entry, harness.store.version_of(item.metadata.uid), harness.store.resource_version_in("")))

    harness = Harness(Watch(mark(5), added(thing("a", 9)), modified(thing("a", 10)), deleted(thing("a", 11)), 1e9))
    harness.informer.add_handler(Witness())
    async with harness:
        assert notices == [("+a@9", "9", "9"), ("a@9>10", "10", "10"), ("-a@11", None, "11")]


# --- Synced -----------------------------------------------------------------------------------------------


async def test_synced_means_that_the_initial_list_is_complete_and_handlers_are_notified():
    waited = []

    async def wait():
        await harness.informer.wait_synced()
        waited.append((harness.informer.has_synced, harness.diary.taken()))

    async with Harness(Watch(added(A), 10.0, mark(5), 1e9)) as harness:
        task = asyncio.ensure_future(wait())
        await harness.clock.advance(9)
        assert not waited
        await harness.clock.advance(1)
        await task

    assert waited == [(True, ["+a@1"])]


# --- Several namespaces -----------------------------------------------------------------------------------


class TwoNamespaces(Routed):
    """An apiserver with a script for each namespace."""

    def __init__(self, clock, **scripts):
        super().__init__({name: ScriptedTransport(clock, *script) for name, script in scripts.items()}, part=5)

    @property
    def open_watches(self):
        return sum(server.open_watches for server in self.of.values())


def in_namespace(namespace, name, version):
    return thing(name, version, namespace=namespace, uid=f"{namespace}-{name}")


def two_namespaces(red, blue, **more):
    harness = Harness(scopes=(scope for scope in [Scope("red", "x=1"), Scope("blue", "x=2")]), **more)
    server = TwoNamespaces(harness.clock, red=red, blue=blue)
    harness.server = server
    for reflector in harness.informer._reflectors:
        reflector._client = client_of(server, harness.clock)
    return harness


async def test_several_namespaces_are_one_store():
    red = Watch(added(in_namespace("red", "a", 1)), mark(10), 1e9)
    blue = Watch(added(in_namespace("blue", "a", 2)), 5.0, mark(8), 7.0, bookmark(12), 1e9)

    async with two_namespaces([red], [blue]) as harness:
        assert (harness.store.resource_version_in("red"), harness.store.resource_version_in("blue")) == ("10", "")
        assert not harness.informer.has_synced

        await harness.clock.advance(5)
        assert harness.informer.has_synced
        assert (harness.store.resource_version_in("red"), harness.store.resource_version_in("blue")) == ("10", "8")
        assert {str(item.metadata.key) for item in harness.store} == {"red/a", "blue/a"}
        assert harness.server.of["red"].queries[0]["labelSelector"] == "x=1"
        assert harness.server.of["blue"].queries[0]["labelSelector"] == "x=2"

        await harness.clock.advance(7)
        assert harness.store.resource_version_in("blue") == "12"


async def test_a_relist_of_one_namespace_does_not_touch_the_others():
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 3.0), EXPIRED, Watch(mark(20), 1e9)]
    blue = [Watch(added(in_namespace("blue", "a", 2)), mark(8), 60.0, bookmark(30), 1e9)]

    async with two_namespaces(red, blue) as harness:
        await harness.notified()

        assert await harness.notified(10) == ["-a@1?"]
        assert {str(item.metadata.key) for item in harness.store} == {"blue/a"}
        assert (harness.store.resource_version_in("red"), harness.store.resource_version_in("blue")) == ("20", "8")


async def test_the_idle_time_is_that_of_the_quietest_watch():
    red = [Watch(mark(10), 50.0, bookmark(11), 1e9)]
    blue = [Watch(mark(8), 20.0, bookmark(9), 1e9)]

    async with two_namespaces(red, blue) as harness:
        await harness.clock.advance(60)

        assert harness.informer.idle_seconds == 40


@pytest.mark.parametrize(
    "scopes",
    [
        pytest.param([], id="none"),
        pytest.param([Scope("a"), Scope("a", "x=1")], id="one namespace twice"),
        pytest.param([Scope("a"), Scope()], id="everything and one more"),
    ],
)
async def test_scopes_that_overlap_are_refused(scopes):
    with pytest.raises(ValueError, match="one scope for everything, or one for each namespace"):
        Harness(scopes=scopes)


# --- Bugs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reported"), [(ZeroDivisionError, ZeroDivisionError), (asyncio.CancelledError, RuntimeError)]
)
async def test_a_reflector_that_fails_or_is_cancelled_from_within_ends_the_informer(error, reported):
    """A task group would take a cancellation for a normal end, and go on with a cache that never changes."""
    harness = two_namespaces([Watch(mark(1), 1e9)], [Watch(mark(1), 1e9)])
    harness.informer._reflectors[0].run = AsyncMock(side_effect=error)

    async with harness:
        with pytest.raises(ExceptionGroup) as failure:
            await harness.task
        assert failure.group_contains(reported)


# --- Refresh ----------------------------------------------------------------------------------------------


async def refreshing(harness):
    """A refresh that has begun, and has done what it can at once."""
    refresh = asyncio.get_running_loop().create_task(harness.informer.refresh())
    await harness.clock.idle()
    return refresh


UNAVAILABLE = [errors.Unreachable("refused"), errors.refused(503, b"{}"), errors.refused(401, b"{}")]


@pytest.mark.parametrize(
    ("script", "seconds_before", "moments"),
    [
        pytest.param(
            # half-open: 80 s of silence would pass before the reflector itself noticed
            [Watch(added(A) + added(B), mark(5), 1e9), Watch(added(thing("a", 9)), 2.0, mark(10), 1e9)],
            1,
            [(0, [], False), (2, ["-b@2?", "a@1>9"], True)],
            id="what a dead watch missed",
        ),
        pytest.param(
            [Watch(added(A), 3.0, mark(5), 1e9), Watch(added(thing("a", 9)), 3.0, mark(10), 1e9)],
            2,
            [(2, [], False), (1, ["+a@9"], True)],
            id="not a list that was begun before",
        ),
        pytest.param(
            [errors.Unreachable("refused"), Watch(added(A), mark(5), 1e9)],
            0,
            [(0, ["+a@1"], True)],
            id="a list without the pause after a failure",
        ),
        pytest.param(
            [Watch(mark(5), 1e9), *UNAVAILABLE, Watch(added(A), 3.0, mark(10), 1e9)],
            0,
            [(0, [], False), (30, ["+a@1"], True)],
            id="a list of an apiserver that was unavailable",
        ),
    ],
)
async def test_a_refresh_waits_for_a_list_of_its_own(script, seconds_before, moments):
    async with Harness(*script) as harness:
        await harness.notified(seconds_before)
        refresh = await refreshing(harness)

        for seconds, notified, is_done in moments:
            assert await harness.notified(seconds) == notified
            assert (refresh.done(), harness.informer.is_awaited) == (is_done, not is_done)
        assert not harness.informer.is_stale("ns")


async def test_a_cancelled_refresh_is_not_awaited_and_does_no_harm():
    async with Harness(Watch(mark(5), 1e9), Watch(2.0, mark(10), 1e9)) as harness:
        refresh = await refreshing(harness)
        refresh.cancel()
        await harness.clock.idle()
        assert not harness.informer.is_awaited
        assert harness.informer.is_stale("ns")

        await harness.clock.advance(2)
        assert harness.store.resource_version_in("") == "10"
        assert not harness.task.done()


async def test_a_refresh_before_the_informer_runs_is_its_initial_list():
    harness = Harness(Watch(added(A), mark(5), 1e9))
    refresh = await refreshing(harness)
    assert not refresh.done()

    async with harness:
        assert refresh.done()
        assert len(harness.server.queries) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.refused(403, b'{"reason": "Forbidden"}'), id="the rights are gone"),
        pytest.param(errors.refused(404, b"404 page not found"), id="the CRD is gone"),
    ],
)
async def test_a_refresh_does_not_wait_for_a_refused_namespace_which_is_stale_until_it_is_listed(refusal):
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 1e9), refusal, Watch(mark(20), 1e9)]
    blue = [Watch(mark(8), 1e9), Watch(mark(12), 1e9)]

    async with two_namespaces(red, blue) as harness:
        refresh = await refreshing(harness)
        assert refresh.done()
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)
        assert len(harness.store) == 1, "nothing is deleted for a refusal"

        await harness.clock.advance(60)
        assert not harness.informer.is_stale("red")
        assert len(harness.store) == 0


async def test_a_refresh_does_not_wait_for_a_namespace_whose_list_fails_for_long():
    broken = [errors.refused(500, b"{}")] * 99
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 1e9), *broken]

    async with two_namespaces(red, [Watch(mark(8), 1e9), Watch(mark(12), 1e9)]) as harness:
        refresh = await refreshing(harness)
        await harness.clock.advance(9)
        assert not refresh.done()

        await harness.clock.advance(30)
        assert refresh.done()
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)


async def test_a_forbidden_namespace_does_not_block_the_start_of_the_others():
    forbidden = [errors.refused(403, b'{"reason": "Forbidden"}')] * 9
    red = [*forbidden, Watch(added(in_namespace("red", "a", 1)), mark(20), 1e9)]

    async with two_namespaces(red, [Watch(mark(8), 1e9)]) as harness:
        assert harness.informer.has_synced
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)

        assert await harness.notified(300) == ["+a@1"]
        assert not harness.informer.is_stale("red")


async def test_an_informer_whose_namespaces_are_all_forbidden_is_not_synced():
    forbidden = [errors.refused(403, b'{"reason": "Forbidden"}')] * 99

    async with two_namespaces(list(forbidden), list(forbidden)) as harness:
        await harness.clock.advance(60)

        assert not harness.informer.has_synced


async def test_a_reflector_that_is_stuck_does_not_hide_behind_the_activity_of_the_others():
    busy = Watch(mark(8), *[step for number in range(9, 40) for step in (10.0, bookmark(number))])

    async with two_namespaces([Hang()], [busy]) as harness:
        await harness.clock.advance(120)

        assert harness.informer.stuck_seconds == 120


async def test_a_reflector_that_tries_again_and_again_is_not_stuck():
    async with Harness(*[errors.Unreachable("refused")] * 99) as harness:
        await harness.clock.advance(300)

        assert harness.informer.idle_seconds == 300
        assert harness.informer.stuck_seconds <= 30


async def test_every_namespace_is_stale_when_the_watch_of_all_is_refused():
    async with Harness(Watch(mark(5), 1e9), errors.refused(403, b"{}")) as harness:
        await refreshing(harness)

        assert harness.informer.is_stale("anywhere")


async def test_a_time_limit_that_is_not_a_refresh_is_a_bug_and_ends_the_informer():
    no_streams = errors.refused(422, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden"}')
    harness = Harness(no_streams, page([A], version=5))
    harness.informer._reflectors[0]._writer._on_list = Mock(side_effect=TimeoutError("of somebody else"))

    async with harness:
        await harness.clock.advance(5)
        with pytest.raises(ExceptionGroup) as failure:
            await harness.task

    assert failure.group_contains(TimeoutError, match="of somebody else")
