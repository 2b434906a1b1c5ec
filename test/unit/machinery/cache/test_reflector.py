"""What a reflector requests, and when, whatever the apiserver replies. The cache writer and the store are real."""

import asyncio

import pytest

from support.embedded.scripted_transport import (
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
from support.fake_clock import FakeClock
from support.toys.sample_objects import READ_THING, THINGS, ReflectorCounts, thing
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
            self.store, reader, namespace=scope.namespace, notify=lambda changes: None, on_list=self.completed.append
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
    def requests(self):
        """What each request was: a page, a streamed list, or a watch from a version."""
        return [kind_of(query) for query in self.server.queries]


def kind_of(query):
    if "watch" not in query:
        return f"list {query['limit']}{' ' + query['continue'] if 'continue' in query else ''}"
    return "stream" if "sendInitialEvents" in query else f"watch {query['resourceVersion']}"


# --- Streamed lists ---------------------------------------------------------------------------------------


async def test_the_initial_list_is_streamed_and_followed_by_its_changes_on_the_same_watch():
    """client-go: TestWatchList."""
    script = Watch(added(A) + added(B), mark(5), modified(thing("a", 6)), deleted(thing("b", 7)), 1e9)

    async with Harness(script) as harness:
        assert harness.names == {"a": "6"}
        assert harness.server.queries == [WATCH_LIST | {"timeoutSeconds": "360"}]
        assert harness.store.resource_version_in("") == "7"
        assert harness.counts.of == {"watching": 1, "listed": 1}
        assert harness.counts.listed_items == [2]


async def test_every_request_has_the_selectors_and_the_namespace():
    scope = Scope("team-a", "job=mnist", "status.phase!=Failed")
    selectors = {"labelSelector": "job=mnist", "fieldSelector": "status.phase!=Failed"}

    async with Harness(NO_STREAMS, page([], version=5), QUIET, scope=scope) as harness:
        await harness.clock.advance(5)

        assert len(harness.server.requests) == 3
        for request in harness.server.requests:
            assert request.path == "/apis/example.org/v1/namespaces/team-a/things"
            assert selectors.items() <= request.query.items()


PAGES = [page([A], version=5, token="t"), page([B], version=5)]
CHANGES = [step for version in range(6) for step in (20.0, modified(thing("a", 10 + version)))]
BOOKMARKS = [step for version in range(100) for step in (10.0, bookmark(10 + version))]
AFTER_LOSS = Watch(added(thing("b", 7)), mark(8), 1e9)


@pytest.mark.parametrize(
    ("script", "moments"),
    [
        pytest.param(
            [NO_STREAMS, *PAGES, Watch(3.0, EXPIRED), page([], version=9), QUIET],
            [(1, "stream, list 10, list 100 t, watch 5", {"a": "1", "b": "2"}), (5, "list 10, watch 9", {})],
            id="pages where lists cannot be streamed",
        ),
        pytest.param(
            [errors.refused(400, b'{"reason": "BadRequest", "message": "unknown parameter"}'), *PAGES, QUIET],
            [(1, "stream, list 10, list 100 t, watch 5", {"a": "1", "b": "2"})],
            id="pages where the parameter is unknown",
        ),
        pytest.param(
            [Watch(added(A), 1e9), page([A], version=5), QUIET],  # all objects are sent, and then changes
            [(29, "stream", {}), (2, "list 10, watch 5", {"a": "1"})],
            id="pages when the mark does not come",
        ),
        pytest.param(
            [Watch(added(A), *CHANGES[:6], bookmark(12), *CHANGES[6:]), page([B], version=20), QUIET],
            [(62, "stream, list 10, watch 20", {"b": "2"})],
            id="pages when a bookmark comes before the mark, which was lost",
        ),
        pytest.param(
            [*[Watch(added(A))] * 2, page([B], version=20), Watch(60.0, EXPIRED), Watch(mark(30), 1e9)],
            [(10, "stream, stream, list 10, watch 20", {"b": "2"}), (60, "stream", {})],
            id="pages after two streams that were closed, and a stream the next time",
        ),
        pytest.param(
            [*[Watch(added(A) + mark(5)[:-9], errors.ReplyLost("reset"))] * 2, page([B], version=20), QUIET],
            [(10, "stream, stream, list 10, watch 20", {"b": "2"})],
            id="pages after two streams that were cut",
        ),
        pytest.param(
            [Watch(added(A)), Watch(mark(5), 3.0, EXPIRED), Watch(added(A)), Watch(mark(9), 1e9)],
            [(20, "stream, stream, stream, stream", {})],
            id="streams after each that was cut once",
        ),
        pytest.param(
            [Watch(mark("v5"), added(thing("a", "v17")), bookmark("v20"), 3.0), QUIET],
            [(4, "stream, watch v20", {"a": "v17"})],
            id="versions that are no numbers as they came",
        ),
        pytest.param(
            [Watch(mark(5), *BOOKMARKS), QUIET],
            [(374, "stream", {}), (2, "watch 46", {})],
            id="a new watch when the server does not end the old one",
        ),
        pytest.param(
            [Watch(mark(5), 30.0, added(A), 1e9), Watch(added(thing("c", 9)), 1e9)],
            [(30 + 79, "stream", {}), (11, "watch 5", {"c": "9"})],
            id="a new watch after ninety seconds of silence",
        ),
        pytest.param(
            [Watch(added(A), mark(5000), SERVED), Watch(60.0, bookmark(3000), 1e9), AFTER_LOSS],
            [(SERVED + 61, "stream, watch 5000, stream", {"b": "7"})],
            id="a list when a bookmark is older than the watch",
        ),
    ],
)
async def test_a_reflector_chooses_its_next_request_by_what_it_got(script, moments):
    """client-go: TestWatchListFallback..."""
    expected = []
    async with Harness(*script) as harness:
        for seconds, more, names in moments:
            await harness.clock.advance(seconds)
            expected += more.split(", ")
            assert (harness.requests, harness.names) == (expected, names)


@pytest.mark.parametrize(
    ("ending", "seconds", "expected"),
    [
        pytest.param([errors.ReplyLost("reset")], 10, ["stream", "watch 50", "stream"], id="cut off"),
        pytest.param(
            [errors.ReplyLost("reset"), errors.refused(503, b"")],
            10,
            ["stream", "watch 50", "watch 50", "stream"],
            id="cut off, then unavailable",
        ),
        pytest.param([], 10, ["stream", "watch 50", "stream"], id="closed before its time"),
        pytest.param([1e9], 90, ["stream", "watch 50", "stream"], id="silent"),
    ],
)
async def test_a_history_that_went_back_is_noticed_by_the_next_watch(ending, seconds, expected):
    """Etcd was restored: the apiserver accepts a watch from version 50, and is silent up to it, for days perhaps."""
    watches = [Watch(added(A), mark(50), SERVED, *ending[:1]), *ending[1:], Watch(1e9), AFTER_LOSS]

    async with Harness(*watches) as harness:
        harness.server.position = 20
        await harness.clock.advance(SERVED + seconds)

        assert (harness.requests, harness.names) == (expected, {"b": "7"})


# --- Lists page by page -----------------------------------------------------------------------------------


async def test_a_list_that_fails_between_two_pages_leaves_the_store_as_it_was():
    lists = [page([A], version=5), Watch(3.0, EXPIRED), PAGES[0], errors.refused(500, b""), page([B], version=10)]

    async with Harness(NO_STREAMS, *lists, chance=0.999) as harness:
        await harness.clock.advance(4.5)
        assert harness.requests[-1] == "list 100 t"
        assert harness.names == {"a": "1"}
        assert harness.reflector._relist is None, "what was read is not kept while nothing happens"

        await harness.clock.advance(5)
        assert harness.names == {"b": "2"}


@pytest.mark.parametrize(
    ("first", "reply"),
    [
        pytest.param([NO_STREAMS, page([A], version=5)], b"<html>bad gateway</html>", id="HTML"),
        pytest.param([NO_STREAMS, page([A], version=5)], b'{"metadata":{},"items":[]}', id="a list without a version"),
        pytest.param([Watch(added(A), mark(5))], Watch(mark("")), id="a mark without a version"),
    ],
)
async def test_an_invalid_list_deletes_nothing(first, reply):
    async with Harness(*first, EXPIRED, *[reply] * 9) as harness:
        await harness.clock.advance(20)

        assert harness.counts.of["ended: Garbled"] >= 1
        assert harness.names == {"a": "1"}


# --- The watch --------------------------------------------------------------------------------------------


async def test_a_watch_that_ends_is_followed_by_one_from_where_it_ended():
    """client-go: TestReflectorResourceVersionUpdate."""
    first = Watch(added(A), mark(5), modified(thing("a", 6)), bookmark(40), SERVED)

    async with Harness(first, Watch(added(thing("c", 41)), 1e9)) as harness:
        await harness.clock.advance(SERVED + 1)

        assert harness.requests == ["stream", "watch 40"]
        assert harness.server.queries[1] == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "40",
            "timeoutSeconds": "360",
        }
        assert harness.names == {"a": "6", "c": "41"}


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, "240"), (0.999, "479")])
async def test_watches_end_after_four_to_eight_minutes_by_themselves(chance, seconds):
    """client-go: TestWatchTimeout: between five and ten minutes."""
    async with Harness(Watch(mark(5)), chance=chance) as harness:
        assert harness.server.queries[0]["timeoutSeconds"] == seconds


