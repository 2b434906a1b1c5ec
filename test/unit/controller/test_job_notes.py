"""What is kept of a job between reconciles, and how it is forgotten."""

import pytest

from support.embedded.embedded_api import refused
from support.fake_clock import FakeClock
from tf_operator.controller.job_notes import JobNotes
from tf_operator.controller.status_batches import StatusBatches
from tf_operator.job.progress import Progress
from tf_operator.job.record import ReplicaType
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import Create
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.snapshot import Pod

POD = Pod("j-worker-0", "p", ReplicaType.WORKER, 0, phase="Failed")
CREATE = Create(PODS, "a", "pod a", dict)


@pytest.fixture
def notes():
    return JobNotes(FakeClock(), {"u": "Running"}.get, {}.get)


def test_nothing_is_noted_of_a_job_that_is_gone(notes):
    notes.rejections.note("gone", CREATE, refused(403, "Forbidden", "quota"))
    notes.departed_pods.note_terminating("gone", POD)
    notes.departed_pods.note_deleted("gone", POD)
    notes.status_batches.note_created("gone", "a")
    notes.status_batches.time_left("gone", 1.0)

    assert len(notes) == 0


@pytest.mark.parametrize(
    "note",
    [
        lambda notes: notes.rejections.note("u", CREATE, refused(403, "Forbidden", "quota")),
        lambda notes: notes.departed_pods.note_terminating("u", POD),
        lambda notes: notes.status_batches.note_created("u", "a"),
        lambda notes: notes.progress_reports.add("u", Progress(1)),
    ],
    ids=["a refusal", "a pod", "a batch", "a report"],
)
def test_whatever_was_noted_goes_with_the_job(notes, note):
    note(notes)
    assert len(notes) == 1

    notes.forget("u")

    assert len(notes) == 0


async def test_a_term_begins_without_what_was_noted_before(clock):
    notes = JobNotes(clock, {"u": "Running"}.get, {}.get)
    notes.rejections.note("u", CREATE, refused(403, "Forbidden", "quota"))
    notes.rejections.note_taken("u", "ns", CREATE)
    notes.departed_pods.note_deleted("u", POD)
    notes.status_batches.note_created("u", "a")
    notes.status_batches.note_progress("u")
    notes.progress_reports.add("u", Progress(1))
    await clock.advance(5)

    notes.begin_term()

    assert (notes.rejections.of("u"), notes.departed_pods.of("u")) == ({}, ())
    assert notes.rejections.note_freed(str(PODS), ObjectKey("ns", "a")) == ""
    assert (notes.status_batches.take_created("u"), notes.status_batches.time_left("u", 1.0)) == ([], 1.0)
    assert notes.progress_reports.of("u", clock.now()) is None


async def test_progress_is_collected_from_the_first_and_not_from_every_reconcile(clock):
    batches = StatusBatches(clock, {"u"}.__contains__)

    assert batches.time_left("u", 0.5) == 0.5
    await clock.advance(0.3)
    assert batches.time_left("u", 0.5) == pytest.approx(0.2)
    batches.note_written("u")
    assert batches.time_left("u", 0.5) == 0.5
