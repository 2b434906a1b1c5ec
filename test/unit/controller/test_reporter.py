"""From a plan to Events, metrics and the log."""

import json
import logging
from hashlib import sha256

import pytest
from structlog.testing import capture_logs

from support.embedded.controller_harness import JOBS, Counts, Recorder
from support.embedded.pod_events import everything_runs, fails, succeeds, suspend, time_passes
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from tf_operator.controller import job_log
from tf_operator.controller.reporter import PlanReporter
from tf_operator.dialects.kubeflow.v1 import API, PROFILE
from tf_operator.job.record import (
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    ReplicaType,
    RestartRecord,
)
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.events.event_object import reference_to
from tf_operator.meta import ObjectKey
from tf_operator.planning.actions import Count, Event, Plan, Transition

TOOK = {"spec_digest": "DIGEST", "duration_seconds": 0.0, "restarts": 0, "disruptions": 0, "lost_seconds": 0}
JOB = TrainingJob(ObjectKey("ns", "j"), "u", "1", PROFILE)
SPEC_OF = {"u": {}}.__getitem__


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
    assert reporter.recorder.about == [reference_to(JOBS, JOB.key, "u")] * 2


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (Count(Transition.CREATED), ["created ns"]),
        (Count(Transition.RUNNING, seconds=3), ["running ns 3"]),
        (Count(Transition.RESTARTED, kind="PS", reason="failed", by=2), ["restarted ns PS failed"] * 2),
        (Count(Transition.RESUMED_BEHIND_CHECKPOINT), ["resumed behind ns"]),
        (Count(Transition.NODE_AVOIDED, by=2), ["avoids 2 more in ns"]),
        (Count(Transition.MEMORY_GROWN, kind="PS"), ["more memory ns PS"]),
        (Count(Transition.USED, reason="cpuSeconds", seconds=1.5), ["used ns cpuSeconds 1.5"]),
        (Count(Transition.LOST, reason="hung", seconds=7), ["lost ns hung 7"]),
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
        (
            Count(Transition.FAILED, cause=FailureCause.DEADLINE_EXCEEDED, seconds=1),
            ["failed ns TFJobDeadlineExceeded", "failed after 1", "deadline ns"],
        ),
    ],
    ids=lambda value: value.transition.name if isinstance(value, Count) else "",
)
def test_each_transition_has_its_measures(reporter, count, words):
    assert counted(reporter, count) == words


LIVES = {
    "succeeds": (
        (everything_runs, time_passes(60), succeeds("worker-0")),
        [
            {"from": "", "to": "Created", "reason": "TFJobCreated"},
            {"from": "Created", "to": "Running", "reason": "TFJobRunning"},
            {"from": "Running", "to": "Succeeded", "reason": "TFJobSucceeded", **TOOK, "duration_seconds": 60.0},
        ],
    ),
    "is restarted, and fails": (
        (everything_runs, fails("worker-0", 137), time_passes(10), everything_runs, fails("worker-0", 2)),
        [
            {"from": "", "to": "Created", "reason": "TFJobCreated"},
            {"from": "Created", "to": "Running", "reason": "TFJobRunning"},
            {"from": "Running", "to": "Restarting", "reason": "TFJobRestarting", "replica": "Worker-0"},
            {"from": "Restarting", "to": "Running", "reason": "TFJobRunning"},
            {
                "from": "Running",
                "to": "Failed",
                "reason": "TFJobFailed",
                "replica": "Worker-0",
                **TOOK,
                "restarts": 1,
                "duration_seconds": 10.0,
                "lost_seconds": 10,
                "first_failure": {"pod": "job-worker-0", "exit_code": 137, "reason": "Error"},
            },
        ],
    ),
    "is suspended": (
        (everything_runs, suspend),
        [
            {"from": "", "to": "Created", "reason": "TFJobCreated"},
            {"from": "Created", "to": "Running", "reason": "TFJobRunning"},
            {"from": "Running", "to": "Suspended", "reason": "TFJobSuspended"},
        ],
    ),
}


@pytest.mark.parametrize(("moves", "expected"), LIVES.values(), ids=LIVES)
def test_the_log_has_the_life_of_a_job(moves, expected, caplog):
    caplog.set_level(logging.INFO)
    with capture_logs() as records:
        simulator = simulate(tfjob().workers(1, restart="ExitCode"))
        for move in ((lambda _: None), *moves):
            move(simulator)
            simulator.settle()

    lines = [record for record in records if record["event"] in {"job condition changed", "job ended"}]
    fields = [{name: record[name] for name in record if name not in {"event", "log_level"}} for record in lines]
    digest = job_log.digest(simulator.body["spec"])
    told = [entry | ({"spec_digest": digest} if "spec_digest" in entry else {}) for entry in expected]
    assert fields == told
    assert [record["to"] for record in lines if record["event"] == "job ended"] == [
        entry["to"] for entry in expected if "restarts" in entry
    ]


