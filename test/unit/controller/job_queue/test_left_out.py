"""Which jobs the queue plans without, and until when."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.controller.job_queue.unrecorded import Unrecorded
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.responses import ObjectMeta


def job(uid):
    return ObjectMeta("ns", uid, uid=uid, resource_version="1")


def panics(clock):
    jobs = SetAside(clock, QueueDecisions())
    return jobs, lambda uid: jobs.add(job(uid), ZeroDivisionError()), 60


def refusals(clock):
    jobs = Unrecorded(clock)

    def add(uid):
        for _ in range(5):
            jobs.add(job(uid), errors.TooLarge(413, errors.Status()))

    return jobs, add, 60


@pytest.mark.parametrize("kind", [panics, refusals])
async def test_the_next_plan_is_for_the_job_that_was_left_out_first(kind):
    clock = FakeClock()
    jobs, add, seconds = kind(clock)
    began = clock.monotonic()
    assert jobs.next_retry is None
    add("first")
    await clock.advance(10)
    add("second")
    assert jobs.next_retry == began + seconds

    await clock.advance(seconds - 10)
    jobs.keep({"first", "second"})
    assert jobs.next_retry == began + seconds + 10
    jobs.keep(set())
    assert jobs.next_retry is None


async def test_a_decision_that_is_recorded_begins_the_attempts_again():
    clock = FakeClock()
    jobs, add, seconds = refusals(clock)
    add("j")
    assert jobs.uids == {"j"}
    await clock.advance(seconds)
    assert (jobs.uids, jobs.next_retry) == (set(), None)

    jobs.remove("j")
    jobs.add(job("j"), errors.TooLarge(413, errors.Status()))
    assert (jobs.uids, jobs.next_retry) == (set(), None)


async def test_a_job_is_set_aside_for_as_long_as_it_exists_and_a_minute():
    clock = FakeClock()
    jobs, add, seconds = panics(clock)
    add("here")
    add("gone")
    jobs.keep({"here"})
    assert (jobs.has(job("here")), jobs.has(job("gone")), len(jobs)) == (True, False, 1)

    await clock.advance(seconds)
    jobs.keep({"here"})
    assert (jobs.has(job("here")), len(jobs)) == (False, 0)
