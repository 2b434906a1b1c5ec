"""What a reflector asks for, and when, whatever the apiserver answers. The feed and the store are real."""

import asyncio
import random

import pytest

from support.fake_clock import FakeClock
from support.sample_objects import READ_THING, THINGS, ReflectorCounts, thing
from support.scripted_transport import (
    Hang,
    ScriptedTransport,
    Watch,
    added,
    bookmark,
    client_of,
    deleted,
    failure,
    line,
    mark,
    modified,
    page,
)
from tf_operator.machinery.cache.cache_writer import CacheWriter
from tf_operator.machinery.cache.decoding import ObjectDecoder
from tf_operator.machinery.cache.reflector import Reflector, Timing
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE, Scope
from tf_operator.machinery.transport.responses import LONGEST_LINE

WATCH_LIST = {
    "watch": "true",
    "allowWatchBookmarks": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
}
EXPIRED = errors.refused(410, b'{"reason": "Expired", "message": "too old resource version"}')
NO_STREAMS = errors.refused(422, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden"}')
QUIET = Watch(1e9)
SERVED = 30.0
A, B = thing("a", 1), thing("b", 2)


class Harness:
    """A reflector, what it talks to and what it fills, on a fake clock."""

    def __init__(self, *script, scope=EVERYWHERE, chance=0.5, timing=None):
        self.clock = FakeClock()
        self.server = ScriptedTransport(self.clock, *script)
        self.counts = ReflectorCounts()
        self.store = Store()
        self.completed = []
        reader = ObjectDecoder(READ_THING, store=self.store, instruments=self.counts)
        self.writer = CacheWriter(
            self.store,
            reader,
            namespace=scope.namespace,
            notify=lambda changes: None,
            completed=self.completed.append,
        )
        self.reflector = Reflector(
            THINGS,
            scope,
            client=client_of(self.server, self.clock),
            clock=self.clock,
            writer=self.writer,
            chance=(lambda: chance) if isinstance(chance, float) else chance,
            instruments=self.counts,
            timing=timing,
        )

    async def __aenter__(self):
        self.task = asyncio.get_running_loop().create_task(self.reflector.run())
        await self.clock.idle()
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        assert self.clock.pending == 0, "a timer has leaked"
        assert self.server.open_watches == 0, "a watch has leaked"

    @property
    def names(self):
        return {item.metadata.name: item.metadata.resource_version for item in self.store}

    @property
    def asked(self):
        """What each request was: a page, a picture as a stream, or a watch from a version."""
        return [kind_of(query) for query in self.server.queries]


def kind_of(query):
    if "watch" not in query:
        return f"list {query['limit']}{' ' + query['continue'] if 'continue' in query else ''}"
    return "stream" if "sendInitialEvents" in query else f"watch {query['resourceVersion']}"


# --- The picture, streamed --------------------------------------------------------------------------------


async def test_the_initial_list_is_streamed_and_followed_by_its_changes_on_the_same_watch():
    """client-go: TestWatchList."""
    script = Watch(added(A) + added(B), mark(5), modified(thing("a", 6)), deleted(thing("b", 7)), 1e9)

    async with Harness(script) as harness:
        assert harness.names == {"a": "6"}
        assert harness.server.queries == [WATCH_LIST | {"timeoutSeconds": "360"}]
        assert harness.store.resource_version_in("") == "7"
        assert harness.counts.of == {"watching": 1, "listed": 1}
        assert harness.counts.listed_items == [2]


async def test_the_selectors_and_the_namespace_go_along_with_every_request():
    scope = Scope("team-a", "job=mnist", "status.phase!=Failed")
    selectors = {"labelSelector": "job=mnist", "fieldSelector": "status.phase!=Failed"}

    async with Harness(NO_STREAMS, page([], version=5), QUIET, scope=scope) as harness:
        await harness.clock.advance(5)

        assert len(harness.server.requests) == 3
        for request in harness.server.requests:
            assert request.path == "/apis/example.org/v1/namespaces/team-a/things"
            assert selectors.items() <= request.query.items()


@pytest.mark.parametrize(
    "refusal", [NO_STREAMS, errors.refused(400, b'{"reason": "BadRequest", "message": "unknown parameter"}')]
)
async def test_the_picture_is_taken_page_by_page_where_it_cannot_be_streamed(refusal):
    """client-go: TestWatchListFallback..."""
    pages = [page([A], version=5, token="t"), page([B], version=5)]

    async with Harness(refusal, *pages, Watch(3.0, EXPIRED), page([], version=9), QUIET) as harness:
        await harness.clock.advance(1)
        assert harness.names == {"a": "1", "b": "2"}
        assert harness.asked == ["stream", "list 500", "list 500 t", "watch 5"]

        await harness.clock.advance(5)
        assert harness.names == {}
        assert harness.asked[4:] == ["list 500", "watch 9"], "it is not asked to stream again"
        assert harness.counts.listed_items == [2, 0]


async def test_the_picture_is_taken_page_by_page_when_the_mark_does_not_come():
    """An apiserver that does not know the parameter sends all objects, and then waits for changes."""
    async with Harness(Watch(added(A), 1e9), page([A], version=5), QUIET) as harness:
        await harness.clock.advance(29)
        assert harness.asked == ["stream"]

        await harness.clock.advance(2)
        assert harness.asked == ["stream", "list 500", "watch 5"]
        assert harness.names == {"a": "1"}


async def test_the_picture_is_taken_page_by_page_when_a_bookmark_comes_before_the_mark():
    """Changes go on, so there is no silence; but bookmarks begin only after the mark, which was lost."""
    steps = [step for version in range(6) for step in (20.0, modified(thing("a", 10 + version)))]

    async with Harness(Watch(added(A), *steps[:6], bookmark(12), *steps[6:]), page([B], version=20), QUIET) as harness:
        await harness.clock.advance(62)

        assert harness.asked == ["stream", "list 500", "watch 20"]
        assert harness.names == {"b": "2"}


@pytest.mark.parametrize(
    "unfinished",
    [
        pytest.param(Watch(added(A)), id="closed before the mark"),
        pytest.param(Watch(added(A), errors.ReplyLost("reset")), id="cut before the mark"),
        pytest.param(Watch(added(A) + mark(5)[:-9]), id="closed inside the mark"),
    ],
)
async def test_a_list_that_breaks_off_twice_is_read_page_by_page_and_the_next_one_is_streamed_again(unfinished):
    async with Harness(
        unfinished, unfinished, page([B], version=20), Watch(60.0, EXPIRED), Watch(mark(30), 1e9)
    ) as harness:
        await harness.clock.advance(10)

        assert harness.asked == ["stream", "stream", "list 500", "watch 20"]
        assert harness.names == {"b": "2"}

        await harness.clock.advance(60)
        assert harness.asked[4:] == ["stream"]


async def test_a_picture_that_broke_off_once_does_not_count_after_one_that_was_finished():
    script = [Watch(added(A)), Watch(mark(5), 3.0, EXPIRED), Watch(added(A)), Watch(mark(9), 1e9)]

    async with Harness(*script) as harness:
        await harness.clock.advance(20)

        assert harness.asked == ["stream"] * 4


# --- The picture, page by page ----------------------------------------------------------------------------


async def test_a_list_that_fails_between_two_pages_leaves_the_store_as_it_was():
    script = [
        NO_STREAMS,
        page([A], version=5),
        Watch(3.0, EXPIRED),
        page([B], version=9, token="t"),
        errors.refused(500, b""),
        page([B], version=10),
    ]

    async with Harness(*script, chance=0.999) as harness:
        await harness.clock.advance(4.5)
        assert harness.asked[-1] == "list 500 t"
        assert harness.names == {"a": "1"}
        assert harness.reflector._relist is None, "what was read is not kept while nothing happens"

        await harness.clock.advance(5)
        assert harness.names == {"b": "2"}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"<html>bad gateway</html>", id="HTML"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"metadata":{},"items":[]}', id="a list of no version"),
        pytest.param(b'{"kind":"Status","metadata":{},"status":"Success"}', id="a Status"),
    ],
)
async def test_nothing_is_deleted_on_the_word_of_a_reply_that_is_no_list(reply):
    async with Harness(NO_STREAMS, page([A], version=5), Watch(3.0, EXPIRED), *[reply] * 9) as harness:
        await harness.clock.advance(20)

        assert harness.counts.of["ended: Garbled"] > 1
        assert harness.names == {"a": "1"}


