"""What is collected before a status is written."""

import pytest

from tf_operator.controller.status_batches import StatusBatches


async def test_progress_is_collected_from_the_first_and_not_from_every_reconcile(clock):
    batches = StatusBatches(clock, {"u"}.__contains__)

    assert batches.time_left("u", 0.5) == 0.5
    await clock.advance(0.3)
    assert batches.time_left("u", 0.5) == pytest.approx(0.2)
    batches.note_written("u")
    assert batches.time_left("u", 0.5) == 0.5
