"""What the status of a TFJob remembers, whoever wrote it; and nothing of what others have written is lost."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from tf_operator.dialects import merge_patch
from tf_operator.dialects.kubeflow import status as dialect
from tf_operator.dialects.kubeflow.v1 import PROFILE
from tf_operator.job.progress import Position, ProgressClock
from tf_operator.job.record import (
    NO_RECORD,
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    ReplicaRecord,
    ReplicaType,
    RestartRecord,
)
from tf_operator.job.report import JobReport, ReplicaCounts
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import ObjectKey

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = "2026-03-01T12:00:00Z"
JOB = TrainingJob(ObjectKey("team", "job"), "u", "1", PROFILE)


def written(record, stored):
    return dialect.write(JobReport(JOB, record, NOON), stored)


def conditions(*kinds):
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": TIME} for kind in kinds]}


@pytest.mark.parametrize(
    "status", [None, 7, [], "x", {"conditions": 1, "replicaStatuses": {"Worker": 3}, "restarts": -1}]
)
def test_what_is_no_status_is_an_empty_one(status):
    assert dialect.read(status) == NO_RECORD


def test_counts_that_somebody_has_written_still_fit_into_the_status_when_they_rise():
    most = 2**31 - 1
    counts = {"attempt": most, "disruptions": most, "avoidedNodes": [{"node": "a", "failures": most}]}
    record = dialect.read(counts | {"replicaStatuses": {kind: {"restarts": most} for kind in ReplicaType}})

    assert max(record.restarts, record.disruptions, record.attempt, record.avoided_nodes[0].failures) + 1000 < most


@pytest.mark.parametrize(
    ("types", "phase"),
    [
        ((), JobPhase.NEW),
        (("Created",), JobPhase.CREATED),
        (("Created", "Running"), JobPhase.RUNNING),
        (("Restarting", "Running"), JobPhase.RESTARTING),
        (("Suspended", "Restarting"), JobPhase.SUSPENDED),
        (("Succeeded", "Suspended"), JobPhase.SUCCEEDED),
        (("Succeeded", "Failed", "Running"), JobPhase.FAILED),
        (("Admitted",), JobPhase.NEW),
    ],
    ids=str,
)
def test_the_phase_is_the_condition_that_says_most(types, phase):
    assert dialect.read(conditions(*types)).phase is phase


def test_a_job_that_was_started_is_not_new_although_its_conditions_are_lost():
    assert dialect.read({"startTime": TIME}).phase is JobPhase.CREATED


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("TFJobInvalidSpec", FailureCause.INVALID_SPEC),
        ("TFJobReplicaLost", FailureCause.REPLICA_LOST),
        ("TFJobFailed", FailureCause.PERMANENT_FAILURE),
        ("SomethingOf1.9", FailureCause.PERMANENT_FAILURE),
    ],
)
def test_the_cause_of_a_failure_is_in_its_reason(reason, cause):
    stored = {"conditions": [{"type": "Failed", "status": "True", "reason": reason}]}

    assert dialect.read(stored).failure is cause


@pytest.mark.parametrize(
    "clock",
    [
        ProgressClock(),
        ProgressClock(datetime(2026, 3, 1, 8, tzinfo=UTC), has_reported=True, is_hung=True),
        ProgressClock(has_reported=True, last_hang=Position(0, 0)),
        ProgressClock(last_hang=Position(None, 34)),
    ],
)
def test_the_clock_of_a_program_is_read_as_it_was_written(clock):
    status = written(NO_RECORD.changed(progress_clock=clock), {})

    assert dialect.read(status).progress_clock == clock
    assert status.get("hung", False) is clock.is_hung
    assert ("progressClock" in status) is (clock != ProgressClock())


@pytest.mark.parametrize("stored", ["x", {"startTime": 7, "hasReported": "yes", "lastHang": {"step": True}}], ids=str)
def test_a_clock_that_somebody_else_has_written_is_passed_over(stored):
    assert dialect.read({"progressClock": stored, "hung": "yes"}).progress_clock == ProgressClock()


THEIRS = {
    "type": "Admitted",
    "status": "Unknown",
    "observedGeneration": 3,
    "lastTransitionTime": "2026-03-01T12:00:00.123456Z",
    "message": "",
    "details": {"queue": None},
}


@pytest.mark.parametrize("theirs", [THEIRS, {"status": "True"}, {"type": 7}], ids=["rich", "nameless", "of no type"])
def test_a_condition_of_somebody_else_is_written_back_as_it_is(theirs):
    entries = written(JobRecord(JobPhase.CREATED), {"conditions": [theirs]})["conditions"]

    assert entries[0] == theirs
    assert [entry["type"] for entry in entries[1:]] == ["Created"]


def test_what_others_keep_in_a_status_stays_beside_the_counts():
    theirs = {"Worker": {"theirs": 2, "active": 5, "memory": "1Gi"}, "Theirs": {"x": 3}}
    record = JobRecord(JobPhase.RUNNING, replicas={ReplicaType.WORKER: ReplicaRecord(restarts=1)})
    report = JobReport(JOB, record, NOON, counts={ReplicaType.WORKER: ReplicaCounts(active=1)})

    status = dialect.write(report, {"theirs": 1, "replicaStatuses": theirs, "firstRunTime": TIME})
    assert (status["theirs"], "firstRunTime" in status) == (1, False)
    assert status["replicaStatuses"] == {"Worker": {"active": 1, "restarts": 1, "theirs": 2}, "Theirs": {"x": 3}}


def test_what_was_counted_stays_where_nothing_is_counted():
    record = JobRecord(JobPhase.RUNNING, replicas={ReplicaType.WORKER: ReplicaRecord()})
    counts = {"active": 4, "succeeded": 3, "failed": 2, "pending": 1}
    status = written(record, {"ready": "4/9", "replicaStatuses": {"Worker": counts}})

    assert (status["ready"], status["replicaStatuses"]) == ("4/9", {"Worker": counts})


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        ({"clean_up_time": NOON}, {"cleanUpTime": TIME}),
        ({"completion_time": NOON}, {"completionTime": TIME}),
    ],
    ids=["nothing", "the clean-up", "the end of an invalid job"],
)
def test_after_the_end_only_what_has_changed_is_written(changes, fields):
    """The rest may be another operator's, in its own spelling."""
    stored = conditions("Succeeded") | {"completionTime": "2026-03-01T13:00:00.5+02:00", "ready": "x"}
    ended = structs.replace(JOB, record=dialect.read(stored))

    report = JobReport(ended, ended.record.changed(**changes), NOON)
    assert dialect.write(report, stored) == stored | fields
    assert dialect.write(replace(report, message="It ended."), stored)["conditions"][-1]["message"] == "It ended."


