"""What becomes of a key after a pass."""

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import structlog

from support.embedded.controller_harness import KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments, ReconcileResult
from tf_operator.controller.result import DONE, NOW, Result, Turn
from tf_operator.machinery import log
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.meta import ObjectKey


@dataclass
class Scripted:
    """A reconciler that does as it is told."""

    outcomes: list[Result | Exception] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def reconcile(self, key):
        self.keys.append(str(key))
        outcome = self.outcomes.pop(0) if self.outcomes else DONE
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Passes(ReconcileInstruments):
    def __init__(self):
        self.results = []
        self.bugs = 0

    def ended(self, result, seconds):
        self.results.append(result)

    def panicked(self):
        self.bugs += 1


@pytest.fixture
def harness():
    return Harness(builders.tfjob("j").workers(1))


def make(harness, *outcomes, workers=1):
    return Controller(
        harness.queue, harness.jobs, Scripted(list(outcomes)), harness.notes, harness.clock, Passes(), workers
    )


async def test_a_pass_may_ask_to_be_looked_at_again(harness):
    controller = make(harness, Result(5.0), NOW, DONE)
    await controller.process(KEY)
    assert harness.queue.delayed == 1
    await controller.process(KEY)
    await controller.process(KEY)

    results = [ReconcileResult.REQUEUE_AFTER, ReconcileResult.REQUEUE, ReconcileResult.SUCCESS]
    assert controller.instruments.results == results
    assert harness.queue.depth == 1


async def test_whoever_gave_way_waits_behind_what_came_later_until_it_is_done(harness):
    """It does so too while its caches lag behind, which it had no part in."""
    later = ObjectKey("ns", "later")
    controller = make(harness, Result(0.0, Turn.GIVES_WAY), DONE, Result(0.0, Turn.UNCHANGED), DONE, DONE)
    harness.queue.add(KEY)
    turns = []
    while harness.queue.depth:
        key = await harness.queue.get()
        turns.append(key.name)
        with harness.queue.done_after(key):
            await controller.process(key)
        if key == KEY and len(turns) < 5:
            harness.queue.add(later)

    assert turns == ["j", "later", "j", "later", "j"]


@pytest.mark.parametrize(
    ("error", "bugs", "logged"),
    [
        (refused(409, "Conflict"), 0, [("info", "reconcile failed; retrying")]),
        (NotLeading("no"), 0, []),
        (ZeroDivisionError("bug"), 1, [("error", "reconcile panicked; retrying")]),
    ],
    ids=["failed", "not leading", "a bug"],
)
async def test_a_pass_that_did_not_end_well_comes_back_after_a_growing_delay(harness, error, bugs, logged):
    controller = make(harness, error, error)
    with structlog.testing.capture_logs() as logs:
        await controller.process(KEY)
        await controller.process(KEY)

    assert controller.instruments.results == [ReconcileResult.ERROR] * 2
    assert controller.instruments.bugs == 2 * bugs
    assert harness.queue.retries(KEY) == 2
    assert [(entry["log_level"], entry["event"]) for entry in logs] == logged * 2


async def test_what_failed_before_and_ends_well_now_is_forgiven(harness):
    controller = make(harness, refused(409, "Conflict"), DONE)
    await controller.process(KEY)
    await controller.process(KEY)

    assert harness.queue.retries(KEY) == 0


async def test_every_term_begins_with_every_job_and_ends_when_drained(harness):
    controller = make(harness, workers=3)
    terms = []
    notes = SimpleNamespace(begin_term=lambda: terms.append("begins"), end_term=lambda: terms.append("ends"))
    controller = replace(controller, notes=notes)
    running = asyncio.create_task(controller.run())
    await harness.clock.idle()
    running.cancel()  # it leads no more
    await asyncio.wait([running])
    running = asyncio.create_task(controller.run())
    await harness.clock.idle()

    assert (terms, controller.reconciler.keys) == (["begins", "ends", "begins"], ["ns/j", "ns/j"])
    await controller.drain()
    await running
    assert terms[3:] == ["ends"]


async def test_what_is_logged_about_a_pass_says_which_pass_over_which_job(harness):
    controller = make(harness, ZeroDivisionError("bug"))
    with structlog.testing.capture_logs(processors=[log.merge_bound]) as logs:
        await controller.process(KEY)

    (record,) = logs
    assert (record["job_namespace"], record["job_name"]) == (KEY.namespace, KEY.name)
    assert record["reconcile_id"]


async def test_what_is_in_line_when_the_process_ends_is_left_to_the_next_leader(harness):
    """A long line must not hold up the take-over: whoever leads next looks at every job anyway."""
    controller = make(harness)
    harness.queue.add(KEY)
    draining = asyncio.create_task(controller.drain())
    await harness.clock.idle()

    await controller.run()
    await draining

    assert controller.reconciler.keys == []