async def test_nothing_is_deleted_on_the_word_of_a_mark_without_a_version():
    async with Harness(Watch(added(A), mark(5), 3.0, EXPIRED), Watch(mark(""), 1e9)) as harness:
        await harness.clock.advance(3.1)

        assert harness.counts.of["ended: Garbled"] == 1
        assert harness.names == {"a": "1"}


# --- The watch --------------------------------------------------------------------------------------------


async def test_a_watch_that_ends_is_followed_by_one_from_where_it_ended():
    """client-go: TestReflectorResourceVersionUpdate."""
    first = Watch(added(A), mark(5), modified(thing("a", 6)), bookmark(40), SERVED)

    async with Harness(first, Watch(added(thing("c", 41)), 1e9)) as harness:
        await harness.clock.advance(SERVED + 1)

        assert harness.asked == ["stream", "watch 40"]
        assert harness.server.queries[1] == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "40",
            "timeoutSeconds": "360",
        }
        assert harness.names == {"a": "6", "c": "41"}


async def test_versions_that_are_no_numbers_are_sent_back_as_they_came():
    first = Watch(mark("v5"), added(thing("a", "v17")), bookmark("v20"), 3.0)

    async with Harness(first, QUIET) as harness:
        await harness.clock.advance(4)

        assert harness.asked == ["stream", "watch v20"]


