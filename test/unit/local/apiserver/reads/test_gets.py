"""Lists and watches of what is, and of what was."""

import json

import msgspec
import pytest

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call, events, watch
from tf_operator.local.apiserver.reads.watches import MOST_LINES
from tf_operator.local.apiserver.storage import store
from tf_operator.machinery.transport.requests import Request

TOYS = "/apis/toys.io/v1/namespaces/team/toys"
MERGE = "application/merge-patch+json"
HISTORY = 600


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def server(clock):
    toy_server = toy_kinds.server(clock, history=HISTORY)
    for name in "abc":
        call(toy_server, "POST", TOYS, {"metadata": {"name": name, "labels": {"first": str(name == "a")}}})
    return toy_server  # at version 5: a, b and c have 3, 4 and 5


def label(server, name, **labels):
    return call(server, "PATCH", f"{TOYS}/{name}", {"metadata": {"labels": labels}}, content_type=MERGE)[1]


def forget(server):
    """More changes than the history has."""
    for number in range(HISTORY + 1):
        label(server, "c", number=str(number))


def names(listing):
    return "".join(item["metadata"]["name"] for item in listing["items"])


def test_pages_show_one_version_whatever_is_written_between_them(server):
    first = call(server, "GET", TOYS, limit="2")[1]
    assert (names(first), first["metadata"]["remainingItemCount"]) == ("ab", 1)
    label(server, "c", new="1")
    call(server, "DELETE", f"{TOYS}/c")
    call(server, "POST", TOYS, {"metadata": {"name": "d"}})
    rest = call(server, "GET", TOYS, limit="2", **{"continue": first["metadata"]["continue"]})[1]
    assert (names(rest), rest["metadata"]) == ("c", {"resourceVersion": "5"})
    assert "new" not in rest["items"][0]["metadata"]["labels"]


def test_an_exact_version_is_listed_as_it_was(server):
    call(server, "DELETE", f"{TOYS}/a")
    listed = {
        version: names(call(server, "GET", TOYS, resourceVersion=version, resourceVersionMatch="Exact")[1])
        for version in ("2", "4", "5", "6")
    }
    assert listed == {"2": "", "4": "ab", "5": "abc", "6": "bc"}
    assert names(call(server, "GET", TOYS, resourceVersion="4")[1]) == "bc", "not older than"


def test_a_version_that_is_no_longer_known_has_expired(server):
    token = call(server, "GET", TOYS, limit="1")[1]["metadata"]["continue"]
    forget(server)
    code, status = call(server, "GET", TOYS, limit="1", **{"continue": token})
    assert (code, status["reason"]) == (410, "Expired")
    rest = call(server, "GET", TOYS, limit="5", **{"continue": status["metadata"]["continue"]})[1]
    assert names(rest) == "bc"
    code, status = call(server, "GET", TOYS, resourceVersion="3", resourceVersionMatch="Exact")
    assert (code, status["message"]) == (410, "The resourceVersion for the provided list is too old.")
    stream = watch(server, TOYS, resourceVersion="3")
    (line,) = map(msgspec.json.decode, stream.news())
    assert (line["type"], line["object"]["code"], line["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert stream.is_ended


@pytest.mark.parametrize(
    ("query", "code", "part"),
    [
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"continue": "x"}, 400, "continue key is not valid"),
        ({"resourceVersion": "x"}, 400, "invalid resource version"),
        ({"resourceVersion": "99"}, 504, "Too large resource version: 99, current: 5"),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"watch": "1", "sendInitialEvents": "1"}, 422, "sendInitialEvents requires setting resourceVersionMatch"),
        ({"watch": "1", "resourceVersion": "x"}, 500, "resourceVersion: Invalid value"),
        ({"fieldSelector": "spec.x=1"}, 400, "field label not supported: spec.x"),
        ({"labelSelector": "a in"}, 400, ""),
    ],
    ids=str,
)
def test_a_query_that_is_invalid_is_refused(server, query, code, part):
    answer_code, status = call(server, "GET", TOYS, **query)
    assert (answer_code, status["kind"]) == (code, "Status")
    assert part in status["message"]


def test_a_watch_goes_on_behind_a_version(server):
    stream = watch(server, TOYS, resourceVersion="4")
    assert events(stream) == ["ADDED c 5"]
    label(server, "a", new="1")
    call(server, "DELETE", f"{TOYS}/b")
    assert events(stream) == ["MODIFIED a 6", "DELETED b 7"]
    assert events(stream) == []