async def test_a_page_ends_the_idle_time():
    async with Harness(errors.Unreachable("no"), NO_STREAMS, page([], version=5, token="t"), Hang()) as harness:
        await harness.clock.advance(100)

        assert harness.requests[-1] == "list 100 t"
        assert 95 < harness.reflector.idle_seconds < 100


# --- The end of a watch -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(errors.refused(429, b'{"reason": "TooManyRequests"}', retry_after=1.0), id="429"),
        pytest.param(errors.refused(403, b""), id="403"),
        pytest.param(Watch(failure(500, "InternalError", "etcdserver: no leader")), id="500 in the stream"),
        pytest.param(Watch(b"<html>\n"), id="HTML in the stream"),
        pytest.param(Watch(b'{"type":"ADDED","obj'), id="half a line"),
        pytest.param(Watch(line("RENAMED", A)), id="an unknown type"),
        pytest.param(Watch(line("BOOKMARK", {})), id="an empty bookmark"),
        pytest.param(Watch(), id="closed at once"),
    ],
)
async def test_a_short_failure_is_followed_by_a_watch_from_the_same_version(trouble):
    """client-go: TestReflectorListAndWatchWithErrors, TestNoRelistOnTooManyRequests, TestRetryInternalError."""
    script = [Watch(added(A), mark(5), SERVED), *[trouble] * 3, Watch(added(thing("c", 9)), 1e9)]

    async with Harness(*script, chance=0.5) as harness:
        await harness.clock.advance(SERVED + 10)

        assert harness.requests == ["stream", *["watch 5"] * 4]
        assert harness.names == {"a": "1", "c": "9"}


