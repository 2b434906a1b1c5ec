"""A report on its way: whose it is, and that the status of its job says it."""

from datetime import UTC, datetime

import pytest

from support.embedded.controller_harness import KEY, Harness
from support.jobs.builders import tfjob
from tf_operator.controller.progress.intake import Outcome, ProgressIntake, TokenOwner
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.progress import Metric, Progress
from tf_operator.meta import ObjectKey


@pytest.fixture
def harness():
    return Harness(tfjob(KEY.name).workers(1))


@pytest.fixture
def intake(harness):
    return ProgressIntake(API, harness.jobs, harness.caches.pods.store, harness.queue, harness.notes.progress_reports)


def owner(harness):
    return TokenOwner(harness.job["metadata"]["uid"])


async def run(harness):
    await harness.settle()
    harness.set_pod(f"{KEY.name}-worker-0", phase="Running")
    harness.sync()
    await harness.settle()


async def test_a_report_is_in_the_status_of_its_job(harness, intake):
    await run(harness)
    moment = datetime(2026, 3, 1, 8, 10, tzinfo=UTC)
    report = Progress(34, 7200, 3400, (Metric("loss", "0.21"),), moment)

    assert intake.take(KEY, owner(harness), report) is Outcome.TAKEN
    await harness.clock.advance(0)
    assert harness.queue.depth == 1
    await harness.settle()

    assert harness.job["status"]["trainerStatus"] == {
        "progressPercentage": 34,
        "estimatedRemainingSeconds": 7200,
        "step": 3400,
        "metrics": [{"name": "loss", "value": "0.21"}],
        "lastUpdatedTime": "2026-03-01T08:10:00Z",
    }


async def test_the_last_report_before_the_end_is_in_the_last_status(harness, intake):
    await run(harness)
    intake.take(KEY, owner(harness), Progress(1))
    await harness.settle()
    intake.take(KEY, owner(harness), Progress(99))
    await harness.settle()
    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 1

    harness.set_pod(f"{KEY.name}-worker-0", phase="Succeeded")
    harness.sync()
    await harness.settle()

    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 99
    assert intake.take(KEY, owner(harness), Progress(100)) is Outcome.ENDED


async def test_a_report_that_waits_is_stored_with_whatever_else_changes(harness, intake):
    await run(harness)
    intake.take(KEY, owner(harness), Progress(1))
    await harness.settle()
    intake.take(KEY, owner(harness), Progress(2))
    await harness.settle()
    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 1

    harness.edit_job({"spec": {"runPolicy": {"ttlSecondsAfterFinished": 7}}})
    harness.sync()
    await harness.settle()

    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 2


def test_only_the_job_of_the_token_is_reported_about(harness, intake):
    for key, uid in ((KEY, "another"), (ObjectKey("other", KEY.name), harness.job["metadata"]["uid"])):
        assert intake.take(key, TokenOwner(uid), Progress(1)) is Outcome.NOT_THE_REPORTER

    assert not len(harness.notes.progress_reports)


def test_a_process_that_does_not_lead_takes_no_report(harness, intake):
    harness.queue.pause()

    assert intake.take(KEY, owner(harness), Progress(1)) is Outcome.NOT_LEADING
