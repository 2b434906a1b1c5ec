"""The informer on the embedded API server, under every order of troubles that hypothesis can think of.

Whatever has happened: once nothing more goes wrong, the store is what the apiserver has; and all along, what the
handlers were told is a history that can be: for each UID an addition, updates that join up, a deletion.
client-go: TestHammerController, and TestDataConsistencyChecker at every point of rest.
"""

import asyncio
import itertools
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.embedded.scripted_transport import bookmark, client_of, failure, line
from support.fake_clock import FakeClock
from support.toys.sample_objects import READ_THING, THINGS, HistoryKeeper, ReflectorCounts
from tf_operator.local.apiserver.in_process import Edge, InProcess
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import path_of
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.resource_version import parse
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.requests import EVERYWHERE, Scope
from tf_operator.meta import ObjectKey, key_of

NAMES = st.sampled_from("abc")
NAMESPACES = st.sampled_from(["red", "blue"])
SIZES = st.sampled_from([1, 2, 3, "large"])
RESET = errors.ReplyLost("reset by peer")
TROUBLES = st.sampled_from(
    [
        errors.Unreachable("refused"),
        RESET,
        errors.Garbled("HTML"),
        errors.refused(401, b""),
        errors.refused(403, b""),
        errors.refused(404, b"404 page not found"),
        errors.refused(410, b""),
        errors.refused(429, b"", retry_after=1.0),
        errors.refused(500, b""),
        errors.refused(503, b""),
        errors.refused(504, b'{"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}'),
    ]
)
NOISE = st.sampled_from(
    [
        failure(410, "Expired"),
        failure(500, "InternalError", "etcdserver: no leader"),
        failure(429),
        b"<html>\n",
        b'{"type":"ADDED","object":{}}\n',
        b'{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}\n',
        line("RENAMED", {}),
        line("BOOKMARK", {"metadata": {}}),
        line("BOOKMARK", {"metadata": {"resourceVersion": "1"}}),
        b"\n",
    ]
)


class MonotonicKeeper(HistoryKeeper):
    """Also refuses a version that goes back, while the apiserver's own do not."""

    may_go_back = False

    def on_update(self, old, new):
        super().on_update(old, new)
        assert self.may_go_back or parse(new.metadata.resource_version) > parse(old.metadata.resource_version)


class Backup:
    """A moment that a server begins with."""

    def __init__(self, version, objects):
        self._moment = version, [(str(THINGS), path, stored.body) for path, stored in objects.items()]

    def load(self):
        return self._moment

    def write(self, version, collection, path, body):
        """Nobody restores it."""


class Cluster(Edge):
    """The server that the informer mirrors, and what is wrong on the way to it."""

    def __init__(self, clock):
        self._clock = clock
        self._numbers = itertools.count(1)
        self.down = None
        self.streams_lists = True
        self.expires_in_stream = True
        self.transport = InProcess(self._begin(100, {}), clock, edge=self)

    def _begin(self, version, objects):
        kinds = [Kind(THINGS, "thing", may_create_by_update=True)]
        uids = map("uid-{}".format, self._numbers)
        self.server = ApiServer(self._clock, kinds=kinds, journal=Backup(version, objects), uids=uids.__next__)
        self.things = self.server.store.collection(str(THINGS))
        return self.server

    @property
    def version(self):
        return self.server.store.version

    async def on_request(self, request):
        if self.down is not None:
            raise self.down
        if request.verb != "watch":
            return
        is_list = "sendInitialEvents" in request.query
        if is_list and not self.streams_lists:
            raise errors.refused(422, b'{"reason": "Invalid", "message": "sendInitialEvents is forbidden"}')
        if not is_list and int(request.query["resourceVersion"]) < self.things.floor and not self.expires_in_stream:
            raise errors.refused(410, b'{"reason": "Expired", "message": "too old resource version"}')

    def write(self, namespace, name, size):
        """Create an object, or replace its size."""
        key = ObjectKey(namespace, name)
        answer = self.server.handle(
            requests.update(THINGS, key, {"metadata": {"namespace": namespace, "name": name}, "size": size})
        )
        assert answer.code < 300, answer.body

    def delete(self, key):
        uid = self.things.objects[path_of(key)].body["metadata"]["uid"]
        assert self.server.handle(requests.delete(THINGS, key, uid=uid)).code == 200

    def compact(self):
        """Forget the history; watches that are open go on."""
        self.things.floor = self.version

    def inject(self, chunk, *, namespace=""):
        """Send something to every watch (of a namespace) that is no new event."""
        for watch in self.transport.watches:
            path = watch.request.path
            if not namespace or f"/namespaces/{namespace}/" in path or "/namespaces/" not in path:
                watch.inject(chunk)

    def cut(self, how):
        for watch in self.transport.watches:
            watch.cut(how)

    def restore(self, version):
        """Go back to an older moment, as etcd does that is restored from a snapshot; all watches break off."""
        self.transport.go_on_with(self._begin(version, self.things.at(version)))


