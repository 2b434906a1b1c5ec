"""The order in which the process starts and ends, whatever happens in between."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from support.fake_clock import FakeClock
from tf_operator.app.lifecycle import LAST_EVENTS, Lifecycle, NoElection
from tf_operator.machinery import log
from tf_operator.machinery.election.leaderelection import LossReason

DRAIN = ["drains", "has drained"]
POST = f"posts for {LAST_EVENTS:g} s"


class Part:
    """A part of the process, which records what it does. Its gate holds up one of its steps, its end ends it."""

    def __init__(self, diary):
        self.diary = diary
        self.gate = asyncio.Event()
        self.gate.set()
        self.end = asyncio.get_running_loop().create_future()


class Controller(Part):
    async def run(self):
        self.named = log.bound_fields().get("controller")
        self.diary.append("works")
        try:
            await asyncio.shield(self.end)
        except asyncio.CancelledError:
            self.diary.append("stops working")
            raise

    async def drain(self):
        self.diary.append("drains")
        await self.gate.wait()
        self.diary.append("has drained")


class Informers(Part):
    def __init__(self, diary):
        super().__init__(diary)
        self.synced = asyncio.Event()
        self.synced.set()
        self.wait_synced = self.synced.wait

    async def run(self):
        self.diary.append("watches")
        try:
            await self.end
        finally:
            self.diary.append("stops watching")

    async def refresh(self):
        self.diary.append("refreshes")
        await self.gate.wait()


class Recorder(Part):
    async def run(self):
        await self.end

    async def drain(self, within):
        self.diary.append(f"posts for {within:g} s")


class Elections(Part):
    @asynccontextmanager
    async def term(self):
        try:
            await self.gate.wait()
            self.end = asyncio.get_running_loop().create_future()
            self.diary.append("leads")
            yield self
        finally:
            self.diary.append("resigns")

    async def wait_over(self):
        return await asyncio.shield(self.end)


class Life:
    """A lifecycle and all its parts."""

    def __init__(self, *, election=None, **more):
        self.clock, self.diary, self.stop = FakeClock(), [], asyncio.Event()
        self.controller, self.informers = Controller(self.diary), Informers(self.diary)
        self.elections = election or Elections(self.diary)
        self.lifecycle = Lifecycle(
            more.pop("controllers", None) or {"tfjob-controller": self.controller},
            informers=self.informers,
            recorder=Recorder(self.diary),
            election=self.elections,
            clock=self.clock,
            stop=self.stop,
            drain_timeout=8.0,
            **more,
        )
        self.task = None

    async def begin(self):
        self.task = asyncio.ensure_future(self.lifecycle.run())
        await self.clock.idle()

    async def signal(self):
        self.stop.set()
        await self.clock.idle()

    async def open(self, gate):
        gate.set()
        await self.clock.idle()

    async def lose_term(self):
        self.elections.end.set_result(LossReason.DEADLINE)
        await self.clock.idle()

    @property
    def failure(self):
        """The one failure that the process ended with, out of its groups."""
        failure = self.task.exception()
        while isinstance(failure, ExceptionGroup):
            (failure,) = failure.exceptions
        return failure


@pytest.fixture
async def life():
    life = Life()
    yield life
    life.task.cancel()
    await asyncio.gather(life.task, return_exceptions=True)


async def test_work_drains_events_are_posted_and_only_then_the_lease_is_released(life):
    await life.begin()
    await life.signal()

    assert life.failure is None
    started = ["watches", "leads", "refreshes", "works"]
    assert life.diary == [*started, *DRAIN, POST, "stops working", "resigns", "stops watching"]


async def test_controllers_begin_and_drain_together_and_each_names_itself_in_its_records():
    diary = []
    both = {name: Controller(diary) for name in ("one", "two")}
    for controller in both.values():
        controller.gate.clear()
    life = Life(controllers=both)
    await life.begin()
    await life.signal()
    await life.open(both["one"].gate)
    assert not life.task.done(), "the other one has not drained"

    await life.open(both["two"].gate)
    assert life.task.done()
    assert [both[name].named for name in both] == ["one", "two"]


async def test_no_process_stands_for_election_before_its_caches_have_synced(life):
    life.informers.synced.clear()
    await life.begin()
    assert life.diary == ["watches"]

    await life.open(life.informers.synced)
    assert life.diary[1:] == ["leads", "refreshes", "works"]


async def test_work_that_does_not_drain_in_time_is_left_to_the_next_leader(life):
    life.controller.gate.clear()
    await life.begin()
    await life.signal()
    assert not life.task.done()
    await life.clock.advance(8)

    assert life.failure is None
    assert life.diary[-4:] == [POST, "stops working", "resigns", "stops watching"]


async def test_a_standby_that_is_stopped_has_nothing_to_drain(life):
    life.elections.gate.clear()
    await life.begin()
    await life.signal()

    assert life.failure is None
    assert life.diary == ["watches", "resigns", "stops watching"]


async def test_a_lost_term_ends_the_work_without_draining_and_the_next_one_begins_with_fresh_caches(life):
    await life.begin()
    life.elections.gate.clear()
    await life.lose_term()
    assert life.diary[3:] == ["works", "stops working", "resigns"]

    await life.open(life.elections.gate)
    assert life.diary[6:] == ["leads", "refreshes", "works"]


async def test_a_term_that_is_lost_during_a_refresh_is_over(life):
    life.informers.gate.clear()
    await life.begin()
    await life.lose_term()
    assert life.diary[1:] == ["leads", "refreshes", "resigns", "leads", "refreshes"]

    await life.open(life.informers.gate)
    assert life.diary[6:] == ["works"]


async def test_a_controller_that_fails_ends_the_process_and_releases_the_lease_without_draining(life):
    await life.begin()
    life.controller.end.set_exception(ZeroDivisionError("a bug"))
    await life.clock.idle()

    assert isinstance(life.failure, ZeroDivisionError)
    assert life.diary[4:] == ["resigns", "stops watching"]


async def test_a_part_that_ends_without_being_asked_is_a_failure(life):
    await life.begin()
    life.controller.end.set_result(None)
    await life.clock.idle()

    assert str(life.failure) == "the controller tfjob-controller ended unexpectedly"


async def test_a_controller_may_end_once_it_was_asked_to_drain(life):
    life.controller.gate.clear()
    await life.begin()
    await life.signal()
    life.controller.end.set_result(None)
    await life.clock.idle()
    await life.open(life.controller.gate)

    assert life.failure is None


async def test_without_an_election_the_work_begins_at_once_and_ends_in_the_same_order():
    life = Life(election=NoElection())
    await life.begin()
    await life.signal()

    assert life.failure is None
    assert life.diary[1:5] == ["refreshes", "works", *DRAIN]


async def test_a_process_waits_after_its_caches_have_synced_until_no_other_controller_works():
    calls, is_clear = [], asyncio.Event()

    async def wait_until_clear():
        calls.append(life.informers.synced.is_set())
        await is_clear.wait()

    life = Life(wait_until_clear=wait_until_clear)
    life.informers.synced.clear()
    await life.begin()
    assert calls == []

    await life.open(life.informers.synced)
    assert (calls, life.diary) == ([True], ["watches"])

    await life.open(is_clear)
    assert "works" in life.diary
    await life.signal()
