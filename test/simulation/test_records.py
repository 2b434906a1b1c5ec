"""Any record of a job: what is written is read again, by the status of a TFJob and by the codec of later APIs.

The records of any number of restarted replicas fit into the status, too.
"""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from support.jobs.builders import merge
from tf_operator.dialects import merge_patch
from tf_operator.dialects import record as codec
from tf_operator.dialects.kubeflow import status as dialect
from tf_operator.dialects.kubeflow.v1 import PROFILE
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import (
    ENDS,
    MOST_RESOURCES,
    ElasticRecord,
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    LossCause,
    PendingKind,
    PendingRecord,
    QueueRecord,
    ReplicaRecord,
    ReplicaType,
    Restarting,
    RestartRecord,
    UnfitCause,
    UnfitRecord,
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
SECONDS = st.integers(0, 2**53)
SETS = st.frozensets(st.integers(0, 9)).map(Indexes)
KINDS = st.sampled_from(list(ReplicaType))
TYPES = st.sets(KINDS).map(lambda kinds: tuple(kind for kind in ReplicaType if kind in kinds))
NUMBERS = st.none() | st.integers(1, 2**28)
UNFIT = st.none() | st.builds(UnfitRecord, st.sampled_from(UnfitCause), st.none() | KINDS, TEXTS)
QUEUED = st.builds(QueueRecord, TIMES, TIMES, st.none() | COUNTS, st.none() | COUNTS, TEXTS, TEXTS, UNFIT)
FAILURES = st.none() | st.builds(FirstFailure, st.just("pod"), TEXTS, st.none() | COUNTS, TEXTS, TEXTS, TIMES)
MOST_BYTES = 1_450_000
"""Of the 1.5 MiB that etcd takes of one object."""
RESTARTS = st.builds(
    RestartRecord,
    KINDS,
    st.integers(0, 9999),
    st.uuids().map(str) | st.text("ab:,~%", max_size=5),
    in_place=st.integers(0, 10**6),
    replaced=st.booleans(),
    attempts=st.integers(0, 10**4),
    time=st.none() | st.integers(1, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
RECORDS = st.builds(
    JobRecord,
    phase=st.sampled_from([phase for phase in JobPhase if phase is not JobPhase.NEW]),
    failure=st.sampled_from(FailureCause),
    start_time=TIMES,
    completion_time=KNOWN_TIMES,
    all_running_time=TIMES,
    resumed_time=TIMES,
    observed_generation=COUNTS,
    replicas=st.dictionaries(
        KINDS, st.builds(ReplicaRecord, COUNTS, completed=SETS, started=SETS, run_seconds=SECONDS)
    ),
    disruptions=COUNTS,
    lost_seconds=SECONDS,
    usage=st.dictionaries(TEXTS, st.integers(1, 2**53), max_size=MOST_RESOURCES),
    restarting=st.none()
    | st.builds(Restarting, TYPES, st.booleans(), since=TIMES, cause=st.none() | st.sampled_from(LossCause)),
    restart_records=st.lists(RESTARTS, max_size=3).map(tuple),
    first_failure=FAILURES,
    pending=st.none() | st.builds(PendingRecord, st.sampled_from(PendingKind), TEXTS, TEXTS, TEXTS, TIMES),
    queue=QUEUED,
    elastic=st.builds(ElasticRecord, NUMBERS, NUMBERS, TIMES),
    dequeued_time=TIMES,
).map(
    lambda record: record.changed(
        failure=record.failure if record.phase is JobPhase.FAILED else None,
        completion_time=record.completion_time if record.phase in ENDS else None,
        resumed_time=None if record.phase is JobPhase.SUSPENDED else record.resumed_time,
        dequeued_time=None if record.phase is JobPhase.QUEUED else record.dequeued_time,
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


def stored(restart_records):
    return codec.write_restart_records(tuple(restart_records))


@pytest.mark.parametrize("count", [200, 30_000])
def test_the_records_of_all_replicas_that_a_job_can_have_fit_into_its_status(count):
    often = RestartRecord(
        ReplicaType.PS, 0, "", in_place=0xFFFF, replaced=True, attempts=0xFFF, time=datetime(2106, 2, 7, tzinfo=UTC)
    )
    kinds = [ReplicaType.PS, ReplicaType.WORKER, ReplicaType.EVALUATOR]
    places = [(kinds[number // 10_000], number % 10_000, UUID(int=2**128 - 1 - number)) for number in range(count)]
    records = [structs.replace(often, type=kind, index=index, uid=str(uid)) for kind, index, uid in places]

    assert len(json.dumps(stored(records))) < MOST_BYTES


@given(st.lists(RESTARTS, max_size=5), st.booleans())
def test_nothing_is_lost_where_there_are_too_many_to_list(records, are_many):
    in_order = sorted(records, key=lambda record: list(ReplicaType).index(record.type))
    records = in_order * 100 if are_many and records else in_order
    records.sort(key=lambda record: list(ReplicaType).index(record.type))

    spec = stored(records)
    assert ("compactRestartRecords" in spec) is (len(records) > 200)
    assert list(codec.read_restart_records(spec)) == records


@given(st.text("0129afx:,~-!", max_size=30))
@example("0:~x:0:0:ffffffffffff")
def test_any_text_can_be_read(text):
    codec.read_restart_records({"compactRestartRecords": {"Worker": text, "Foo": text}})
