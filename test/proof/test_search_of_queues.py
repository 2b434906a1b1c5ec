"""Every state of small queues: no sentence of the oracles is broken, and nobody waits for ever."""

import os

import pytest
from structlog.testing import capture_logs

from proof import engine
from proof.queues import job_queue_bounds, kueue_bounds
from proof.queues.job_queue_world import JobQueueWorld
from proof.queues.kueue_world import KueueWorld

SIZE = os.environ.get("PROOF", "quick")


@pytest.fixture(autouse=True)
def _quiet():
    """The queue tells its log of each of thousands of decisions."""
    with capture_logs():
        yield


@pytest.mark.parametrize("bound", job_queue_bounds.SIZES[SIZE], ids=lambda bound: bound.name)
def test_no_state_of_the_job_queue_breaks_a_sentence(bound, record_property, capsys):
    prove(JobQueueWorld(bound), record_property, capsys)


@pytest.mark.parametrize("bound", kueue_bounds.SIZES[SIZE], ids=lambda bound: bound.name)
def test_no_state_of_a_job_in_a_queue_of_kueue_breaks_a_sentence(bound, record_property, capsys):
    prove(KueueWorld(bound), record_property, capsys)


def prove(world, record_property, capsys):
    outcome = engine.search(world, most=10**7, stops_at_first=SIZE == "planted", waits_in=world.waiting)

    record_property("states", outcome.states)
    with capsys.disabled():
        print(f"\n{world.bound.name}: {outcome}")  # noqa: T201 (how much was proved is a result)
    assert not outcome.breaks, "\n\n".join(map(str, outcome.breaks))
