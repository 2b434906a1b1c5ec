"""When the last report of a program is stored, and when the job is looked at again for it."""

from datetime import timedelta

import pytest

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.progress import Progress
from tf_operator.job.record import JobPhase
from tf_operator.planning.plan import make_plan
from tf_operator.planning.pods import reported_progress
from tf_operator.planning.snapshot import ReportedProgress

STORED, LATEST = Progress(1), Progress(2)
SECOND = timedelta(seconds=1)


def observed(due):
    snapshot = snapshot_of(tfjob().workers(1), reported=ReportedProgress(LATEST, due))
    return snapshot, snapshot.job.record.changed(progress=STORED)


@pytest.mark.parametrize(
    ("due", "phase", "progress"),
    [
        (MORNING, JobPhase.RUNNING, LATEST),
        (MORNING + SECOND, JobPhase.RUNNING, STORED),
        (MORNING + SECOND, JobPhase.SUCCEEDED, LATEST),
        (None, JobPhase.SUCCEEDED, STORED),
    ],
    ids=["due", "not due yet", "when the job ends", "stored already"],
)
def test_a_report_is_stored_when_it_is_due_or_the_job_ends(due, phase, progress):
    snapshot, record = observed(due)

    assert reported_progress.recorded(snapshot, record.changed(phase=phase)).progress == progress


def test_for_a_report_that_waits_the_job_is_looked_at_again():
    snapshot, record = observed(MORNING + SECOND)

    assert reported_progress.waiting(snapshot, record) == LATEST
    assert reported_progress.due(snapshot, record) == MORNING + SECOND
    assert make_plan(snapshot).requeue_after == SECOND


def test_for_a_report_that_is_stored_nothing_is_done():
    snapshot, record = observed(MORNING)
    silent, _ = observed(None)

    for seen, known in ((snapshot, record.changed(progress=LATEST)), (silent, record)):
        assert reported_progress.waiting(seen, known) is None
        assert reported_progress.due(seen, known) is None
