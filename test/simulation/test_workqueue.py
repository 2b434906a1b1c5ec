"""The work queue against a model, under every order of events that hypothesis can think of.

The model is the definition of the queue in a few lists and sets, without a future or a timer in it. After each
rule every task has run as far as it can, and then the two must agree on everything that can be asked.
"""

import asyncio
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.fake_clock import FakeClock
from tf_operator.machinery.metrics_hooks import QueueInstruments
from tf_operator.machinery.queue.workqueue import QueueEnded, RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff

KEYS = st.sampled_from("abcde")
SECONDS = st.sampled_from([0, 1, 2, 3, 5, 8, 1000])


class Counts(QueueInstruments):
    """How often each measure was taken, and the last depth."""

    def __init__(self):
        self.of = Counter()
        self.last_depth = 0
        self.waited_seconds = 0.0
        self.worked_seconds = 0.0

    def depth(self, keys):
        self.last_depth = keys

    def added(self):
        self.of["added"] += 1

    def waited(self, seconds):
        self.of["waited"] += 1
        self.waited_seconds += seconds

    def worked(self, seconds):
        self.of["worked"] += 1
        self.worked_seconds += seconds

    def retried(self):
        self.of["retried"] += 1


class Model:
    """What a work queue is."""

    def __init__(self):
        self.now = 0
        self.line = []  # keys, in order
        self.pending = {}  # key: since when
        self.in_work = {}  # key: since when
        self.delayed = {}  # key: (due, number)
        self.failures = Counter()
        self.is_shut = False
        self.of = Counter()
        self.waited_seconds = self.worked_seconds = 0

    def add(self, key):
        if not self.is_shut and key not in self.pending:
            self.pending[key] = self.now
            self.of["added"] += 1
            if key not in self.in_work:
                self.line.append(key)

    def add_after(self, key, seconds):
        if self.is_shut:
            return
        self.of["retried"] += 1
        due = self.now + seconds
        if seconds == 0:
            self.add(key)
        elif key not in self.delayed or due < self.delayed[key][0]:
            self.delayed[key] = (due, self.of["retried"])

    def add_rate_limited(self, key):
        if not self.is_shut:
            self.add_after(key, min(8, 2 ** self.failures[key]))
            self.failures[key] += 1

    def advance(self, seconds):
        end = self.now + seconds
        for due, _, key in sorted((due, number, key) for key, (due, number) in self.delayed.items()):
            if due <= end:
                self.now = due
                del self.delayed[key]
                self.add(key)
        self.now = end

    def hand_out(self, getters):
        """As many keys as somebody waits for."""
        handed = []
        for key in self.line[:getters]:
            since = self.pending.pop(key)
            assert key not in self.in_work, "never twice at once"
            self.in_work[key] = self.now
            self.of["waited"] += 1
            self.waited_seconds += self.now - since
            handed.append(key)
        del self.line[:getters]
        return handed

    def done(self, key):
        self.worked_seconds += self.now - self.in_work.pop(key)
        self.of["worked"] += 1
        if key in self.pending:
            self.line.append(key)

    def shut_down(self):
        self.is_shut = True
        self.delayed.clear()

    @property
    def is_drained(self):
        return self.is_shut and not self.pending and not self.in_work


