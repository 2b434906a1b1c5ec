"""The status of a TfJob: what it says of a record, and what is believed of one that another operator has written."""

import json
from datetime import UTC, datetime

import pytest

from tf_operator.dialects.mlkube import status
from tf_operator.dialects.mlkube.v1beta1 import API
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import NO_RECORD, FailureCause, JobPhase, JobRecord, ReplicaRecord, ReplicaType
from tf_operator.job.report import JobReport

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
SPEC = {
    "replicaSpecs": [
        {"template": TEMPLATE},
        {"tfReplicaType": "WORKER", "replicas": 3, "template": TEMPLATE},
        {"tfReplicaType": "PS", "replicas": 2, "template": TEMPLATE},
    ]
}
STORED = {"kinds": "TfJob.v1beta1.mlkube.io", "conditions": None, "controlPaused": False}
CREATED = JobRecord(phase=JobPhase.CREATED)
RUNNING = JobRecord(phase=JobPhase.RUNNING, first_run_time=NOW)
SUCCEEDED = JobRecord(
    phase=JobPhase.SUCCEEDED,
    replicas={
        ReplicaType.MASTER: ReplicaRecord(completed=Indexes.of([0])),
        ReplicaType.WORKER: ReplicaRecord(completed=Indexes.of([0])),
    },
)
FAILED = JobRecord(
    phase=JobPhase.FAILED,
    failure=FailureCause.PERMANENT_FAILURE,
    replicas={ReplicaType.MASTER: ReplicaRecord(failed=Indexes.of([0]))},
)
INVALID = JobRecord(phase=JobPhase.FAILED, failure=FailureCause.INVALID_SPEC)


def job(stored=None):
    return API.read({"name": "j", "namespace": "n", "uid": "u"}, SPEC, stored or STORED)


def written(record, *, after=None, **fields):
    stored = after or STORED
    report = JobReport(job(stored), record, NOW, **{"counts": {}, **fields})
    return API.write_status(report, stored)


@pytest.mark.documents("mlkube/status")
@pytest.mark.parametrize(
    ("record", "phase", "state"),
    [
        (CREATED, "Creating", "Running"),
        (JobRecord(phase=JobPhase.RESTARTING), "Creating", "Running"),
        (RUNNING, "Running", "Running"),
        (RUNNING.changed(phase=JobPhase.RESTARTING), "Running", "Running"),
        (SUCCEEDED, "CleanUp", "Succeeded"),
        (SUCCEEDED.changed(clean_up_time=NOW), "Done", "Succeeded"),
        (FAILED, "CleanUp", "Failed"),
        (FAILED.changed(clean_up_time=NOW), "Done", "Failed"),
        (INVALID, "Failed", "Failed"),
    ],
)
def test_phase_and_state_follow_from_the_record_which_is_read_back(record, phase, state):
    stored_status = written(record)

    assert (stored_status["phase"], stored_status["state"]) == (phase, state)
    assert {name: stored_status[name] for name in STORED} == STORED
    assert status.read(stored_status) == record


@pytest.mark.documents("mlkube/counts", "v1alpha1/replica-statuses")
def test_replicas_are_counted_in_the_order_of_the_spec_and_those_without_a_pod_run():
    rows = written(SUCCEEDED)["replicaStatuses"]

    assert rows == [
        {"tf_replica_type": "MASTER", "state": "Succeeded", "ReplicasStates": {"Succeeded": 1}},
        {"tf_replica_type": "WORKER", "state": "Running", "ReplicasStates": {"Running": 2, "Succeeded": 1}},
        {"tf_replica_type": "PS", "state": "Running", "ReplicasStates": {"Running": 2}},
    ]
    assert written(FAILED)["replicaStatuses"][0]["state"] == "Failed"


@pytest.mark.parametrize(
    ("record", "fields", "reason"),
    [
        (CREATED, {"note": " worker-0 waits"}, "worker-0 waits"),
        (RUNNING, {}, ""),
        (SUCCEEDED, {"message": "it is done"}, ""),
        (FAILED, {"message": "exit code 1"}, "exit code 1"),
    ],
)
def test_the_reason_says_why_it_waits_or_failed(record, fields, reason):
    assert written(record, **fields)["reason"] == reason


def test_the_end_stays_as_it_was_told_when_the_clean_up_is_done():
    told = written(FAILED, message="exit code 1")

    after = written(FAILED.changed(clean_up_time=NOW), after=told, counts=None)

    assert after == told | {"phase": "Done", "operator": after["operator"]}
    assert written(INVALID, counts=None, message="why").get("replicaStatuses") is None
    assert written(NO_RECORD) == STORED


@pytest.mark.parametrize(
    ("stored", "phase"),
    [
        ({}, JobPhase.NEW),
        ({"phase": "Running", "state": "Running"}, JobPhase.NEW),
        ({"phase": "Creating", "state": "Succeeded"}, JobPhase.NEW),
        ({"phase": "Done", "state": "Succeeded"}, JobPhase.SUCCEEDED),
        ({"phase": "CleanUp", "state": "Succeeded"}, JobPhase.SUCCEEDED),
        ({"phase": "Done", "state": "Failed"}, JobPhase.FAILED),
        ({"phase": "Failed", "state": "Running"}, JobPhase.FAILED),
        ({"phase": "Done", "state": "Succeeded", "operator": {}}, JobPhase.NEW),
    ],
)
def test_of_an_operator_of_that_time_only_the_end_is_believed(stored, phase):
    assert status.read(stored).phase is phase
    assert API.summarize({}, b"{}", json.dumps(stored).encode()).phase == phase


@pytest.mark.parametrize(
    ("stored", "summary"),
    [
        ("{}", ("", NOW, False)),
        ("broken", ("", None, False)),
        ('{"operator": {"phase": "Created", "startTime": "2026-01-01T00:00:00Z"}}', ("Created", NOW, False)),
        ('{"operator": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}', ("Running", None, False)),
        ('{"operator": {"phase": "mine"}}', ("mine", None, False)),
        pytest.param(
            '{"operator": {"phase": "Restarting", "startTime": "2025-01-01T00:00:00Z", '
            '"restartRecords": [{"time": "2025-06-01T00:00:00Z"}, {"time": "2026-01-01T00:00:00Z"}, {"uid": "u"}]}}',
            ("Restarting", NOW, False),
            id="restarting",
        ),
        ('{"phase": "Done", "operator": {"phase": "Failed"}}', ("Failed", None, True)),
    ],
)
def test_a_summary_says_where_a_job_stands_and_since_when_it_waits(stored, summary):
    job_summary = API.summarize({"creationTimestamp": "2026-01-01T00:00:00Z"}, b"{}", stored.encode())

    assert (job_summary.phase, job_summary.waits_since, job_summary.is_finished) == summary