@pytest.mark.parametrize("chance", [0.0, 0.999])
async def test_watches_end_after_four_to_eight_minutes_by_themselves(chance):
    """client-go: TestWatchTimeout: between five and ten minutes."""
    async with Harness(Watch(mark(5)), chance=chance) as harness:
        asked = int(harness.server.queries[0]["timeoutSeconds"])

        assert 240 <= asked <= 480
        assert asked == int(240 * (1 + chance))


async def test_a_watch_that_the_server_does_not_end_is_ended():
    chatter = [step for version in range(100) for step in (10.0, bookmark(10 + version))]

    async with Harness(Watch(mark(5), *chatter), QUIET, chance=0.0) as harness:
        await harness.clock.advance(254)
        assert harness.asked == ["stream"]

        await harness.clock.advance(2)
        assert harness.asked == ["stream", "watch 34"]
        assert harness.counts.of["ended: ReplyLost"] == 1


async def test_a_watch_that_falls_silent_is_replaced_within_ninety_seconds():
    """Half-open: the other side is gone, and nothing will ever come."""
    async with Harness(Watch(mark(5), 30.0, added(A | {}), 1e9), Watch(added(thing("c", 9)), 1e9)) as harness:
        await harness.clock.advance(30 + 79)
        assert harness.asked == ["stream"]

        await harness.clock.advance(11)
        assert harness.asked == ["stream", "watch 5"]
        assert harness.names == {"c": "9"}


async def test_a_page_is_a_sign_of_life():
    async with Harness(errors.Unreachable("no"), NO_STREAMS, page([], version=5, token="t"), Hang()) as harness:
        await harness.clock.advance(100)

        assert harness.asked[-1] == "list 500 t"
        assert 95 < harness.reflector.idle_seconds < 100


# --- How watches end --------------------------------------------------------------------------------------


