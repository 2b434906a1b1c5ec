"""How the writes of large jobs are spread over time, and who waits for whom."""

import asyncio
import itertools

import pytest

from support.embedded.controller_harness import JOBS, KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import resources
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments
from tf_operator.controller.result import NOW, Result, Turn
from tf_operator.controller.writing import shares
from tf_operator.controller.writing.shares import Slots, Stop
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

MOST_AT_ONCE = SHARE = 32
LARGE = builders.tfjob("j").workers(4 * SHARE).dynamic_workers()
OTHER = ObjectKey("ns", "other")


@pytest.fixture
def harness():
    return Harness(LARGE)


@pytest.fixture
def share(harness):
    stored = harness.jobs.get(KEY)
    return harness.executor.shares.begin(harness.reconciler.observer.from_caches(stored).job)


def pods(harness):
    return len(harness.api.of(resources.PODS))


def on_create(harness, number, act):
    """Have something happen right before so many pods have been created."""
    numbers = itertools.count()

    async def creating(call):
        if call.startswith("create pods") and next(numbers) == number:
            act()
        await asyncio.sleep(0)

    harness.api.on_way = creating


async def test_as_many_writes_are_in_flight_as_have_succeeded_and_one_more_up_to_a_limit(share):
    flights = []
    running = ended = 0

    async def write():
        nonlocal running, ended
        running += 1
        flights.append((running, ended))
        await asyncio.sleep(0)
        running, ended = running - 1, ended + 1

    done = await shares.carry_out([write] * 300, share, at_first=1)

    assert (len(done.outcomes), done.stop) == (300, None)
    assert all(together <= succeeded + 1 for together, succeeded in flights)
    assert max(together for together, _ in flights) == MOST_AT_ONCE


async def test_a_slow_write_holds_up_no_other(share):
    answer, numbers = asyncio.Event(), itertools.count()
    running = set()

    async def write():
        number = next(numbers)
        running.add(number)
        await (answer.wait() if number == 40 else asyncio.sleep(0))
        running.remove(number)

    work = asyncio.ensure_future(shares.carry_out([write] * 300, share, at_first=1))
    for _ in range(1000):
        await asyncio.sleep(0)

    assert (running, next(numbers)) == ({40}, 300)
    answer.set()
    await work


async def test_after_an_error_nothing_more_is_begun_and_what_has_begun_is_finished(share):
    begun, ended = [], []

    async def write():
        begun.append(1)
        if len(begun) == 100:
            raise refused(500, "InternalError")
        await asyncio.sleep(0)
        ended.append(1)

    with pytest.raises(errors.ServerFailed):
        await shares.carry_out([write] * 1000, share, at_first=1)

    assert len(begun) < 100 + MOST_AT_ONCE
    assert len(ended) == len(begun) - 1


async def test_a_mistake_that_all_share_is_made_once(share):
    tried = []

    async def write():
        tried.append(1)
        raise refused(403, "Forbidden")

    with pytest.raises(errors.Forbidden):
        await shares.carry_out([write] * 1000, share, at_first=1)

    assert len(tried) == 1


@pytest.mark.parametrize(
    ("waiting", "order"),
    [
        ([("ns", 7), ("ns", 500), ("ns", 0)], [("ns", 0), ("ns", 7), ("ns", 500)]),
        ([("crowd", 0), ("lone", 500)], [("lone", 500), ("crowd", 0)]),
    ],
    ids=["the job that has had least", "the namespace that has the fewest"],
)
async def test_who_has_least_gets_the_next_slot(waiting, order):
    slots, turns = Slots(2), []
    for _ in range(2):
        await slots.take("crowd", 0)

    async def take(namespace, had):
        await slots.take(namespace, had)
        turns.append((namespace, had))
        slots.free(namespace)

    tasks = [asyncio.ensure_future(take(*turn)) for turn in waiting]
    await asyncio.sleep(0)
    slots.free("crowd")
    await asyncio.gather(*tasks)

    assert turns == order


async def test_a_slot_that_is_given_to_a_write_that_is_cancelled_in_this_moment_is_not_lost():
    slots = Slots(1)
    await slots.take("ns", 0)
    cancelled = asyncio.ensure_future(slots.take("ns", 0))
    await asyncio.sleep(0)
    slots.free("ns")
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()

    await asyncio.wait_for(slots.take("ns", 0), 30)


async def test_a_write_that_is_cancelled_while_it_waits_gets_no_slot():
    slots = Slots(1)
    await slots.take("ns", 0)
    cancelled = asyncio.ensure_future(slots.take("ns", 0))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()

    slots.free("ns")
    await asyncio.wait_for(slots.take("ns", 0), 30)


async def test_a_large_job_that_nobody_waits_behind_is_made_in_one_reconcile(harness):
    result = await harness.reconciler.reconcile(KEY)

    assert (pods(harness), result.turn) == (4 * SHARE, Turn.ITS_OWN)


