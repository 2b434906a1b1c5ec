"""From a plan to Events and metrics."""

import pytest

from support.controller_harness import JOBS, Counts, Recorder
from tf_operator.controller.reporter import PlanReporter
from tf_operator.dialects.kubeflow.v1 import API, PROFILE
from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import Count, Event, Plan, Transition

JOB = TrainingJob(ObjectKey("ns", "j"), "u", "1", PROFILE)


@pytest.fixture
def reporter():
    return PlanReporter(JOBS, Recorder(), Counts(), API)


def counted(reporter, *counts):
    reporter.report(JOB, Plan(counts=counts))
    return reporter.instruments.told


def test_events_are_about_the_job(reporter):
    failed = Event(EventKind.FAILED, "badly", is_warning=True, cause=FailureCause.INVALID_SPEC)
    reporter.report(JOB, Plan(events=(Event(EventKind.SUCCEEDED, "well"), failed)))

    assert reporter.recorder.events == [("Normal", "TFJobSucceeded", "well"), ("Warning", "TFJobInvalidSpec", "badly")]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (Count(Transition.CREATED), ["created ns"]),
        (Count(Transition.RUNNING, seconds=3), ["running ns 3"]),
        (Count(Transition.RESTARTED, kind="PS", why="failed", by=2), ["restarted ns PS failed"] * 2),
        (Count(Transition.SUCCEEDED, seconds=9), ["succeeded ns", "succeeded after 9"]),
        (Count(Transition.FAILED), ["failed ns TFJobFailed", "failed after 0"]),
        (Count(Transition.DELETED), ["deleted ns"]),
        (
            Count(Transition.FAILED, cause=FailureCause.BACKOFF_LIMIT_EXCEEDED, seconds=1),
            ["failed ns TFJobBackoffLimitExceeded", "failed after 1", "backoff ns"],
        ),
        (
            Count(Transition.FAILED, cause=FailureCause.STARTUP_DEADLINE_EXCEEDED, seconds=1),
            ["failed ns TFJobStartupDeadlineExceeded", "failed after 1", "deadline ns"],
        ),
    ],
    ids=lambda value: value.what.name if isinstance(value, Count) else "",
)
def test_each_transition_has_its_measures(reporter, count, words):
    assert counted(reporter, count) == words


def test_a_kubelet_that_reports_a_billion_restarts_does_not_block_the_process(reporter):
    assert len(counted(reporter, Count(Transition.RESTARTED, kind="PS", why="in-place", by=10**9))) == 1000