async def test_a_history_that_went_back_is_noticed_by_the_next_bookmark():
    """Etcd was restored: the watch is accepted, and silent up to a version that may be days away."""
    script = [Watch(added(A), mark(5000), SERVED), Watch(60.0, bookmark(3000), 1e9), Watch(added(B), mark(3001), 1e9)]

    async with Harness(*script) as harness:
        await harness.clock.advance(SERVED + 61)

        assert harness.asked == ["stream", "watch 5000", "stream"]
        assert harness.names == {"b": "2"}
        assert harness.store.resource_version_in("") == "3001"


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(errors.Unreachable("refused"), id="no connection"),
        pytest.param(errors.refused(429, b'{"reason": "TooManyRequests"}', retry_after=1.0), id="429"),
        pytest.param(errors.refused(503, b"<html>"), id="503"),
        pytest.param(errors.refused(401, b""), id="401"),
        pytest.param(errors.refused(403, b""), id="403"),
        pytest.param(Watch(failure(500, "InternalError", "etcdserver: no leader")), id="500 in the stream"),
        pytest.param(Watch(b"<html>\n"), id="HTML in the stream"),
        pytest.param(Watch(b'{"type":"ADDED","obj'), id="half a line"),
        pytest.param(Watch(line("RENAMED", A)), id="an unknown type"),
        pytest.param(Watch(line("BOOKMARK", {})), id="a bookmark of nothing"),
        pytest.param(Watch(), id="closed at once"),
    ],
)
async def test_a_passing_trouble_is_followed_by_a_watch_from_the_same_version(trouble):
    """client-go: TestReflectorListAndWatchWithErrors, TestNoRelistOnTooManyRequests, TestRetryInternalError."""
    script = [Watch(added(A), mark(5), SERVED), *[trouble] * 3, Watch(added(thing("c", 9)), 1e9)]

    async with Harness(*script, chance=0.5) as harness:
        await harness.clock.advance(SERVED + 10)

        assert harness.asked == ["stream", *["watch 5"] * 4]
        assert harness.names == {"a": "1", "c": "9"}


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param([errors.ReplyLost("reset")], id="cut off"),
        pytest.param([errors.ReplyLost("reset"), errors.refused(503, b"")], id="cut off, then not served"),
        pytest.param([], id="closed before its time"),
    ],
)
async def test_a_history_that_went_back_is_noticed_at_once_by_the_next_watch(ending):
    """Etcd restored from a snapshot: the apiserver accepts a watch from version 50, and is silent up to it."""
    watches = [Watch(added(A), mark(50), SERVED, *ending[:1]), *ending[1:], Watch(1e9)]

    async with Harness(*watches, Watch(added(thing("b", 7)), mark(8), 1e9), chance=0.5) as harness:
        harness.server.position = 20
        await harness.clock.advance(SERVED + 10)

        assert harness.asked[-1] == "stream"
        assert harness.names == {"b": "7"}


async def test_a_history_that_went_back_during_a_silence_is_noticed_when_the_silence_is():
    script = [Watch(added(A), mark(50), SERVED, 1e9), Watch(1e9), Watch(added(thing("b", 7)), mark(8), 1e9)]

    async with Harness(*script, chance=0.5) as harness:
        harness.server.position = 20
        await harness.clock.advance(SERVED + 90)

        assert harness.asked == ["stream", "watch 50", "stream"]
        assert harness.names == {"b": "7"}


async def test_a_history_that_went_on_is_followed_without_a_relist():
    full = [step for number in range(60, 65) for step in (72.0, bookmark(number))]
    script = [Watch(added(A), mark(50), SERVED, errors.ReplyLost("reset")), Watch(*full), QUIET]

    async with Harness(*script, chance=0.5) as harness:
        await harness.clock.advance(SERVED + 370)

        assert harness.asked == ["stream", "watch 50", "watch 64"]
        assert harness.server.times_asked_for_position == 1, "not after a watch that ended at its time"


async def test_the_history_of_a_picture_that_was_just_taken_is_not_doubted():
    async with Harness(errors.Unreachable("refused"), Watch(added(A), mark(50), 1e9), chance=0.5) as harness:
        await harness.clock.advance(SERVED)

        assert harness.asked == ["stream", "stream"]
        assert harness.server.times_asked_for_position == 0


async def test_the_question_about_the_history_is_asked_again_when_it_fails():
    script = [Watch(added(A), mark(50), SERVED, errors.ReplyLost("reset")), Watch(1e9), Watch(1e9), Watch(1e9)]

    async with Harness(*script, chance=0.5) as harness:
        harness.server.position = errors.refused(503, b"")
        await harness.clock.advance(SERVED)
        assert harness.server.times_asked_for_position == 1

        harness.server.position = 60
        await harness.clock.advance(5)
        assert harness.server.times_asked_for_position == 2
        assert harness.asked == ["stream", "watch 50", "watch 50"]


