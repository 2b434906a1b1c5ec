"""What a watch tells is what happened, whatever is written, cut, resumed, forgotten or restarted meanwhile.

For every selection: the events that a watcher has read, replayed over what it began with, are the list at the version
of the last one; none comes twice, and none out of order. These are the guarantees of etcd's watches.
"""

import asyncio
import itertools
import json
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call
from tf_operator.local.apiserver.reads import watches
from tf_operator.local.apiserver.reads.watches import BOOKMARK_EVERY
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import Request
from tf_operator.machinery.transport.responses import INITIAL_EVENTS_END
from tf_operator.meta import key_of

TOYS = replace(toy_kinds.KINDS[4], fields={"spec.color": lambda body: body["spec"]["color"]})
NAMESPACES = ["team", "team-2"]  # one of which begins as the other
COLORS = ["red", "blue"]
SELECTIONS = [
    {name: value for name, value in (("namespace", namespace), ("label", label), ("color", color)) if value}
    for namespace, label, color in itertools.product(["", *NAMESPACES], ["", "red"], ["", "red"])
]
WATCHERS = st.sets(st.integers(0, 2 * len(SELECTIONS) - 1))
KEYS = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from("ab"))
HISTORY, LINES = 4, 3


def path(namespace=""):
    return f"/apis/toys.io/v1/namespaces/{namespace}/toys" if namespace else "/apis/toys.io/v1/toys"


def values(body):
    """What selections are about."""
    metadata = body["metadata"]
    return {"namespace": metadata["namespace"], "label": metadata["labels"]["is"], "color": body["spec"]["color"]}


@dataclass
class Watcher:
    """A client that keeps the objects of a selection, as an informer does."""

    selection: dict
    has_initial_events: bool
    stream: object = None
    objects: dict = field(default_factory=dict)
    version: int = 0
    is_synced: bool = False

    def path(self):
        return path(self.selection.get("namespace"))

    def query(self):
        names = {"label": ("labelSelector", "is"), "color": ("fieldSelector", "spec.color")}
        return {names[key][0]: f"{names[key][1]}={value}" for key, value in self.selection.items() if key in names}

    def on_event(self, kind, body):
        version, key = int(body["metadata"]["resourceVersion"]), key_of(body)
        if kind == "BOOKMARK":
            assert version >= self.version
            self.is_synced |= INITIAL_EVENTS_END in body["metadata"].get("annotations", {})
        else:
            assert version > self.version
            assert (key in self.objects) is (kind != "ADDED")
            self.objects[key] = body
        if kind == "DELETED":
            del self.objects[key]
        self.version = version if self.is_synced else 0


class Memory:
    """A journal that outlives the server."""

    def __init__(self):
        self.version, self.objects = 0, {}

    def load(self):
        return self.version, ((*place, json.loads(body)) for place, body in tuple(self.objects.items()))

    def write(self, version, collection, path, body):
        self.version = version
        self.objects.pop((collection, path), None)
        self.objects |= {(collection, path): json.dumps(body)} if body else {}


class Watches(RuleBasedStateMachine):
    """One server, those who write, and those who watch."""

    def __init__(self):
        super().__init__()
        self.clock, self.journal = FakeClock(), Memory()
        self.states = {1: {}}
        self.start()
        for name in NAMESPACES:
            call(self.server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.watchers = [Watcher(*each) for each in itertools.product(SELECTIONS, [False, True])]
        for watcher in self.watchers:
            self.begin(watcher)

    def start(self):
        """The server, for the first time or again."""
        kinds = [TOYS, *toy_kinds.KINDS[2:3]]
        self.server = ApiServer(self.clock, kinds=kinds, journal=self.journal, history=HISTORY)
        self.server.store.listeners.append(self.on_commit)

    def on_commit(self, commit):
        """Remember what there is at each version."""
        objects = dict(self.states[commit.version - 1])
        if commit.collection == str(TOYS.storage):
            objects.pop(commit.path, None)
            objects |= {commit.path: commit.new.body} if commit.new else {}
        self.states[commit.version] = objects

    @rule(key=KEYS, label=st.sampled_from(COLORS), color=st.sampled_from(COLORS))
    def write(self, key, label, color):
        body = {"metadata": {"name": key[1], "labels": {"is": label}}, "spec": {"color": color}}
        if call(self.server, "POST", path(key[0]), body)[0] == 409:
            call(self.server, "PATCH", f"{path(key[0])}/{key[1]}", body, content_type="application/merge-patch+json")

    @rule(key=KEYS)
    def delete(self, key):
        call(self.server, "DELETE", f"{path(key[0])}/{key[1]}")

    def begin(self, watcher):
        """From a list on, or with what there is as events."""
        watcher.objects, watcher.version, watcher.is_synced = {}, 0, not watcher.has_initial_events
        if watcher.is_synced:
            listed = call(self.server, "GET", watcher.path(), **watcher.query())[1]
            watcher.objects = {key_of(body): body for body in listed["items"]}
            watcher.version = int(listed["metadata"]["resourceVersion"])
        self.resume(watcher)

    def resume(self, watcher):
        since = {"resourceVersion": str(watcher.version)}
        if not watcher.is_synced:
            watcher.objects = {}
            since = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        query = {"watch": "true", "allowWatchBookmarks": "true", **watcher.query(), **since}
        watcher.stream = self.server.handle(Request("", "GET", watcher.path(), query))

    @rule(lazy=WATCHERS, cut=WATCHERS)
    def read(self, lazy, cut):
        """All but some read a few lines; then some are cut, and go on behind what they have read."""
        for number, watcher in enumerate(self.watchers):
            if number not in lazy:
                self.take(watcher, [json.loads(line) for line in watcher.stream.news()])
            if number in cut or watcher.stream.is_ended:
                watcher.stream.close()
                self.resume(watcher)

    def take(self, watcher, events):
        if events and events[-1]["type"] == "ERROR":
            assert [event["object"]["code"] for event in events] == [410]
            self.begin(watcher)
            return
        for event in events:
            watcher.on_event(event["type"], event["object"])
        if watcher.is_synced:
            self.compare(watcher)

    def compare(self, watcher):
        chosen = watcher.selection.items()
        expected = [body for body in self.states[watcher.version].values() if chosen <= values(body).items()]
        assert watcher.objects == {key_of(body): body for body in expected}
        exact = {"resourceVersion": str(watcher.version), "resourceVersionMatch": "Exact"}
        code, listed = call(self.server, "GET", watcher.path(), **watcher.query(), **exact)
        assert code == 410 or listed["items"] == sorted(expected, key=lambda body: str(key_of(body)))

    @rule()
    def restart(self):
        self.start()
        for watcher in self.watchers:
            self.resume(watcher)

    @rule()
    def wait(self):
        """Until there are bookmarks."""
        asyncio.run(self.clock.advance(BOOKMARK_EVERY))


def test_the_events_of_a_watch_are_the_list_at_the_version_of_the_last_one(monkeypatch):
    monkeypatch.setattr(watches, "MOST_LINES", LINES)
    run_state_machine_as_test(Watches, settings=settings(max_examples=40, stateful_step_count=40))
