"""Records as JSON: those of older versions are read, too."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tf_operator.dialects import compact_records, record
from tf_operator.job.record import NOT_IN_QUEUE, ReplicaType, RestartRecord

TIMES = {"queuedTime": "2026-03-01T08:00:00Z", "admittedTime": "2026-03-01T08:01:00Z"}
QUEUE = TIMES | {"admittedWorkers": 2, "admittedParameterServers": 0, "admittedPodsDigest": "d", "node": "n"}
ELASTIC = {"workers": 2, "specWorkers": 3, "resizedTime": "2026-03-01T08:02:00Z"}
PENDING = {"type": "Waiting", "object": "j-worker-0", "uid": "u"}
START = "2026-03-01T08:03:00Z"
START_TIME = datetime(2026, 3, 1, 8, 3, tzinfo=UTC)
UID = "123e4567-e89b-12d3-a456-426614174000"
OLDER = {"resumedAt": START, "admittedAt": START, "pending": PENDING | {"since": START}, "elastic": QUEUE | ELASTIC}
NEWER = {
    "phase": "Running",
    "resumedTime": START,
    "dequeuedTime": START,
    "pending": PENDING | {"startTime": START},
    "queue": QUEUE,
    "elastic": ELASTIC,
}


def test_a_record_of_an_older_version_is_read_and_written_with_the_names_of_this_one():
    """It had the times of the queue beside the number of workers, and times that ended in ``At``."""
    stored = record.read({"phase": "Running"} | OLDER)

    assert stored == record.read(NEWER)
    assert record.write(stored) == NEWER


@pytest.mark.parametrize("older", [{"queuedTime": TIMES["queuedTime"]}, {"admittedWorkers": 0}], ids=str)
def test_what_an_older_version_has_noted_after_this_one_counts(older):
    """After a rollback it leaves what it does not know: a job that it has queued again has no room any more."""
    queue = record.read_queue({"queue": QUEUE, "elastic": older})

    assert queue.admitted_time is None
    assert queue != NOT_IN_QUEUE


@pytest.mark.parametrize(
    ("time", "text"),
    [(datetime(2026, 3, 1, 8, tzinfo=UTC), "2:~u::1:69a3f200"), (None, "2:~u::1")],
    ids=["at a time", "at no time"],
)
def test_a_compact_record_has_its_time_in_seconds(time, text):
    restart = RestartRecord(ReplicaType.WORKER, 2, "u", attempts=1, time=time)
    assert compact_records.write([restart]) == {"Worker": text}
    assert list(compact_records.read(ReplicaType.WORKER, text)) == [restart]


def test_a_clock_before_1970_is_none_in_a_compact_record():
    restart = RestartRecord(ReplicaType.WORKER, 2, "u", time=datetime(1969, 1, 1, tzinfo=UTC))
    assert compact_records.write([restart]) == {"Worker": "2:~u"}


@pytest.mark.parametrize(("count", "name"), [(200, "restartRecords"), (201, "compactRestartRecords")])
def test_more_than_two_hundred_restarts_are_stored_in_the_compact_form(count, name):
    worker = RestartRecord(ReplicaType.WORKER, 0, UID, in_place=1, replaced=True, time=START_TIME)
    restarts = tuple(structs.replace(worker, index=index) for index in range(count))
    stored = record.write_restart_records(restarts)

    assert [*stored] == [name]
    assert record.read_restart_records(stored) == restarts


@pytest.mark.parametrize(
    ("uid", "text"),
    [
        (UID, "2:Ej5FZ-ibEtOkVkJmFBdAAA::1"),
        (UID.upper(), "2:~123E4567-E89B-12D3-A456-426614174000::1"),
        ("~a:b,c", "2:~~a%3Ab%2Cc::1"),
        ("", "2:~::1"),
    ],
)
def test_any_uid_comes_back_from_a_compact_record(uid, text):
    restart = RestartRecord(ReplicaType.WORKER, 2, uid, attempts=1)
    assert compact_records.write([restart]) == {"Worker": text}
    assert list(compact_records.read(ReplicaType.WORKER, text)) == [restart]


def test_what_is_malformed_in_compact_records_is_passed_over():
    """Who may write the status of a job must not stop its operator."""
    texts = ["", "x:~u", "-1:~u", "100000:~u", "3:~u:1:2:3:4:5", "4:tooshort", "5:~u::1:ffffffffffff"]

    assert list(compact_records.read(ReplicaType.WORKER, ",".join(texts))) == [
        RestartRecord(ReplicaType.WORKER, 4, ""),
        RestartRecord(ReplicaType.WORKER, 5, "u", attempts=1),
    ]


def test_of_a_node_in_a_status_nothing_is_taken_that_a_pod_could_not_have():
    """Who may write the status of a job could make all its pods invalid, or the object too large."""
    names = ["Node", "a_b", "a" * 254, "", 5, None, "a..b", "a\nb", "fine.example.com"]
    entries = [
        {"node": name, "failures": -1, "time": "soon", "avoided": "yes", "causes": [5, "x" * 500]} for name in names
    ]

    [entry] = record.read_avoided_nodes({"avoidedNodes": ["a", *entries]})

    assert (entry.node, entry.failures, entry.time, entry.is_avoided) == ("fine.example.com", 0, None, False)
    assert [len(cause) for cause in entry.causes] == [80]


def test_of_more_nodes_than_are_remembered_the_last_count_each_once():
    entries = [{"node": f"node-{number}", "failures": 1} for number in (*range(20), 19)]

    assert [entry.node for entry in record.read_avoided_nodes({"avoidedNodes": entries})] == [
        f"node-{number}" for number in range(4, 20)
    ]
