"""Several electors on one Lease, through anything that networks, clocks and schedulers do.

Safety: at most one fence is open at any moment, whatever happens, except that somebody
with the right to do so takes the Lease from its holder: the holder learns of that with its next renewal. Liveness:
once the faults have ended, somebody leads within lease duration + retry period + 3 s.

Each process has a clock of its own, a little fast or slow, and can be stopped and continued: nothing of it runs
then, replies that arrive wait, its fence is judged as it would be if it were continued in that very moment.
"""

import asyncio
import math
import os
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.fake_clock import FakeClock
from support.leases.lease_model import FINE, KEY, Fate, LeaseApi, LeaseStore, failed
from support.processes.process_clock import ProcessClock
from tf_operator.machinery.election.fence import Fence
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.election.leaderelection import ElectionConfig, LeaderElector
from tf_operator.machinery.election.lease import LeaseLock
from tf_operator.machinery.transport import errors

CONFIG = ElectionConfig()
FASTEST, SLOWEST = 1.1, 0.9
LONGEST_FLIGHT = 12.0
PROCESSES = 3
SPANS = st.sampled_from([1.0, 4.0, 9.0, 12.0, 14.0, 16.0, 19.0, 35.0])


class WatchedFence(Fence):
    """Tells when it is opened."""

    def __init__(self, clock, on_open):
        super().__init__(clock)
        self._on_open = on_open

    def open_until(self, moment):
        super().open_until(moment)
        self._on_open(self)


class Process:
    """A replica that stands for election, leads, loses, and stands again."""

    def __init__(self, number, *, store, world, rate, chance, on_open):
        self.name = f"{number}"
        self.clock = ProcessClock(world, rate)
        self.fence = WatchedFence(self.clock, on_open)
        self.api = LeaseApi(store, world, deliver=self.clock.run)
        self.heartbeat = Heartbeat(self.clock)
        self._chance = chance
        self.terms = 0
        self.task = asyncio.ensure_future(self._live())

    async def _live(self):
        with self.heartbeat.beating():
            while True:
                elector = LeaderElector(
                    LeaseLock(self.api, KEY),
                    identity=self.name,
                    clock=self.clock,
                    fence=self.fence,
                    heartbeat=self.heartbeat,
                    config=CONFIG,
                    chance=self._chance,
                )
                await elector.serve(self._count)

    def _count(self):
        self.terms += 1

    def kill(self):
        """SIGKILL: nothing of it ever runs again. What it has sent is still on its way."""
        self.clock.is_stopped = True
        self.fence.close()


