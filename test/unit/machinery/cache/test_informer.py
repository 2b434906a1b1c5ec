"""The cache and its handlers, fed by a scripted apiserver: what is stored, and who is told what."""

import asyncio

import pytest
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from support.sample_objects import READ_THING, THINGS, Diary, ReflectorCounts, projected, thing
from support.scripted_transport import (
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
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import ObjectKey

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

    async def told(self, seconds=0.0):
        """What the diary was told while this time passed."""
        await self.clock.advance(seconds)
        return self.diary.taken()


# --- What is told -----------------------------------------------------------------------------------------


async def test_the_final_state_of_a_deleted_object_is_delivered():
    async with Harness(Watch(added(A), mark(5), deleted(thing("a", 9, size=77)), 1e9)) as harness:
        assert await harness.told() == ["+a@1", "-a@9"]
        assert harness.diary.last[-1].size == 77


async def test_a_duplicate_and_a_replay_are_not_told():
    lines = added(thing("a", 10)), modified(thing("a", 11)), deleted(thing("a", 12))

    async with Harness(
        Watch(mark(5), lines[0] * 2, lines[1] * 3, lines[0], lines[2], lines[1], lines[0], 1e9)
    ) as harness:
        assert await harness.told() == ["+a@10", "a@10>11", "-a@12"]
        assert len(harness.store) == 0


async def test_an_object_created_again_under_its_name_is_a_deletion_and_an_addition():
    async with Harness(Watch(added(A), mark(5), modified(thing("a", 9, uid="second")), 1e9)) as harness:
        assert await harness.told() == ["+a@1", "-a@1?", "+a@9"]
        assert harness.store.by_uid("uid-of-a") is None
        assert harness.store.version_of("second") == "9"


async def test_the_deletion_of_an_object_that_was_never_seen_is_not_told():
    async with Harness(Watch(mark(5), deleted(thing("a", 9)), 1e9)) as harness:
        assert await harness.told() == []
        assert harness.store.resource_version_in("") == "9"


# --- Relists ---------------------------------------------------------------------------------------------


async def test_a_relist_is_delivered_as_the_difference():
    """client-go: TestReflectorReplacesStoreOnUnsafeDelete, TestRealFIFO_ReplaceMakesDeletions."""
    second = added(A) + added(thing("c", 30)) + added(thing("d", 31))

    async with Harness(
        Watch(added(A) + added(B) + added(C), mark(5), 3.0), EXPIRED, Watch(second, mark(40), 1e9)
    ) as harness:
        await harness.told()

        assert await harness.told(10) == ["-b@2?", "c@3>30", "+d@31"]
        assert {item.metadata.name for item in harness.store} == {"a", "c", "d"}


async def test_a_relist_without_changes_is_not_delivered():
    async with Harness(
        Watch(added(A) + added(B), mark(5), 3.0), EXPIRED, Watch(added(B) + added(A), mark(9), 1e9)
    ) as harness:
        await harness.told()
        before = list(harness.store)

        assert await harness.told(10) == []
        assert [kept is item for kept, item in zip(before, harness.store, strict=True)] == [True, True]
        assert harness.store.resource_version_in("") == "9"


async def test_nobody_sees_half_a_picture():
    """client-go: TestRealFIFO_ReplaceAtomic."""
    seen = []

    class Witness(Diary):
        def _write(self, entry, item):
            names = "".join(sorted(thing.metadata.name for thing in harness.store))
            seen.append((entry, names, harness.store.resource_version_in(""), harness.informer.has_synced))

    harness = Harness(Watch(added(A) + added(B), mark(5), 3.0), EXPIRED, Watch(added(C) + added(A), mark(9), 1e9))
    harness.informer.add_handler(Witness())
    async with harness:
        await harness.clock.advance(10)

    assert seen == [
        ("+a@1", "ab", "5", False),
        ("+b@2", "ab", "5", False),
        ("-b@2?", "ac", "9", True),
        ("+c@3", "ac", "9", True),
    ]


async def test_what_ended_while_the_picture_was_taken_is_told_with_its_final_state():
    second = added(A) + added(B) + deleted(thing("b", 12, size=9)) + added(thing("a", 14, uid="second"))

    async with Harness(Watch(added(A) + added(B), mark(5), 3.0), EXPIRED, Watch(second, mark(20), 1e9)) as harness:
        await harness.told()

        assert await harness.told(10) == ["-b@12", "-a@1?", "+a@14"]
        assert harness.diary.last[2].size == 9


async def test_what_ended_and_came_again_while_the_picture_was_taken_is_told_with_its_final_state():
    second = added(A) + deleted(thing("a", 12, size=9)) + added(thing("a", 14, uid="second"))

    async with Harness(Watch(added(A), mark(5), 3.0), EXPIRED, Watch(second, mark(20), 1e9)) as harness:
        await harness.told()

        assert await harness.told(10) == ["-a@12", "+a@14"]


async def test_duplicates_and_replays_while_the_picture_is_taken_do_not_spoil_it():
    new = modified(thing("a", 9, size=1))
    lines = added(A) + added(A) + new + added(A) + added(B) + deleted(thing("b", 10)) + added(B)

    async with Harness(Watch(lines, mark(20), 1e9)) as harness:
        assert await harness.told() == ["+a@9"]


async def test_a_picture_of_an_older_moment_is_the_truth_and_its_versions_are_new_again():
    """Etcd was restored from a snapshot: the versions after it are given a second time."""
    old = added(thing("a", 10, size=1)) + added(thing("b", 20))
    restored = added(thing("a", 10, size=2))

    async with Harness(
        Watch(old, mark(50), 3.0), EXPIRED, Watch(restored, mark(15), added(thing("c", 16)), 1e9)
    ) as harness:
        await harness.told()

        assert await harness.told(10) == ["-b@20?", "a@10>10", "+c@16"]
        assert harness.store.get(ObjectKey("ns", "a")).size == 2
        assert harness.store.resource_version_in("") == "16"


# --- Objects that cannot be read --------------------------------------------------------------------------


async def test_an_object_that_becomes_unreadable_is_gone_and_comes_back_when_it_is_fixed():
    steps = modified(thing("a", 9, **POISON)), modified(thing("a", 10))

    async with Harness(Watch(added(A) + added(B), mark(5), *steps, 1e9)) as harness:
        assert await harness.told() == ["+a@1", "+b@2", "-a@1?", "+a@10"]


async def test_the_deletion_of_what_cannot_be_read_is_told_with_what_was_known():
    async with Harness(Watch(added(A), mark(5), deleted(thing("a", 9, **POISON)), 1e9)) as harness:
        assert await harness.told() == ["+a@1", "-a@1?"]


async def test_the_deletion_of_what_cannot_be_read_while_the_picture_is_taken_leaves_the_last_known_state():
    second = added(B) + added(A) + deleted(thing("a", 12, **POISON))

    async with Harness(Watch(added(A) + added(B), mark(5), 3.0), EXPIRED, Watch(second, mark(20), 1e9)) as harness:
        await harness.told()

        assert await harness.told(10) == ["-a@1?"]


# --- Handlers ---------------------------------------------------------------------------------------------


class Fails(Diary):
    def _write(self, entry, item):
        super()._write(entry, item)
        raise RuntimeError("a bug")


async def test_a_handler_that_fails_costs_neither_the_others_nor_the_watch():
    """client-go: TestEventPanics."""
    fails = Fails()
    watch = Watch(added(A), mark(5), modified(thing("a", 6)), deleted(thing("a", 7)), 1e9)

    with capture_logs() as logs:
        async with Harness(watch, handlers=[fails]) as harness:
            assert await harness.told() == fails.taken() == ["+a@1", "a@1>6", "-a@7"]
            assert harness.counts.of["handler failed"] == 3
            assert not harness.task.done()

    assert [log["event"] for log in logs if log.get("exc_info")] == [
        "a handler failed; the others are still notified"
    ] * 3


async def test_a_handler_that_gets_no_more_memory_ends_the_informer():
    class Starved(Diary):
        def _write(self, entry, item):
            raise MemoryError

    async with Harness(Watch(added(A), mark(5), 1e9), handlers=[Starved()]) as harness:
        with pytest.raises(ExceptionGroup) as caught:
            await harness.task

    assert isinstance(caught.value.exceptions[0], MemoryError)


async def test_a_late_handler_gets_all_that_is_there_and_then_changes():
    late = Diary()

    async with Harness(Watch(added(A) + added(B), mark(5), 1.0, modified(thing("a", 6)), 1e9)) as harness:
        harness.informer.add_handler(late)
        assert late.taken() == ["+a@1", "+b@2"]
        assert harness.diary.taken() == ["+a@1", "+b@2"], "and nobody else is told again"

        await harness.clock.advance(1)
        assert late.taken() == ["a@1>6"]


async def test_a_handler_that_is_added_by_a_handler_is_told_everything_once():
    late = Diary()

    class Adds(Diary):
        def on_add(self, item):
            if not late.entries:
                harness.informer.add_handler(late)

    harness = Harness(Watch(added(A) + added(B) + added(C), mark(5), deleted(thing("b", 9)), 1e9))
    harness.informer.add_handler(Adds())
    async with harness:
        assert late.taken() == ["+a@1", "+b@2", "+c@3", "-b@9"]


async def test_an_object_is_in_the_store_and_the_version_has_moved_when_a_handler_is_told():
    seen = []

    class Witness(Diary):
        def _write(self, entry, item):
            seen.append((entry, harness.store.version_of(item.metadata.uid), harness.store.resource_version_in("")))

    harness = Harness(Watch(mark(5), added(thing("a", 9)), modified(thing("a", 10)), deleted(thing("a", 11)), 1e9))
    harness.informer.add_handler(Witness())
    async with harness:
        assert seen == [("+a@9", "9", "9"), ("a@9>10", "10", "10"), ("-a@11", None, "11")]


# --- Synced -----------------------------------------------------------------------------------------------


async def test_synced_means_that_the_initial_list_is_complete_and_delivered():
    waited = []

    async def wait():
        await harness.informer.wait_synced()
        waited.append(harness.diary.taken())

    async with Harness(Watch(added(A), 10.0, mark(5), 1e9)) as harness:
        task = asyncio.get_running_loop().create_task(wait())
        await harness.clock.advance(9)
        assert not harness.informer.has_synced
        assert not waited

        await harness.clock.advance(1)
        assert harness.informer.has_synced
        assert waited == [["+a@1"]]
        await task


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

        await harness.clock.advance(7)
        assert harness.store.resource_version_in("blue") == "12"


async def test_each_namespace_has_its_selectors():
    async with two_namespaces([Watch(mark(1), 1e9)], [Watch(mark(1), 1e9)]) as harness:
        queries = {name: server.queries[0] for name, server in harness.server.of.items()}

        assert queries["red"]["labelSelector"] == "x=1"
        assert queries["blue"]["labelSelector"] == "x=2"


async def test_a_relist_of_one_namespace_does_not_touch_the_others():
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 3.0), EXPIRED, Watch(mark(20), 1e9)]
    blue = [Watch(added(in_namespace("blue", "a", 2)), mark(8), 60.0, bookmark(30), 1e9)]

    async with two_namespaces(red, blue) as harness:
        await harness.told()

        assert await harness.told(10) == ["-a@1?"]
        assert {str(item.metadata.key) for item in harness.store} == {"blue/a"}
        assert (harness.store.resource_version_in("red"), harness.store.resource_version_in("blue")) == ("20", "8")


