"""The informer against a model of an apiserver, under every order of troubles that hypothesis can think of.

Whatever has happened: once nothing more goes wrong, the store is what the apiserver has; and all along, what the
handlers were told is a history that can be: for each UID an addition, updates that join up, a deletion.
client-go: TestHammerController, and TestDataConsistencyChecker at every point of rest.
"""

import asyncio
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.fake_clock import FakeClock
from support.model_apiserver import ModelApiserver
from support.sample_objects import READ_THING, THINGS, HistoryKeeper, ReflectorCounts
from support.scripted_transport import bookmark, client_of, failure, line
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.resource_version import parse
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE, Scope

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


class InformerMachine(RuleBasedStateMachine):
    """An informer, and the model that it mirrors."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.server = ModelApiserver(self.clock)
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
            client=client_of(self.server, self.clock),
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
        self.server.write(namespace, name, size=size)

    @rule(namespace=NAMESPACES, name=NAMES, sizes=st.lists(SIZES, min_size=2, max_size=4))
    def write_several_times(self, namespace, name, sizes):
        for size in sizes:
            self.server.write(namespace, name, size=size)

    @precondition(lambda self: self.server.objects)
    @rule(position=st.integers(0, 5), comes_again=st.booleans())
    def delete(self, position, comes_again):
        keys = sorted(self.server.objects)
        key = keys[position % len(keys)]
        self.server.delete(key.namespace, key.name)
        if comes_again:
            self.server.write(key.namespace, key.name, size=1)

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

    @precondition(lambda self: self.server.history)
    @rule(back=st.integers(0, 8), times=st.integers(1, 2))
    def repeat(self, back, times):
        """An event that was sent already: the last one again, or an old one."""
        self.run()
        _, kind, body = self.server.history[max(0, len(self.server.history) - 1 - back)]
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

    @precondition(lambda self: self.server.history)
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
        expected = {
            key: body["metadata"] | {"size": body["size"]}
            for key, body in self.server.objects.items()
            if body["size"] != "large" and self.namespaces & {"", key.namespace}
        }
        found = {
            item.metadata.key: {
                "name": item.metadata.name,
                "namespace": item.metadata.namespace,
                "uid": item.metadata.uid,
                "resourceVersion": item.metadata.resource_version,
                "size": item.size,
            }
            for item in self.informer.store
        }
        assert found == expected
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
            assert self.server.watches == []
            assert not asyncio.all_tasks(self.loop)
        self.loop.close()


TestInformerMachine = InformerMachine.TestCase
TestInformerMachine.settings = settings(max_examples=20, stateful_step_count=30, derandomize=True, database=None)