class Election(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed):
        self.loop = asyncio.new_event_loop()
        self.random = random.Random(seed)
        self.world = FakeClock()
        self.store = LeaseStore()
        self.trouble = 0.0
        self.slowness = 0.0
        self.born = 0
        self.is_stealing = False
        self.processes = []
        self.graveyard = []
        for _ in range(PROCESSES):
            self.start()
        self.run(20)

    def run(self, seconds):
        async def advance():
            await self.world.advance(seconds)

        self.loop.run_until_complete(advance())

    def start(self):
        def start():
            self.born += 1
            rate, chance = self.random.choice([SLOWEST, 1.0, FASTEST]), self.random.random
            process = Process(
                self.born, store=self.store, world=self.world, rate=rate, chance=chance, on_open=self.check_alone
            )
            process.api.usual = self.fate
            self.processes.append(process)

        self.in_the_loop(start)

    def check_alone(self, opened):
        """Called in the moment in which a fence opens: since it closes by itself, this sees every overlap."""
        if opened.is_open:
            leading = [process.name for process in self.processes if process.fence.is_open]
            assert len(leading) == 1, f"several lead: {leading}"

    def fate(self):
        """What becomes of the next call, by the weather."""
        delay = self.random.random() ** 3 * self.slowness
        after = self.random.random() ** 3 * self.slowness
        if self.random.random() >= self.trouble:
            return Fate(delay=delay, after=after)
        return self.random.choice(
            [
                Fate(delay=delay, after=math.inf),
                Fate(delay=delay, after=math.inf, is_carried_out=False),
                Fate(delay=delay, after=after, error=errors.ReplyLost("lost")),
                Fate(delay=delay, after=after, error=failed()),
                Fate(delay=delay, after=after, is_carried_out=False, error=failed()),
                Fate(delay=delay, after=after, is_carried_out=False, error=errors.Unreachable("refused")),
            ]
        )

    def leader(self):
        """The process that leads; any when none does."""
        leading = [process for process in self.processes if process.fence.is_open]
        return leading[0] if leading else self.random.choice(self.processes)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 11.0, 17.0, 40.0]))
    def time_passes(self, seconds):
        self.run(seconds)

    @rule(trouble=st.sampled_from([0.0, 0.1, 0.5, 1.0]), slowness=st.sampled_from([0.0, 0.1, 3.0, LONGEST_FLIGHT]))
    def the_weather_changes(self, trouble, slowness):
        self.trouble, self.slowness = trouble, slowness

    @rule(seconds=SPANS, is_heard=st.booleans())
    def the_leader_is_cut_off_or_hears_nothing(self, seconds, is_heard):
        leader = self.leader()
        delays = [4.0, math.inf] if is_heard else [math.inf]
        leader.api.usual = lambda: Fate(is_carried_out=is_heard, after=self.random.choice(delays))
        self.run(seconds)
        leader.api.usual = self.fate

    @rule(delay=SPANS, seconds=SPANS)
    def the_leader_is_stopped_and_continued(self, delay, seconds):
        leader = self.leader()
        self.run(delay / 10)
        leader.clock.is_stopped = True
        self.run(seconds)
        self.in_the_loop(leader.clock.go_on)
        self.run(0)

    @rule(which=st.integers(0, PROCESSES - 1))
    def a_process_is_stopped_or_continued(self, which):
        clock = self.processes[which].clock
        if clock.is_stopped:
            self.in_the_loop(clock.go_on)
        else:
            clock.is_stopped = True

    @rule(seconds=SPANS)
    def the_work_of_the_leader_is_stuck(self, seconds):
        leader = self.leader()
        is_sound = self.trouble == self.slowness == 0 and not any(
            process.clock.is_stopped for process in self.processes
        )
        leader.heartbeat._cancel()
        self.run(seconds)
        if seconds > 30 and is_sound:
            assert self.store.holder != leader.name, "a leader whose work is stuck keeps its Lease"
        self.in_the_loop(leader.heartbeat._beat_on)

    @rule()
    def the_leader_is_killed_and_another_process_started(self):
        leader = self.leader()
        leader.kill()
        self.replace(leader)

    @rule(patience=st.sampled_from([0.0, 0.3, 6.0]))
    def the_leader_resigns_and_another_process_is_started(self, patience):
        leader = self.leader()
        self.in_the_loop(lambda: leader.clock.run(leader.task.cancel))
        self.run(patience)
        leader.kill()
        self.replace(leader)

    def replace(self, process):
        self.graveyard.append(process)
        self.processes.remove(process)
        self.start()

    def in_the_loop(self, callback):
        async def call():
            callback()

        self.loop.run_until_complete(call())

    @rule(years=st.integers(-5, 5), seconds=st.integers(-3600, 3600))
    def the_wall_clock_jumps(self, years, seconds):
        self.world.set_wall(self.world.now().replace(year=2026 + years))

    @rule()
    def somebody_annotates_the_lease(self):
        if self.store.body is not None:
            self.store.put(self.store.spec, annotations={"touched": str(self.world.monotonic())})

    @rule(seconds=st.sampled_from([1, 2**31 - 1]), moment=st.sampled_from(["2099-01-01T00:00:00.000000Z", 5, None]))
    def somebody_spoils_the_times_in_the_lease(self, seconds, moment):
        if self.store.body is not None:
            self.store.put(self.store.spec | {"leaseDurationSeconds": seconds, "renewTime": moment})

    @rule()
    def the_faults_end(self):
        """Everything is well: what is in flight arrives, and somebody leads, alone, and goes on leading."""
        self.trouble = self.slowness = 0.0

        for process in self.processes:
            self.in_the_loop(process.clock.go_on)
        self.run(LONGEST_FLIGHT)
        self.run((CONFIG.lease_duration + CONFIG.retry_period) / SLOWEST + 3)
        self.check_somebody_leads()
        leader = self.store.holder
        self.run(60)
        assert self.store.holder == leader, "the leader changed for no reason"
        self.check_somebody_leads()

    def check_somebody_leads(self):
        leading = [process.name for process in self.processes if process.fence.is_open]
        assert leading == [self.store.holder], f"{leading} lead, {self.store.holder} holds the Lease"

    @invariant()
    def at_most_one_may_write(self):
        assert sum(process.fence.is_open for process in self.processes) <= 1

    @invariant()
    def no_elector_has_died(self):
        for process in self.processes:
            if process.task.done() and not process.task.cancelled():
                process.task.result()

    def teardown(self):
        if not hasattr(self, "loop"):
            return

        async def end():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for process in self.processes + self.graveyard:
                process.api.usual = lambda: FINE
                process.clock.go_on()
            for task in tasks:
                task.cancel()
            await self.world.advance(30)

        self.loop.run_until_complete(end())
        self.loop.close()


TestElection = Election.TestCase
TestElection.settings = settings(
    max_examples=int(os.environ.get("HISTORIES", "15")),
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
