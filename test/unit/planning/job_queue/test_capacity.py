"""What is left of the nodes after pods are placed, given up, or found to have no room."""

import pytest

from tf_operator.planning.job_queue.capacity import FreeCapacity, Group, Node, Placed
from tf_operator.planning.job_queue.shapes import Shape

SLOT = Shape((("slot", 1),))


def capacity(*slots, used=0):
    names = (f"node-{index}" for index in range(len(slots)))
    return FreeCapacity(
        Node(name, (("slot", number),), (("slot", used),)) for name, number in zip(names, slots, strict=True)
    )


def left(nodes):
    return [nodes.left(index, "slot") for index in (0, 1)]


def test_nothing_is_taken_for_pods_that_have_no_room_all_together():
    nodes = capacity(2, 2)
    assert nodes.place([Group(SLOT, 3), Group(SLOT, 2, follows=True)]) is None
    assert left(nodes) == [2, 2]
    assert nodes.place([Group(SLOT, 3), Group(SLOT, 1, follows=True)])
    assert left(nodes) == [0, 0]


@pytest.mark.parametrize(("count", "slots"), [(2, 3), (9, 4)], ids=["what they had", "more than there is"])
def test_pods_that_are_given_up_leave_what_they_had_and_no_more_than_the_node_can_allocate(count, slots):
    nodes = capacity(4, 4, used=3)
    nodes.give_all([Placed(0, SLOT, count)])
    assert left(nodes) == [slots, 1]


def test_pods_that_are_given_up_leave_nothing_of_what_no_node_has():
    nodes = capacity(1, 1)
    nodes.give_all([Placed(0, Shape((("gone", 1),)), 1)])
    assert nodes.left(0, "gone") == 0


def test_the_next_pod_goes_to_its_own_node_while_there_is_room_and_then_to_the_first():
    nodes, full = capacity(2, 2), dict[Shape, int]()
    assert nodes.place_next(SLOT, full, at="node-1")
    assert left(nodes) == [2, 1]
    assert [nodes.place_next(SLOT, full, at="node-1") for _ in range(4)] == [True, True, True, False]
    assert left(nodes) == [0, 0]
