"""Any number of replicas that were restarted: their records fit into the status, and come back as they were."""

import json
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tf_operator.dialects import record as codec
from tf_operator.job.record import ReplicaType, RestartRecord

MOST_BYTES = 1_400_000
"""Of the 1.5 MiB that etcd takes of one object."""
UIDS = st.uuids().map(str) | st.text("ab:,~%", max_size=5)
RECORDS = st.builds(
    RestartRecord,
    st.sampled_from(list(ReplicaType)),
    st.integers(0, 9999),
    UIDS,
    in_place=st.integers(0, 10**6),
    replaced=st.booleans(),
    attempts=st.integers(0, 10**4),
    at=st.none() | st.integers(1, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)


def stored(restart_records):
    return codec.write_restart_records(tuple(restart_records))


@given(RECORDS, st.sampled_from([1, 200, 201, 30_000]))
@settings(max_examples=20, deadline=None)
def test_the_records_of_all_replicas_that_a_job_can_have_fit_into_its_status(record, count):
    kinds = [ReplicaType.PS, ReplicaType.WORKER, ReplicaType.EVALUATOR]
    records = [
        RestartRecord(
            kinds[number // 10_000],
            number % 10_000,
            str(UUID(int=2**128 - 1 - number)),
            record.in_place,
            replaced=record.replaced,
            attempts=record.attempts,
            at=record.at,
        )
        for number in range(count)
    ]

    assert len(json.dumps(stored(records))) < MOST_BYTES


@given(st.lists(RECORDS, max_size=5), st.booleans())
def test_nothing_is_lost_where_there_are_too_many_to_list(records, are_many):
    in_order = sorted(records, key=lambda record: list(ReplicaType).index(record.type))
    records = in_order * 100 if are_many and records else in_order
    records.sort(key=lambda record: list(ReplicaType).index(record.type))

    before = stored(records)
    assert ("compactRestartRecords" in before) is (len(records) > 200)
    assert list(codec.read_restart_records(before)) == records


@given(st.text("0129afx:,~-!", max_size=30))
@example("0:~x:0:0:ffffffffffff")
def test_any_text_can_be_read(text):
    codec.read_restart_records({"compactRestartRecords": {"Worker": text, "Foo": text}})
