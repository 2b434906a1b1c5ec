"""The order in which the process lives and ends, whatever happens in between."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from support.fake_clock import FakeClock
from tf_operator.app.lifecycle import LAST_EVENTS, Lifecycle, NoElection
from tf_operator.machinery.election.leaderelection import LossReason


class Diary(list):
    """What happened, in order."""


class Controller:
    """Works for ever; drains when it is let, or as fast as told."""

    def __init__(self, diary):
        self.diary = diary
        self.may_drain = asyncio.Event()
        self.may_drain.set()
        self.bug = asyncio.get_running_loop().create_future()

    async def run(self):
        self.diary.append("works")
        try:
            await asyncio.shield(self.bug)
        except asyncio.CancelledError:
            self.diary.append("stops working")
            raise

    async def drain(self):
        self.diary.append("drains")
        await self.may_drain.wait()
        self.diary.append("has drained")


class Informers:
    """Caches that are complete when they are told to be."""

    def __init__(self, diary):
        self.diary = diary
        self.synced = asyncio.Event()
        self.synced.set()
        self.may_refresh = asyncio.Event()
        self.may_refresh.set()
        self.bug = asyncio.get_running_loop().create_future()

    async def run(self):
        self.diary.append("watches")
        try:
            await self.bug
        finally:
            self.diary.append("stops watching")

    async def wait_synced(self):
        await self.synced.wait()

    async def refresh(self):
        self.diary.append("refreshes")
        await self.may_refresh.wait()


class Recorder:
    """Posts events."""

    def __init__(self, diary):
        self.diary = diary

    async def run(self):
        await asyncio.get_running_loop().create_future()

    async def drain(self, within):
        self.diary.append(f"posts for {within:g} s")


class Elections:
    """Terms that begin when they may, and end when the test says so."""

    def __init__(self, diary):
        self.diary = diary
        self.may_lead = asyncio.Event()
        self.may_lead.set()
        self.over = None

    @asynccontextmanager
    async def term(self):
        try:
            await self.may_lead.wait()
            self.over = asyncio.get_running_loop().create_future()
            self.diary.append("leads")
            yield self
        finally:
            self.diary.append("resigns")

    async def wait_over(self):
        return await asyncio.shield(self.over)


class Life:
    """A lifecycle and all that is in it."""

    def __init__(self, clock, *, election=None, wait_until_clear=None, controllers=None):
        self.diary = Diary()
        self.clock = clock
        self.stop = asyncio.Event()
        self.controller = Controller(self.diary)
        self.informers = Informers(self.diary)
        self.elections = election or Elections(self.diary)
        self.lifecycle = Lifecycle(
            controllers or {"tfjob-controller": self.controller},
            informers=self.informers,
            recorder=Recorder(self.diary),
            election=self.elections,
            clock=clock,
            stop=self.stop,
            drain_timeout=8.0,
            **({"wait_until_clear": wait_until_clear} if wait_until_clear else {}),
        )
        self.task = None

    async def begin(self, **others):
        self.task = asyncio.ensure_future(self.lifecycle.run(**others))
        await self.clock.idle()
        return self

    async def end(self):
        self.stop.set()
        await self.clock.idle()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def life(clock):
    life = Life(clock)
    yield life
    if life.task:
        life.task.cancel()
        await asyncio.gather(life.task, return_exceptions=True)


def only_failure_of(life):
    """The one failure that a life ended with, out of its groups."""
    failure = life.task.exception()
    while isinstance(failure, ExceptionGroup):
        (failure,) = failure.exceptions
    return failure


async def test_work_drains_events_are_posted_and_only_then_the_lease_is_released(life):
    await life.begin()
    await life.end()

    assert life.task.done()
    assert life.task.exception() is None
    assert life.diary == [
        "watches",
        "leads",
        "refreshes",
        "works",
        "drains",
        "has drained",
        f"posts for {LAST_EVENTS:g} s",
        "stops working",
        "resigns",
        "stops watching",
    ]


async def test_nobody_stands_for_election_with_caches_that_are_not_complete(life):
    life.informers.synced.clear()
    await life.begin()
    assert life.diary == ["watches"]

    life.informers.synced.set()
    await life.clock.idle()
    assert life.diary[1:] == ["leads", "refreshes", "works"]


async def test_work_that_does_not_drain_in_time_is_left_to_the_next_leader(life, clock):
    life.controller.may_drain.clear()
    await life.begin()
    await life.end()
    assert not life.task.done()
    await clock.advance(8)

    assert life.task.done()
    assert life.diary[-4:] == [f"posts for {LAST_EVENTS:g} s", "stops working", "resigns", "stops watching"]


async def test_a_standby_that_is_stopped_has_nothing_to_drain(life):
    life.elections.may_lead.clear()
    await life.begin()
    await life.end()

    assert life.task.done()
    assert life.diary == ["watches", "resigns", "stops watching"]


async def test_a_lost_term_ends_the_work_without_draining_and_the_next_one_begins_with_fresh_caches(life):
    await life.begin()
    life.elections.may_lead.clear()
    life.elections.over.set_result(LossReason.DEADLINE)
    await life.clock.idle()
    assert life.diary[3:] == ["works", "stops working", "resigns"]

    life.elections.may_lead.set()
    await life.clock.idle()
    assert life.diary[6:] == ["leads", "refreshes", "works"]


async def test_a_term_that_is_lost_while_the_caches_are_read_anew_is_over(life):
    life.informers.may_refresh.clear()
    await life.begin()
    life.elections.over.set_result(LossReason.DEADLINE)
    await life.clock.idle()
    assert life.diary[1:] == ["leads", "refreshes", "resigns", "leads", "refreshes"]

    life.informers.may_refresh.set()
    await life.clock.idle()
    assert life.diary[6:] == ["works"]


async def test_a_controller_that_dies_takes_the_process_with_it_and_releases_the_lease(life):
    await life.begin()
    life.controller.bug.set_exception(ZeroDivisionError("a bug"))
    await life.clock.idle()

    assert isinstance(only_failure_of(life), ZeroDivisionError)
    assert life.diary[-2:] == ["resigns", "stops watching"]
    assert "drains" not in life.diary


async def test_a_part_that_ends_without_being_asked_is_a_failure(life):
    await life.begin()
    life.controller.bug.set_result(None)
    await life.clock.idle()

    assert str(only_failure_of(life)) == "the controller tfjob-controller ended unexpectedly"


async def test_a_controller_may_end_by_itself_once_it_was_asked_to_drain(life):
    await life.begin()
    life.controller.may_drain.clear()
    await life.end()
    life.controller.bug.set_result(None)
    await life.clock.idle()
    life.controller.may_drain.set()
    await life.clock.idle()

    assert life.task.done()
    assert life.task.exception() is None


async def test_without_an_election_the_work_begins_at_once_and_ends_in_the_same_order(clock):
    life = await Life(clock, election=NoElection()).begin()
    await life.end()

    assert life.task.done()
    assert life.diary[1:5] == ["refreshes", "works", "drains", "has drained"]


async def test_it_does_not_stand_before_the_way_is_clear_and_looks_only_when_the_caches_are_complete(clock):
    looks, is_clear = [], asyncio.Event()

    async def wait_until_clear():
        looks.append(life.informers.synced.is_set())
        await is_clear.wait()

    life = Life(clock, wait_until_clear=wait_until_clear)
    life.informers.synced.clear()
    await life.begin()
    assert looks == []

    life.informers.synced.set()
    await clock.idle()
    assert (looks, "leads" in life.diary) == ([True], False)

    is_clear.set()
    await clock.idle()
    assert "works" in life.diary
    await life.end()
