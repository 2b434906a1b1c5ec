"""Jobs as the queue sees them: which of their pods have no node yet, and what they may get more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.job.record import ReplicaType
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue.capacity import Group
from tf_operator.planning.job_queue.jobs import BoundPod, QueueJob, ReplicaNeed, Resize, left_alone, priority_of
from tf_operator.planning.job_queue.shapes import Shape

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
WORKER, SERVER = Shape((("slot", 1),)), Shape((("slot", 2),))
NEEDS = (ReplicaNeed(ReplicaType.WORKER, 3, WORKER), ReplicaNeed(ReplicaType.PS, 1, SERVER))
JOB = QueueJob(ObjectKey("team", "job"), "u", NOW, NEEDS, workers=3, is_admitted=True)


def bound(*ordinals):
    return tuple(BoundPod(ReplicaType.WORKER, ordinal, "node", WORKER.requests) for ordinal in ordinals)


@pytest.mark.parametrize(
    ("pods", "done", "workers"),
    [((), 0, 3), ((0, 1), 0, 1), ((0,), 1, 1), ((0, 3), 0, 2), ((0, 1, 2), 1, 0)],
    ids=["none is there", "two are", "one needs none any more", "one that leaves is", "all are"],
)
def test_a_pod_is_still_to_be_placed_if_it_has_no_node_and_is_needed(pods, done, workers):
    job = replace(JOB, pods=bound(*pods), completions=((ReplicaType.WORKER, done),))

    assert job.unplaced == (*[Group(WORKER, workers)] * bool(workers), Group(SERVER, 1, follows=True))


@pytest.mark.parametrize(
    ("workers", "servers", "growth"),
    [(5, 0, {ReplicaType.WORKER: 2}), (3, 2, {ReplicaType.PS: 1}), (3, 1, {}), (2, 0, {})],
    ids=["workers", "servers", "as many", "fewer"],
)
def test_a_job_that_has_room_grows_by_what_its_user_wants_more(workers, servers, growth):
    job = replace(JOB, requested_workers=workers, requested_servers=servers)

    assert job.growth == growth
    assert not replace(job, is_admitted=False).growth


def test_a_job_that_is_left_alone_keeps_its_room_and_gets_no_more():
    job = replace(JOB, needs=NEEDS[:1], workers=0, requested_workers=2, requested_servers=2)

    assert [(other.uid, other.growth) for other in left_alone([job, replace(job, uid="v")], {"u"})] == [
        ("u", {}),
        ("v", {ReplicaType.PS: 2, ReplicaType.WORKER: 2}),
    ]
    assert not list(left_alone([replace(job, is_admitted=False)], {"u"}))


@pytest.mark.parametrize(
    ("workers", "servers", "is_as_asked"), [(5, 2, True), (3, 2, True), (5, 1, True), (4, 2, False), (5, 3, False)]
)
def test_a_resize_is_what_a_user_asked_for_if_each_number_is(workers, servers, is_as_asked):
    job = replace(JOB, requested_workers=5, requested_servers=2)

    assert Resize(job, workers, servers).is_as_asked is is_as_asked


def test_a_job_has_the_least_priority_of_its_pods():
    values = {"low": 1, "high": 9}

    assert [priority_of(classes, values, 5) for classes in (["high", "low"], ["high", ""], ["high"])] == [1, 5, 9]


def test_a_job_without_a_priority_comes_after_a_younger_one_that_has_one():
    younger = replace(JOB, uid="v", created=NOW + timedelta(seconds=1), priority=1)

    assert sorted([JOB, younger], key=lambda job: job.rank) == [younger, JOB]