@pytest.mark.parametrize(
    "query", [{}, {"resourceVersion": "0"}, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}]
)
def test_a_watch_without_a_version_begins_with_what_there_is(server, query):
    stream = watch(server, TOYS, allowWatchBookmarks="true", **query)
    assert events(stream) == ["ADDED a 3", "ADDED b 4", "ADDED c 5", "BOOKMARK  5"]
    label(server, "a", new="1")
    assert events(stream) == ["MODIFIED a 6"]


def test_an_object_comes_into_a_selection_and_leaves_it(server):
    stream = watch(server, TOYS, labelSelector="first=True", resourceVersion="5")
    label(server, "b", first="True")
    label(server, "b", other="1")
    label(server, "b", first="False")
    label(server, "b", other="2")
    call(server, "DELETE", f"{TOYS}/a")
    assert events(stream) == ["ADDED b 6", "MODIFIED b 7", "DELETED b 8", "DELETED a 10"]


def test_a_watch_of_one_object_sees_no_other(server):
    stream = watch(server, TOYS, fieldSelector="metadata.name=b", resourceVersion="5")
    label(server, "a", new="1")
    label(server, "b", new="1")
    assert events(stream) == ["MODIFIED b 7"]


async def test_a_quiet_watch_has_bookmarks_and_ends_in_time(server, clock):
    stream = watch(server, TOYS, resourceVersion="5", allowWatchBookmarks="true", timeoutSeconds="100")
    assert events(stream) == []
    await clock.advance(stream.wakes_at - clock.monotonic())
    assert events(stream) == ["BOOKMARK  5"]
    await clock.advance(stream.wakes_at - clock.monotonic())
    assert events(stream) == []
    assert stream.is_ended


@pytest.mark.parametrize("form", ["PartialObjectMetadata", "Table"])
def test_a_bookmark_has_the_form_of_all_events(server, form):
    query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    query["sendInitialEvents"] = "true"
    accept = f"application/json;as={form};v=v1;g=meta.k8s.io"
    *_, line = server.handle(Request("watch", "GET", TOYS, query, accept=accept)).news()
    event = json.loads(line)
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", form)
    metadata = event["object"]["rows"][0]["object"]["metadata"] if form == "Table" else event["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_that_does_not_read_is_ended_when_its_place_is_forgotten(server):
    stream = watch(server, TOYS, resourceVersion="5")
    forget(server)
    label(server, "c", last="1")
    assert (events(stream), stream.is_ended) == ([], True)


@pytest.mark.parametrize("deleted", ["bricks", "balls"])
def test_a_watch_wakes_and_ends_when_its_definition_goes(server, deleted):
    changes = []
    call(server, "POST", "/api/v1/definitions", {"metadata": {"name": "bricks"}, "spec": {"plural": "bricks"}})
    call(server, "POST", "/api/v1/definitions", {"metadata": {"name": "balls"}, "spec": {"plural": "balls"}})
    bricks = "/apis/made.io/v1/namespaces/team/bricks"
    call(server, "POST", bricks, {"metadata": {"name": "red"}})
    stream = watch(server, bricks)
    stream.on_news(lambda: changes.extend(events(stream)))
    call(server, "DELETE", f"/api/v1/definitions/{deleted}")
    while server.collect():
        pass

    gone = deleted == "bricks"
    assert (changes, stream.is_ended) == (["ADDED red 8", "DELETED red 10"] if gone else [], gone)


def test_large_objects_are_forgotten_earlier(server, monkeypatch):
    monkeypatch.setattr(store, "HISTORY_BYTES", 10_000)
    for _ in range(10):
        label(server, "c", **{f"example.com/{letter}": letter * 60 for letter in "abcdefghijklmnopqrst"})
        label(server, "c", **{f"example.com/{letter}": None for letter in "abcdefghijklmnopqrst"})
    changes = server.store.collection("toys.toys.io").changes
    assert 5 < len(changes) < 12
    assert call(server, "GET", TOYS, resourceVersion="5", resourceVersionMatch="Exact")[0] == 410


def test_what_is_read_at_once_is_bounded(server):
    stream = watch(server, TOYS, resourceVersion="5")
    for number in range(MOST_LINES + 1):
        label(server, "c", number=str(number))
    assert [len(events(stream)) for _ in range(3)] == [MOST_LINES, 1, 0]