async def test_the_age_is_that_of_the_quietest_watch():
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


# --- The whole --------------------------------------------------------------------------------------------


async def test_a_bug_in_one_reflector_ends_the_informer_loudly():
    harness = two_namespaces([Watch(mark(1), 5.0, added(in_namespace("red", "a", 9)), 1e9)], [Watch(mark(1), 1e9)])
    harness.informer._notify = None
    harness.informer._reflectors[0]._writer._notify = lambda changes: 1 / 0 if changes else None

    async with harness:
        assert not harness.task.done()
        await harness.clock.advance(5)

        with pytest.raises(ExceptionGroup) as failure:
            await harness.task
        assert failure.group_contains(ZeroDivisionError)


async def test_a_reflector_that_is_cancelled_from_within_ends_the_informer_loudly():
    """A task group takes that for an end like any other, and would go on with a cache that stands still."""

    async def cancelled():
        raise asyncio.CancelledError

    harness = Harness(Watch(mark(5), 1e9))
    harness.informer._reflectors[0].run = cancelled

    async with harness:
        with pytest.raises(ExceptionGroup) as failure:
            await harness.task
        assert failure.group_contains(RuntimeError, match="cancelled from within")


async def test_what_is_handed_out_cannot_be_changed():
    async with Harness(Watch(added(A), mark(5), 1e9)) as harness:
        item = harness.store.get(ObjectKey("ns", "a"))

        with pytest.raises(AttributeError):
            item.size = 5
        with pytest.raises(AttributeError):
            item.metadata.name = "b"
        assert item == projected("a", 1)