class InformerMachine(RuleBasedStateMachine):
    """An informer, and the server that it mirrors."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.server = Cluster(self.clock)
        self.counts = ReflectorCounts()
        self.keeper = MonotonicKeeper()

    @initialize(
        scopes=st.sampled_from([[EVERYWHERE], [Scope("red"), Scope("blue")], [Scope("red")]]),
        seed=st.integers(0, 9),
        streams=st.booleans(),
        in_stream=st.booleans(),
    )
    def start(self, scopes, seed, streams, in_stream):
        self.namespaces = {scope.namespace for scope in scopes}
        self.server.streams_lists = streams
        self.server.expires_in_stream = in_stream
        self.informer = Informer(
            THINGS,
            client=client_of(self.server.transport, self.clock),
            clock=self.clock,
            decode=READ_THING,
            scopes=scopes,
            indexes={"size": lambda item: [str(item.size)]},
            instruments=self.counts,
            chance=random.Random(seed).random,
        )
        self.informer.add_handler(self.keeper)
        self.task = self.loop.create_task(self.informer.run())
        self.run()

    def run(self, seconds=0.0):
        self.loop.run_until_complete(self.clock.advance(seconds))

    @rule(namespace=NAMESPACES, name=NAMES, size=SIZES)
    def write(self, namespace, name, size):
        self.server.write(namespace, name, size)

    @rule(namespace=NAMESPACES, name=NAMES, sizes=st.lists(SIZES, min_size=2, max_size=4))
    def write_several_times(self, namespace, name, sizes):
        for size in sizes:
            self.server.write(namespace, name, size)

    @precondition(lambda self: self.server.things.objects)
    @rule(position=st.integers(0, 5), comes_again=st.booleans())
    def delete(self, position, comes_again):
        objects = list(self.server.things.objects.values())
        key = key_of(objects[position % len(objects)].body)
        self.server.delete(key)
        if comes_again:
            self.server.write(key.namespace, key.name, 1)

    @rule(seconds=st.sampled_from([0, 0, 1, 5, 31, 61, 85, 500]))
    def advance(self, seconds):
        self.run(seconds)

    @rule()
    def compact(self):
        self.server.compact()

    @rule(how=st.sampled_from([None, RESET]))
    def cut(self, how):
        self.server.cut(how)

    @rule(trouble=TROUBLES, how=st.sampled_from([None, RESET, "stays"]))
    def go_down(self, trouble, how):
        self.server.down = trouble
        if how != "stays":
            self.server.cut(how)

    @rule()
    def come_up(self):
        self.server.down = None

    @rule(noise=NOISE)
    def send_noise(self, noise):
        self.run()
        self.server.inject(noise)

    @precondition(lambda self: self.server.things.changes)
    @rule(back=st.integers(0, 8), times=st.integers(1, 2))
    def repeat(self, back, times):
        """An event that was sent already: the last one again, or an old one."""
        self.run()
        changes = self.server.things.changes
        change = changes[max(0, len(changes) - 1 - back)]
        kind = "DELETED" if change.new is None else "MODIFIED" if change.old else "ADDED"
        body = (change.new or change.last).body
        for _ in range(times):
            self.server.inject(line(kind, body), namespace=body["metadata"]["namespace"])

    @rule(ahead=st.sampled_from([0, 1000]))
    def lie_about_the_version(self, ahead):
        """A bookmark that is true, or far ahead of the truth: then the next true one tells."""
        self.run()
        self.server.inject(bookmark(self.server.version + ahead))

    @rule()
    def forget_how_to_stream(self):
        self.server.streams_lists = False

    @precondition(lambda self: self.server.things.changes)
    @rule(back=st.integers(1, 5))
    def restore_an_older_etcd(self, back):
        """Seen as soon as the apiserver is asked again. Versions that are given twice meanwhile nobody can tell."""
        self.server.down = None
        self.server.restore(max(100, self.server.version - back))
        self.keeper.may_go_back = True
        self.settle()
        self.keeper.may_go_back = False

    @rule()
    def settle(self):
        """Nothing more goes wrong: then the cache is right."""
        self.server.down = None
        self.run(200)
        bodies = [stored.body for stored in self.server.things.objects.values()]
        expected = {
            key_of(body): {name: body["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
            | {"size": body["size"]}
            for body in bodies
            if body["size"] != "large" and self.namespaces & {"", body["metadata"]["namespace"]}
        }
        actual = {
            item.metadata.key: {
                "name": item.metadata.name,
                "namespace": item.metadata.namespace,
                "uid": item.metadata.uid,
                "resourceVersion": item.metadata.resource_version,
                "size": item.size,
            }
            for item in self.informer.store
        }
        assert actual == expected
        assert self.informer.has_synced
        assert self.informer.idle_seconds < 90

    @invariant()
    def nobody_was_told_what_cannot_be(self):
        assert self.counts.of["handler failed"] == 0

    @invariant()
    def the_handlers_know_what_the_store_holds(self):
        store = self.informer.store
        assert self.keeper.alive == store._uids == {item.metadata.uid: item for item in store}
        for size in (1, 2, 3):
            assert set(store.by_index("size", str(size))) == {item for item in store if item.size == size}

    @invariant()
    def the_loop_lives(self):
        assert not self.task.done()

    def teardown(self):
        if hasattr(self, "task"):
            self.settle()
            self.task.cancel()
            self.loop.run_until_complete(asyncio.gather(self.task, return_exceptions=True))
            assert self.clock.pending == 0
            assert self.server.transport.watches == ()
            assert not asyncio.all_tasks(self.loop)
        self.loop.close()


TestInformerMachine = InformerMachine.TestCase
TestInformerMachine.settings = settings(max_examples=20, stateful_step_count=30, derandomize=True, database=None)
