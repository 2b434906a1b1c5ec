"""Any record of a job: what is written is read again, by the status of a TFJob and by the codec of later APIs."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from support.builders import merge
from tf_operator.dialects import merge_patch
from tf_operator.dialects import record as codec
from tf_operator.dialects.kubeflow import status as dialect
from tf_operator.dialects.kubeflow.v1 import PROFILE
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import (
    ENDS,
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    PendingKind,
    PendingRecord,
    ReplicaRecord,
    ReplicaType,
    Restarting,
    RestartRecord,
)
from tf_operator.job.report import JobReport, ReplicaCounts
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import ObjectKey

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOB = TrainingJob(ObjectKey("team", "job"), "u", "1", PROFILE)
KNOWN_TIMES = st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))
TIMES = st.none() | KNOWN_TIMES
TEXTS = st.text("abc", max_size=3)
COUNTS = st.integers(0, 5)
SETS = st.frozensets(st.integers(0, 9)).map(Indexes)
KINDS = st.sampled_from(list(ReplicaType))
TYPES = st.sets(KINDS).map(lambda kinds: tuple(kind for kind in ReplicaType if kind in kinds))
FAILURES = st.none() | st.builds(FirstFailure, st.just("pod"), TEXTS, st.none() | COUNTS, TEXTS, TEXTS, TIMES)
RECORDS = st.builds(
    JobRecord,
    phase=st.sampled_from([phase for phase in JobPhase if phase is not JobPhase.NEW]),
    failure=st.sampled_from(FailureCause),
    start_time=TIMES,
    completion_time=KNOWN_TIMES,
    all_running_time=TIMES,
    resumed_at=TIMES,
    observed_generation=COUNTS,
    replicas=st.dictionaries(KINDS, st.builds(ReplicaRecord, COUNTS, SETS, SETS)),
    disruptions=COUNTS,
    restarting=st.none() | st.builds(Restarting, TYPES, st.booleans()),
    restart_records=st.lists(
        st.builds(RestartRecord, KINDS, COUNTS, TEXTS, COUNTS, st.booleans(), COUNTS, TIMES), max_size=3
    ).map(tuple),
    first_failure=FAILURES,
    pending=st.none() | st.builds(PendingRecord, st.sampled_from(PendingKind), TEXTS, TEXTS, TEXTS, TIMES),
).map(
    lambda record: record.changed(
        failure=record.failure if record.phase is JobPhase.FAILED else None,
        completion_time=record.completion_time if record.phase in ENDS else None,
        resumed_at=None if record.phase is JobPhase.SUSPENDED else record.resumed_at,
    )
)


def written(record, stored):
    counts = {kind: ReplicaCounts(active=1) for kind in record.replicas}
    return dialect.write(JobReport(JOB, record, NOON, counts, message="It is so.", note=" And so."), stored)


@given(RECORDS)
def test_a_status_holds_all_of_a_record(record):
    assert dialect.read(written(record, {})) == record


@given(RECORDS)
def test_the_codec_holds_all_of_a_record(record):
    assert codec.read(codec.write(record)) == record


@given(RECORDS)
def test_a_patch_leads_from_any_status_to_the_next_and_leaves_what_others_have_written(record):
    theirs = {"theirs": {"x": 1}, "replicaStatuses": {"Other": {"y": 2}, "Worker": {"z": 3}}}
    stored = written(JobRecord(JobPhase.CREATED, pending=PendingRecord(PendingKind.REJECTED, "pod")), theirs)

    after = merge(stored, merge_patch.difference(stored, written(record, stored)))

    assert dialect.read(after) == record
    assert after["theirs"] == {"x": 1}
    assert after["replicaStatuses"]["Other"] == {"y": 2}


@given(RECORDS)
def test_a_status_that_says_the_same_needs_no_patch(record):
    stored = written(record, {})

    assert merge_patch.difference(stored, written(dialect.read(stored), stored)) == {}
