"""Room that is kept for a job that has waited for long: what others see of it, and when it is there."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.job.record import ReplicaType
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue import reservation
from tf_operator.planning.job_queue.capacity import FreeCapacity, Node, Placement
from tf_operator.planning.job_queue.jobs import BoundPod, QueueJob, ReplicaNeed
from tf_operator.planning.job_queue.reservation import Occupancy, Reservation, Room
from tf_operator.planning.job_queue.shapes import Shape

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
AFTER = timedelta(minutes=30)
SLOT = Shape((("slot", 1),))
WORKER = ReplicaType.WORKER


def job(uid, workers, **fields):
    return QueueJob(ObjectKey(uid, uid), uid, NOW, (ReplicaNeed(WORKER, workers, SLOT),), workers=workers, **fields)


OLD, BIG, YOUNG = job("a", 2), job("b", 2), job("c", 2)
"""In the order of the queue; room is kept for the second."""


@pytest.fixture
def room():
    """Two nodes for two pods each, of which the second is kept."""
    nodes = FreeCapacity(Node(name, (("slot", 2),)) for name in ("node-0", "node-1"))
    return Room(
        nodes, NOW, Reservation(BIG, (Placement(1, SLOT, 2),), None, holds_up_equals=True, changes_at=NOW + HOUR)
    )


def test_what_one_job_takes_no_other_gets_whether_room_is_kept_from_it_or_not(room):
    assert room.place(YOUNG, 2) == (Placement(0, SLOT, 2),)
    assert room.place(YOUNG, 1) is None
    assert room.place(OLD, 2) == (Placement(1, SLOT, 2),)
    assert room.place(OLD, 1) is None


def test_a_later_job_does_not_get_what_an_earlier_one_has_taken(room):
    assert room.place(OLD, 1) == (Placement(0, SLOT, 1),)
    assert room.place(YOUNG, 2) is None
    assert room.place(YOUNG, 1) == (Placement(0, SLOT, 1),)


def test_workers_that_are_too_few_for_a_job_leave_their_room_to_others(room):
    assert room.more(YOUNG, WORKER, 3, least=3) == 0
    assert room.more(YOUNG, WORKER, 3, least=1) == 2
    assert room.more(YOUNG, WORKER, 1, least=1) == 0


def test_room_that_is_taken_or_given_up_is_so_for_all(room):
    room.take((Placement(0, SLOT, 2),))
    assert room.place(YOUNG, 1) is None

    room.give(BoundPod(WORKER, 0, "node-0", SLOT.requests))
    assert room.place(YOUNG, 2) is None
    assert room.place(YOUNG, 1) == (Placement(0, SLOT, 1),)
    assert room.place(OLD, 2) == (Placement(1, SLOT, 2),)


def test_without_a_reservation_all_room_is_open_to_all():
    nodes = FreeCapacity([Node("node-0", (("slot", 2),))])
    room = Room(nodes, NOW, None)
    room.take((Placement(0, SLOT, 1),))
    room.give(BoundPod(WORKER, 0, "node-0", SLOT.requests))
    assert room.place(YOUNG, 2) == (Placement(0, SLOT, 2),)


@pytest.mark.parametrize(
    ("held", "workers", "hours"),
    [
        (((2, 1), (1, 2)), 2, 1),
        (((2, 1), (1, 2)), 3, 2),
        (((1, 1), (1, 2), (1, None)), 2, 2),
        (((1, 1), (1, 2), (1, None)), 3, None),
    ],
    ids=["when the first ends", "when both have ended", "when two of three have", "nobody knows"],
)
def test_room_is_there_when_enough_jobs_have_reached_their_deadlines(held, workers, hours):
    """Of each that runs: how many pods it has, and after how many hours it ends."""
    full = FreeCapacity([Node("node-0", (("slot", 3),), (("slot", 3),))])
    running = [
        Occupancy(
            job(str(end), pods, is_admitted=True, start_time=NOW, longest=end and end * HOUR),
            (Placement(0, SLOT, pods),),
        )
        for pods, end in held
    ]
    other = Placement(0, Shape((("other", 1),)), 9)
    running.append(Occupancy(job("other", 9, is_admitted=True, start_time=NOW, longest=HOUR / 2), (other,)))
    waiting = replace(job("z", workers), queued_time=NOW - HOUR)
    result = reservation.find(full, running, [(waiting, NOW - HOUR)], now=NOW, after=AFTER)

    assert result.until == (NOW + hours * HOUR if hours else None)


@pytest.mark.parametrize(
    ("waited", "is_own", "changes_in"),
    [
        (AFTER, True, 6),
        (AFTER + 6 * HOUR - SECOND, True, 0),
        (AFTER + 6 * HOUR, False, 6),
        (AFTER + 18 * HOUR, True, 6),
        (AFTER + 42 * HOUR, True, 18),
    ],
    ids=["its first turn", "its last second", "that of the others", "its second turn, which is longer", "its third"],
)
def test_a_job_and_the_others_of_its_priority_take_turns(waited, is_own, changes_in):
    full = FreeCapacity([Node("node-0", (("slot", 2),), (("slot", 2),))])
    running = [Occupancy(job("a", 2, is_admitted=True), (Placement(0, SLOT, 2),))]
    result = reservation.find(full, running, [(BIG, NOW - waited)], now=NOW, after=AFTER)

    assert result.holds_up_equals is is_own
    assert result.changes_at - NOW == (changes_in * HOUR or SECOND)