# --- A picture that was asked for -------------------------------------------------------------------------


async def refreshing(harness):
    """A refresh that has been asked for, and whatever can happen at once has."""
    asked = asyncio.get_running_loop().create_task(harness.informer.refresh())
    await harness.clock.idle()
    return asked


def pictures(harness):
    return ["sendInitialEvents" in query for query in harness.server.queries]


async def test_a_refresh_shows_what_a_dead_watch_never_told():
    """The watch is half-open: it would take 80 s of silence to notice."""
    first, second = Watch(added(A) + added(B), mark(5), 1e9), Watch(added(thing("a", 9)), 2.0, mark(10), 1e9)

    async with Harness(first, second) as harness:
        assert await harness.told(1) == ["+a@1", "+b@2"]
        asked = await refreshing(harness)
        assert harness.server.open_watches == 1, "the old watch is left open"
        assert not asked.done()
        assert await harness.told() == []

        assert await harness.told(2) == ["-b@2?", "a@1>9"]
        assert asked.done()
        assert pictures(harness) == [True, True]
        assert harness.counts.of["relisted: asked"] == 1


async def test_a_picture_that_was_begun_before_does_not_count_as_a_refresh():
    early, late = Watch(added(A), 3.0, mark(5), 1e9), Watch(added(thing("a", 9)), 3.0, mark(10), 1e9)

    async with Harness(early, late) as harness:
        await harness.clock.advance(2)
        asked = await refreshing(harness)
        assert await harness.told(2) == []
        assert not asked.done()

        assert await harness.told(1) == ["+a@9"]
        assert asked.done()