def test_many_replicas_are_named_up_to_a_bound_and_a_queued_job_says_why(caplog):
    caplog.set_level(logging.INFO)
    lost = tuple(RestartRecord(ReplicaType.WORKER, index, "uid", replaced=True) for index in range(10))
    restarting = JobRecord(JobPhase.RESTARTING, restart_records=lost)
    queued = JobReport(JOB, JobRecord(JobPhase.QUEUED), MORNING, hold="NoRoom")
    refused = JobReport(JOB, JobRecord(JobPhase.FAILED, failure=FailureCause.INVALID_SPEC), MORNING)

    with capture_logs() as records:
        for report in (JobReport(JOB, restarting, MORNING), queued, refused):
            job_log.write(API, report, SPEC_OF)

    assert records[0]["replica"].endswith("Worker-7, and 2 more")
    assert records[1]["reason"] == "NoRoom"
    assert (records[2]["reason"], records[2]["duration_seconds"]) == ("TFJobInvalidSpec", None)


def test_of_a_message_so_much_is_logged_as_the_names_of_the_job_leave_room_for():
    def longest(length):
        key = ObjectKey("n" * length, "j" * length)
        ends = (job_log.ended(key, failed(message="x" * size), {}, {}) for size in range(200, 800))
        return 2 * length + max(len(json.dumps(end)) for end in ends)

    def failed(**fields):
        return JobRecord(JobPhase.FAILED, first_failure=FirstFailure("p", **fields), usage={"cpuSeconds": 1})

    assert 640 < longest(1) == longest(63) <= 680
    cut = job_log.ended(JOB.key, failed(message="x" * 9999), {}, {})["first_failure"]["message"]
    assert len(cut) > 300
    made_up = failed().changed(usage={f"{letter * 200}/n": 1 for letter in "abcd"})
    assert "usage" in job_log.ended(JOB.key, failed(), {}, {})
    assert "usage" not in job_log.ended(JOB.key, made_up, {}, {})


@pytest.mark.parametrize(("more", "is_kept"), [(0, True), (1, False)])
def test_the_record_of_an_end_is_used_to_the_last_byte(more, is_kept):
    def left(record, **fields):
        most = 1000 - 340 - len(JOB.key.namespace) - len(JOB.key.name)
        return most - len(json.dumps(job_log.ended(JOB.key, record, fields, {})))

    counted = JobRecord(usage={"cpuSeconds": 1})
    filler = "x" * (left(counted, reason="") + more)
    assert ("usage" in job_log.ended(JOB.key, counted, {"reason": filler}, {})) is is_kept

    message = "x" * (left(JobRecord(first_failure=FirstFailure("p"))) - len('""') + more)
    told = JobRecord(first_failure=FirstFailure("p", message=message))
    assert (job_log.ended(JOB.key, told, {}, {})["first_failure"]["message"] == message) is is_kept


def test_below_its_level_nothing_is_logged(caplog):
    caplog.set_level(logging.WARNING)
    with capture_logs() as records:
        job_log.write(API, JobReport(JOB, JobRecord(JobPhase.CREATED), MORNING), SPEC_OF)

    assert records == []


def test_the_digest_of_a_spec_depends_on_no_order_of_fields():
    spec = {"b": [1, {"d": "\N{SNOWMAN}", "c": None}], "a": True}

    assert job_log.digest(spec) == job_log.digest(dict(reversed(spec.items())))
    assert job_log.digest(spec) == sha256('{"a":true,"b":[1,{"c":null,"d":"\N{SNOWMAN}"}]}'.encode()).hexdigest()[:16]
    assert job_log.digest(spec) != job_log.digest({})


def test_without_records_of_ended_jobs_an_end_is_another_condition(caplog):
    caplog.set_level(logging.INFO)
    with capture_logs() as records:
        reporter = PlanReporter(JOBS, Recorder(), Counts(), API)
        reporter.report(JOB, Plan(report=JobReport(JOB, JobRecord(JobPhase.SUCCEEDED), MORNING)))

    assert [(entry["event"], entry["to"]) for entry in records] == [("job condition changed", "Succeeded")]


def test_a_kubelet_that_reports_a_billion_restarts_does_not_block_the_process(reporter):
    assert len(counted(reporter, Count(Transition.RESTARTED, kind="PS", reason="in-place", by=10**9))) == 1000