def test_a_record_of_a_job_that_was_never_reconciled_has_no_conditions():
    assert written(NO_RECORD, {"conditions": [THEIRS]})["conditions"] == [THEIRS]


@pytest.mark.parametrize("replica", ["Worker", "worker-1", "Worker-x", "Worker-1,2", "", 5], ids=repr)
def test_a_restart_record_of_no_replica_is_passed_over(replica):
    record = dialect.read({"restartRecords": [{"replica": replica}, {"replica": "PS-0", "uid": "u"}]})

    assert record.restart_records == (RestartRecord(ReplicaType.PS, 0, "u"),)


def test_what_an_older_version_kept_beside_the_number_of_workers_is_moved_by_the_next_write():
    queue = {"queuedTime": TIME, "admittedTime": TIME, "admittedWorkers": 2, "admittedPodsDigest": "d", "node": "n"}
    elastic = {"workers": 2, "specWorkers": 3}
    stored = {"conditions": [{"type": "Running", "status": "True"}], "elastic": queue | elastic}

    record = dialect.read(stored)
    status = written(record, stored)

    assert (status["queue"], status["elastic"]) == (queue, elastic)
    assert dialect.read(status) == record
    assert merge_patch.difference(stored, status)["elastic"] == dict.fromkeys(queue)


def test_an_exit_code_of_0_is_written():
    record = JobRecord(JobPhase.RUNNING, first_failure=FirstFailure("pod", exit_code=0))

    assert written(record, {})["firstFailure"] == {"pod": "pod", "exitCode": 0}


def test_an_exit_code_that_is_no_number_is_none():
    failure = dialect.read({"firstFailure": {"pod": "p", "exitCode": "1"}}).first_failure

    assert failure == FirstFailure("p")


def test_of_a_condition_that_is_stored_twice_the_last_one_counts():
    """Otherwise one reader finds the first, another one the second, and the job is resumed for ever."""
    twice = [{"type": "Suspended", "status": status} for status in ("True", "False")]
    stored = {"conditions": [{"type": "Created", "status": "True"}, *twice, {"type": "Theirs"}, {"type": "Theirs"}]}

    record = dialect.read(stored)

    assert record.phase is JobPhase.CREATED
    assert [entry["type"] for entry in written(record, stored)["conditions"]] == [
        "Suspended",
        "Theirs",
        "Theirs",
        "Created",
    ]