async def test_a_refresh_does_not_wait_for_the_pause_after_a_failure():
    async with Harness(errors.Unreachable("refused"), Watch(added(A), mark(5), 1e9)) as harness:
        asked = await refreshing(harness)

        assert asked.done()
        assert await harness.told() == ["+a@1"]


async def test_a_refresh_ends_with_the_first_complete_list():
    failures = [errors.Unreachable("refused"), Watch(added(A), errors.ReplyLost("reset"))]

    async with Harness(Watch(mark(5), 1e9), *failures, Watch(added(A), mark(10), 1e9)) as harness:
        asked = await refreshing(harness)
        assert not asked.done()

        await harness.clock.advance(60)
        assert asked.done()
        assert harness.store.resource_version_in("") == "10"


async def test_a_refresh_that_nobody_waits_for_any_more_does_no_harm():
    async with Harness(Watch(mark(5), 1e9), Watch(2.0, mark(10), 1e9)) as harness:
        asked = await refreshing(harness)
        asked.cancel()
        await harness.clock.advance(2)

        assert harness.store.resource_version_in("") == "10"
        assert not harness.task.done()


async def test_a_refresh_before_the_informer_runs_is_its_initial_list():
    harness = Harness(Watch(added(A), mark(5), 1e9))
    asked = await refreshing(harness)
    assert not asked.done()

    async with harness:
        assert asked.done()
        assert pictures(harness) == [True]