async def test_a_history_that_went_on_is_followed_without_a_relist():
    full = [step for number in range(60, 65) for step in (72.0, bookmark(number))]
    script = [Watch(added(A), mark(50), SERVED, errors.ReplyLost("reset")), Watch(*full), QUIET]

    async with Harness(*script, chance=0.5) as harness:
        await harness.clock.advance(SERVED + 370)

        assert harness.requests == ["stream", "watch 50", "watch 64"]
        assert harness.server.times_asked_for_position == 1, "not after a watch that ended at its time"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([errors.Unreachable("refused"), Watch(added(A), mark(50), 1e9)], id="after a list"),
        pytest.param([Watch(mark(5), 9.0, errors.ReplyLost("reset")), *[errors.Unreachable("no")] * 99], id="away"),
    ],
)
async def test_the_version_of_the_apiserver_is_not_requested(script):
    async with Harness(*script) as harness:
        await harness.clock.advance(300)

        assert harness.server.times_asked_for_position == 0


async def test_the_version_of_the_apiserver_is_requested_again_when_that_fails():
    script = [Watch(added(A), mark(50), SERVED, errors.ReplyLost("reset")), Watch(1e9), Watch(1e9), Watch(1e9)]

    async with Harness(*script, chance=0.5) as harness:
        harness.server.position = errors.refused(503, b"")
        await harness.clock.advance(SERVED)
        assert harness.server.times_asked_for_position == 1

        harness.server.position = 60
        await harness.clock.advance(5)
        assert harness.server.times_asked_for_position == 2
        assert harness.requests == ["stream", "watch 50", "watch 50"]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Watch(failure(500, "InternalError", "etcdserver: no leader")), id="500 in the stream"),
        pytest.param(Watch(b"x" * (LONGEST_LINE + 1)), id="an endless line"),
    ],
)
async def test_a_lasting_failure_at_one_version_leads_to_a_relist(trouble):
    script = [Watch(added(A), mark(5), SERVED), *[trouble] * 99]

    async with Harness(*script, chance=0.999) as harness:
        await harness.clock.advance(SERVED + 30)
        assert harness.requests[-1] == "watch 5"

        await harness.clock.advance(60)
        assert "stream" in harness.requests[-1:] or "list 10" in harness.requests[-1:]
        assert [name for name in harness.counts.of if name.startswith("relisted")] != []


async def test_a_list_does_not_make_a_watch_healthy():
    """Otherwise a watch that is refused after each slow list would mean one list after the other, without a pause."""
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


async def test_the_ends_of_watches_are_counted_by_cause():
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


# --- The event loop ---------------------------------------------------------------------------------------


async def test_a_long_list_yields_to_other_tasks():
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


@pytest.mark.parametrize("unstreamed", [NO_STREAMS, Watch(added(A), 1e9)], ids=["refused", "silent"])
async def test_lists_are_streamed_again_some_time_after_a_stream_was_refused_or_silent(unstreamed):
    paged = [page([A], version=5), Watch(60.0, EXPIRED), page([A], version=5), Watch(60.0, EXPIRED)]

    async with Harness(unstreamed, *paged, Watch(mark(6), 1e9), timing=Timing(paged=100)) as harness:
        await harness.clock.advance(170)

        assert harness.requests == ["stream", *["list 10", "watch 5"] * 2, "stream"]


async def test_an_attempt_that_hangs_after_a_long_wait_is_not_stuck_yet():
    async with Harness(errors.refused(429, b"{}", retry_after=60), Hang()) as harness:
        await harness.clock.advance(60 + 40)

        assert harness.reflector.stuck_seconds == 40