async def test_a_large_job_gives_way_after_its_share_and_says_so_in_no_status_and_no_event(harness):
    harness.queue.add(OTHER)

    result = await harness.reconciler.reconcile(KEY)

    assert result == Result(0.0, Turn.GIVES_WAY)
    assert SHARE <= pods(harness) < SHARE + MOST_AT_ONCE
    assert not any(call.startswith("patch") for call in harness.api.calls)
    assert harness.recorder.events == []


async def test_however_many_shares_it_takes_one_event_names_the_pods(harness):
    harness.queue.add(OTHER)
    while (await harness.reconciler.reconcile(KEY)).turn is Turn.GIVES_WAY:
        harness.sync()

    assert [event[2].partition(":")[0] for event in harness.recorder.events] == [f"Created {4 * SHARE} pods"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"runPolicy": {"suspend": True}}, "metadata": {"generation": 2}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=["suspended", "deleted in the foreground"],
)
async def test_no_more_is_made_for_a_job_that_has_changed_than_is_in_flight(harness, change):
    def act():
        harness.api.put(JOBS, builders.merge(harness.job, change))
        harness.sync()

    on_create(harness, 10, act)

    assert await harness.reconciler.reconcile(KEY) == NOW
    assert pods(harness) <= 10 + MOST_AT_ONCE


async def test_no_more_is_made_for_a_job_that_is_gone_than_is_in_flight(harness):
    def act():
        harness.api.remove(JOBS, KEY)
        harness.sync()

    on_create(harness, 10, act)

    assert await harness.reconciler.reconcile(KEY) == NOW
    assert pods(harness) <= 10 + MOST_AT_ONCE


async def test_a_job_that_is_read_live_is_not_stopped_by_an_older_one_in_the_cache(harness):
    stored = harness.jobs.get(KEY)
    job = harness.reconciler.observer.from_caches(stored).job
    newer = builders.merge(harness.job, {"metadata": {"generation": job.generation + 1}})
    harness.api.put(JOBS, newer)
    harness.pending_writes.outcome_unknown(OwnerKey(KEY, job.uid), str(resources.PODS))

    assert (await harness.reconciler.reconcile(KEY)).turn is Turn.ITS_OWN
    assert pods(harness) == 4 * SHARE


async def test_all_jobs_together_make_so_many_writes_at_once(share):
    running, together = 0, []

    async def write():
        nonlocal running
        running += 1
        together.append(running)
        await asyncio.sleep(0)
        running -= 1

    await asyncio.gather(*(shares.carry_out([write] * 300, share, at_first=MOST_AT_ONCE) for _ in range(2)))

    assert max(together) == 40


@pytest.mark.parametrize(("within", "seconds"), [(None, 10), (3, 3), (60, 10)])
async def test_a_plan_is_made_again_when_it_is_old_or_another_one_is_due(share, harness, within, seconds):
    share = harness.executor.shares.begin(share.job, within)
    await harness.clock.advance(seconds - 0.1)
    assert share.stop(SHARE) is None
    await harness.clock.advance(0.1)

    assert share.stop(SHARE) is Stop.SHARE_OVER
    assert share.stop(SHARE - 1) is None, "some progress is always made"


@pytest.mark.parametrize(
    ("others", "workers", "namespace"), [(16, 150, "ns"), (400, 16, "lone")], ids=["large jobs", "a crowded namespace"]
)
async def test_a_small_job_waits_neither_for_large_ones_nor_for_another_namespace(others, workers, namespace):
    """Other jobs hold all workers and the whole rate limit; the apiserver answers each request in 20 ms."""
    harness = Harness()
    budget = TokenBucket(harness.clock, qps=500, burst=100)

    async def answering(_call):
        await budget.wait()
        await harness.clock.sleep(0.02)

    harness.api.on_way = answering
    for number in range(others):
        harness.api.put(JOBS, builders.tfjob(f"other-{number}").in_namespace("ns").workers(workers).body())
    harness.sync()
    controller = Controller(
        harness.queue,
        harness.jobs,
        harness.reconciler,
        harness.notes,
        harness.clock,
        ReconcileInstruments(),
        workers=16,
    )
    working = asyncio.ensure_future(controller.run())
    await harness.clock.advance(1)
    assert harness.queue.unfinished_seconds > 0, "all workers are busy"

    small = ObjectKey(namespace, "small")
    harness.create_job(builders.tfjob("small").workers(1), namespace=namespace)
    harness.queue.add(small)
    await harness.clock.advance(3)

    assert harness.api.find(resources.PODS, ObjectKey(namespace, "small-worker-0"))
    assert pods(harness) < others * workers / 2, "the others are not done yet"
    working.cancel()
    await asyncio.wait([working])


def test_a_share_ends_when_the_process_shuts_down(share, harness):
    """The drain would be over before the job is; the next leader does the rest."""
    harness.queue.shut_down()

    assert share.stop(SHARE) is Stop.SHARE_OVER