async def test_nothing_is_asked_of_an_apiserver_that_is_away_but_the_watch():
    async with Harness(Watch(mark(5), 9.0, errors.ReplyLost("reset")), *[errors.Unreachable("no")] * 99) as harness:
        await harness.clock.advance(300)

        assert harness.server.times_asked_for_position == 0


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Watch(failure(500, "InternalError", "etcdserver: no leader")), id="500 in the stream"),
        pytest.param(Watch(b"x" * (LONGEST_LINE + 1)), id="a line without end"),
        pytest.param(Watch(line("RENAMED", A)), id="an unknown type"),
    ],
)
async def test_a_lasting_trouble_at_one_version_costs_a_relist(trouble):
    script = [Watch(added(A), mark(5), SERVED), *[trouble] * 99]

    async with Harness(*script, chance=0.999) as harness:
        await harness.clock.advance(SERVED + 30)
        assert harness.asked[-1] == "watch 5"

        await harness.clock.advance(60)
        assert "stream" in harness.asked[-1:] or "list 500" in harness.asked[-1:]
        assert [name for name in harness.counts.of if name.startswith("relisted")] != []


async def test_a_list_does_not_make_a_watch_one_that_has_served():
    """Else a watch that is refused after each slow list would mean one list after the other, without a pause."""
    clock_steps = [NO_STREAMS]
    for version in range(50):
        clock_steps += [page([A], version=version + 1), EXPIRED]

    async with Harness(*clock_steps, chance=0.999) as harness:
        send = harness.reflector._client.send_once

        async def slow(request):
            await harness.clock.sleep(3)
            return await send(request)

        harness.reflector._client.send_once = slow
        await harness.clock.advance(300)

        assert harness.counts.of["listed"] <= 16


def most_within(seconds, times):
    """The largest number of moments in any stretch of this length."""
    return max(sum(start <= time < start + seconds for time in times) for start in times)


async def test_an_outage_costs_four_reflectors_together_less_than_two_requests_a_second():
    chance = random.Random(7).random
    rigs = [Harness(Watch(mark(5), 9.0, errors.ReplyLost("reset")), *[errors.Unreachable("no")] * 999, chance=chance)]
    rigs += [Harness(*[errors.Unreachable("no")] * 999, chance=chance) for _ in range(3)]
    for harness in rigs:
        async with harness:
            await harness.clock.advance(300)

    times = sorted(time for harness in rigs for time in harness.server.times)
    assert len(times) / 300 < 0.5
    assert most_within(10, times) <= 24


async def test_endings_are_counted_by_their_cause():
    script = [Watch(mark(5), 3.0), Watch(3.0, failure(410)), Watch(mark(7), 3.0, errors.ReplyLost("reset")), QUIET]

    async with Harness(*script) as harness:
        await harness.clock.advance(20)

        assert harness.counts.of == {
            "watching": 4,
            "listed": 2,
            "ended: closed": 1,
            "ended: Expired": 1,
            "relisted: Expired": 1,
            "ended: ReplyLost": 1,
        }


# --- The loop ---------------------------------------------------------------------------------------------


async def test_a_long_list_lets_the_other_tasks_have_their_turns():
    items = [thing(f"t-{number}", number + 1) for number in range(100)]
    harness = Harness(NO_STREAMS, page(items, version=500), QUIET, timing=Timing(slice=0.005))
    turns = []
    decode = READ_THING

    def slow(raw):
        harness.clock._monotonic += 0.001
        turns.append("decoded")
        return decode(raw)

    harness.writer._reader._decode = slow

    async def neighbour():
        while True:
            turns.append("neighbour")
            await asyncio.sleep(0)

    async with harness:
        task = asyncio.get_running_loop().create_task(neighbour())
        harness.clock._monotonic += 1
        for _ in range(200):
            for timer in list(harness.clock._timers):
                timer[2].fire()
            await asyncio.sleep(0)
        task.cancel()

    text = "".join(turn[0] for turn in turns)
    assert text.count("d") == 100
    assert "d" * 7 not in text, "at most five milliseconds, and the one that goes past them"
    assert "dddd" in text, "but not after each object"


async def test_a_bug_ends_the_reflector_loudly():
    harness = Harness(Watch(added(A), mark(5), 1e9))
    harness.writer.start_relist = lambda: 1 / 0

    async with harness:
        assert harness.task.done()
        with pytest.raises(ZeroDivisionError):
            harness.task.result()


async def test_cancelling_ends_the_reflector_wherever_it_waits():
    for script in ([], [Watch(mark(5), 1e9)], [errors.Unreachable("no")], [NO_STREAMS, Hang()]):
        async with Harness(*script) as harness:
            assert not harness.task.done()