async def test_a_refresh_covers_every_namespace():
    red = [Watch(mark(10), 1e9), Watch(1.0, mark(11), 1e9)]
    blue = [Watch(mark(8), 1e9), Watch(5.0, mark(12), 1e9)]

    async with two_namespaces(red, blue) as harness:
        asked = await refreshing(harness)
        await harness.clock.advance(1)
        assert not asked.done()

        await harness.clock.advance(4)
        assert asked.done()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(errors.refused(403, b'{"reason": "Forbidden"}'), id="the rights are gone"),
        pytest.param(errors.refused(404, b"404 page not found"), id="the CRD is gone"),
    ],
)
async def test_a_refresh_does_not_wait_for_what_is_refused_and_says_what_is_lacking_until_it_comes(refusal):
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 1e9), refusal, Watch(mark(20), 1e9)]
    blue = [Watch(mark(8), 1e9), Watch(mark(12), 1e9)]

    async with two_namespaces(red, blue) as harness:
        asked = await refreshing(harness)
        assert asked.done()
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)
        assert len(harness.store) == 1, "nothing is deleted for a refusal"

        await harness.clock.advance(60)
        assert not harness.informer.is_stale("red")
        assert len(harness.store) == 0


async def test_a_refresh_does_not_wait_for_a_namespace_whose_list_fails_for_long():
    broken = [errors.refused(500, b"{}")] * 99
    red = [Watch(added(in_namespace("red", "a", 1)), mark(10), 1e9), *broken]

    async with two_namespaces(red, [Watch(mark(8), 1e9), Watch(mark(12), 1e9)]) as harness:
        asked = await refreshing(harness)
        await harness.clock.advance(9)
        assert not asked.done()

        await harness.clock.advance(30)
        assert asked.done()
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)


async def test_one_namespace_that_may_not_be_read_does_not_block_the_start_of_the_others():
    forbidden = [errors.refused(403, b'{"reason": "Forbidden"}')] * 9
    red = [*forbidden, Watch(added(in_namespace("red", "a", 1)), mark(20), 1e9)]

    async with two_namespaces(red, [Watch(mark(8), 1e9)]) as harness:
        assert harness.informer.has_synced
        assert (harness.informer.is_stale("red"), harness.informer.is_stale("blue")) == (True, False)

        assert await harness.told(300) == ["+a@1"]
        assert not harness.informer.is_stale("red")


async def test_nothing_is_synced_where_nothing_may_be_read():
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


async def test_whoever_watches_everything_lacks_every_namespace_when_that_is_refused():
    async with Harness(Watch(mark(5), 1e9), errors.refused(403, b"{}")) as harness:
        await refreshing(harness)

        assert harness.informer.is_stale("anywhere")


async def test_a_refresh_waits_for_what_is_only_away_and_who_asks_can_see_that():
    away = [errors.Unreachable("refused"), errors.refused(503, b"{}"), errors.refused(401, b"{}")]

    async with Harness(Watch(mark(5), 1e9), *away, Watch(3.0, mark(10), 1e9)) as harness:
        assert not harness.informer.is_awaited
        asked = await refreshing(harness)
        assert harness.informer.is_awaited

        await harness.clock.advance(30)
        assert asked.done()
        assert not harness.informer.is_awaited
        assert not harness.informer.is_stale("ns")


async def test_a_picture_that_was_begun_before_a_refresh_leaves_it_lacking():
    async with Harness(Watch(3.0, mark(5), 1e9), errors.refused(403, b"{}")) as harness:
        await refreshing(harness)
        await harness.clock.advance(5)

        assert harness.informer.is_stale("ns")


async def test_a_refresh_that_was_given_up_is_not_awaited_any_more():
    async with Harness(Watch(mark(5), 1e9), Watch(1e9)) as harness:
        asked = await refreshing(harness)
        asked.cancel()
        await harness.clock.idle()

        assert not harness.informer.is_awaited
        assert harness.informer.is_stale("ns"), "nobody has seen the picture"


async def test_a_time_limit_that_is_not_a_refresh_is_a_bug_and_ends_the_informer():
    no_streams = errors.refused(422, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden"}')
    harness = Harness(no_streams, page([A], version=5))
    harness.informer._reflectors[0]._writer._completed = raises(TimeoutError("of somebody else"))

    async with harness:
        await harness.clock.advance(5)
        with pytest.raises(ExceptionGroup) as caught:
            await harness.task

    assert caught.group_contains(TimeoutError, match="of somebody else")


def raises(error):
    def raising(*_):
        raise error

    return raising