class QueueMachine(RuleBasedStateMachine):
    """Both, side by side."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.counts = Counts()
        self.queue = RateLimitedQueue(self.clock, ExponentialBackoff(base=1, cap=8), instruments=self.counts)
        self.model = Model()
        self.getters = []
        self.handed = []
        self.drain = None
        self.is_forced = False

    def run(self, action, *, then=lambda: None):
        """Do it inside the loop, both parts in one turn of it, and let every task run as far as it can."""

        async def turn():
            action()
            then()
            await self.clock.idle()

        self.loop.run_until_complete(turn())
        self.compare_hand_outs()

    def compare_hand_outs(self):
        expected = self.model.hand_out(len(self.getters))
        assert self.handed == expected, "in order, to somebody who waits, and none lost"
        self.handed.clear()
        ended = [task for task in self.getters if task.done()]
        self.getters = [task for task in self.getters if not task.done()]
        assert all(isinstance(task.exception(), QueueEnded) for task in ended[len(expected) :] if task.exception())
        if self.model.is_shut:
            assert not self.getters, "the end is told to all"
        else:
            assert len(ended) == len(expected), "nobody is told an end before there is one"

    async def take_one(self):
        self.handed.append(await self.queue.get())

    @rule()
    def get(self):
        self.run(lambda: self.getters.append(self.loop.create_task(self.take_one())))

    def cancel_one(self, position):
        self.getters.pop(position % len(self.getters)).cancel()

    @precondition(lambda self: self.getters)
    @rule(position=st.integers(0, 9))
    def cancel_a_getter(self, position):
        self.run(lambda: self.cancel_one(position))

    @precondition(lambda self: self.getters)
    @rule(position=st.integers(0, 9), key=KEYS, cancel_first=st.booleans())
    def cancel_a_getter_in_the_turn_of_an_add(self, position, key, cancel_first):
        self.model.add(key)
        steps = [lambda: self.queue.add(key), lambda: self.cancel_one(position)]
        first, second = reversed(steps) if cancel_first else steps
        self.run(first, then=second)

    @rule(key=KEYS)
    def add(self, key):
        self.model.add(key)
        self.run(lambda: self.queue.add(key))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=5))
    def add_several_in_one_turn(self, keys):
        for key in keys:
            self.model.add(key)
        self.run(lambda: [self.queue.add(key) for key in keys])

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key, seconds):
        self.model.add_after(key, seconds)
        self.run(lambda: self.queue.add_after(key, seconds))

    @rule(key=KEYS)
    def add_rate_limited(self, key):
        self.model.add_rate_limited(key)
        self.run(lambda: self.queue.add_rate_limited(key))

    @rule(key=KEYS)
    def forget(self, key):
        self.model.failures[key] = 0
        self.run(lambda: self.queue.forget(key))

    @precondition(lambda self: self.model.in_work)
    @rule(position=st.integers(0, 9), add_again=st.booleans())
    def done(self, position, add_again):
        key = sorted(self.model.in_work)[position % len(self.model.in_work)]
        if add_again:
            self.model.add(key)
            self.queue.add(key)
        self.model.done(key)
        self.run(lambda: self.queue.done(key))

    @rule(seconds=SECONDS)
    def advance(self, seconds):
        """One second at a time, so that the model hands out at the moment it happens."""
        for _ in range(min(seconds, 10)):
            self.model.advance(1)
            self.loop.run_until_complete(self.clock.advance(1))
            self.compare_hand_outs()

    @precondition(lambda self: len(self.model.pending) > 3)
    @rule(drains=st.booleans())
    def shut_down(self, drains):
        self.model.shut_down()
        if not drains:
            self.is_forced = self.drain is not None
            self.run(self.queue.shut_down)
        elif self.drain is None:
            self.run(self.start_drain)

    def start_drain(self):
        self.drain = self.loop.create_task(self.queue.shut_down_with_drain())

    @invariant()
    def they_agree(self):
        model, queue = self.model, self.queue
        assert queue.depth == len(model.pending) == self.counts.last_depth
        assert queue.delayed == len(model.delayed)
        assert self.clock.pending == (1 if model.delayed else 0), "one timer"
        assert self.counts.of == model.of
        assert self.counts.waited_seconds == model.waited_seconds
        assert self.counts.worked_seconds == model.worked_seconds
        ages = [model.now - since for since in model.in_work.values()]
        assert queue.unfinished_seconds == sum(ages)
        assert queue.longest_running_seconds == max(ages, default=0)
        assert queue.is_shutting_down == model.is_shut
        assert all(queue.retries(key) == model.failures[key] for key in "abcde")

    @invariant()
    def the_line_is_what_is_pending_and_not_in_work(self):
        assert [key for keys in self.queue._line._flows.values() for key in keys] == self.model.line
        assert set(self.model.line) == set(self.model.pending) - set(self.model.in_work)

    @invariant()
    def a_drain_ends_when_nothing_is_left_to_do_or_by_a_second_shut_down(self):
        if self.drain is not None:
            assert self.drain.done() == (self.model.is_drained or self.is_forced)

    def teardown(self):
        try:
            self.drain_completely()
        finally:
            self.loop.run_until_complete(self.clock.idle())
            self.loop.close()

    def drain_completely(self):
        """Whatever went before: shut down, and everything accepted is done before the drain is over."""
        self.model.shut_down()
        if self.drain is None:
            self.run(self.start_drain)
        while self.model.pending or self.model.in_work:
            for key in list(self.model.in_work):
                self.model.done(key)
                self.run(lambda key=key: self.queue.done(key))
            if self.model.line:
                self.get()
        assert self.drain.done()
        assert self.clock.pending == 0


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=30, stateful_step_count=30, derandomize=True, database=None)
