"""What is left of the nodes after pods are placed, given up, or found to have no room."""

import pytest

from tf_operator.planning.job_queue.capacity import FreeCapacity, Group, Node, Placement
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
    nodes.give_all([Placement(0, SLOT, count)])
    assert left(nodes) == [slots, 1]


def test_pods_that_are_given_up_leave_nothing_of_what_no_node_has():
    nodes = capacity(1, 1)
    nodes.give_all([Placement(0, Shape((("gone", 1),)), 1)])
    assert nodes.left(0, "gone") == 0


def test_the_next_pod_goes_to_its_own_node_while_there_is_room_and_then_to_the_first():
    nodes, full = capacity(2, 2), dict[Shape, int]()
    assert nodes.place_next(SLOT, full, at="node-1")
    assert left(nodes) == [2, 1]
    assert [nodes.place_next(SLOT, full, at="node-1") for _ in range(4)] == [True, True, True, False]
    assert left(nodes) == [0, 0]


def test_pods_go_together_to_a_node_that_holds_all_of_them():
    assert capacity(1, 2).place([Group(SLOT, 2)]) == (Placement(1, SLOT, 2),)


def test_what_follows_goes_to_the_node_with_most_of_the_others():
    large = Shape((("slot", 2),))
    placed = capacity(3, 5).place([Group(SLOT, 1, follows=True), Group(large, 3)])
    assert placed == (Placement(0, large, 1), Placement(1, large, 2), Placement(1, SLOT, 1))


def test_as_many_pods_as_there_is_room_for_are_placed_first_on_their_own_node():
    nodes = capacity(2, 2)
    assert nodes.place_some(Group(SLOT, 3), at="node-1") == (Placement(1, SLOT, 2), Placement(0, SLOT, 1))
    assert left(nodes) == [1, 0]


def test_a_node_that_lacks_one_of_several_resources_gets_no_pod():
    both = Shape((("slot", 1), ("plenty", 1)))
    nodes = FreeCapacity([Node("a", (("slot", 1),)), Node("b", (("slot", 1), ("plenty", 9)))])
    assert nodes.place_some(Group(both, 2)) == (Placement(1, both, 1),)


@pytest.mark.parametrize(("used", "count", "rest"), [(0, 3, 1), (0, 9, 0), (5, 2, -1)], ids=["some", "all", "no more"])
def test_room_is_taken_up_to_all_that_there_is(used, count, rest):
    nodes = capacity(4, 4, used=used)
    nodes.take([Placement(0, SLOT, count)])
    assert left(nodes) == [rest, 4 - used]


def test_pods_will_be_where_the_least_has_to_be_given_back():
    now, later = capacity(2, 2, used=1), capacity(2, 2)
    assert now.place_soonest([Group(SLOT, 2)], later) == (Placement(0, SLOT, 1), Placement(1, SLOT, 1))
    assert (left(now), left(later)) == ([0, 0], [1, 1])


def test_pods_that_will_never_fit_get_no_room():
    now, later = capacity(1, 1), capacity(1, 1)
    assert now.place_soonest([Group(SLOT, 3)], later) == (Placement(0, SLOT, 1), Placement(1, SLOT, 1))


def test_what_is_lacking_is_compared_in_parts_of_what_is_asked_for():
    shape = Shape((("gpu", 2), ("slot", 8)))
    full = (("gpu", 2), ("slot", 8))
    now = FreeCapacity([Node("half-a-gpu", full, (("gpu", 1),)), Node("a-quarter-of-slots", full, (("slot", 2),))])
    assert now.place_soonest([Group(shape, 1)], FreeCapacity([Node("a", full), Node("b", full)])) == (
        Placement(1, shape, 1),
    )


def test_pods_that_ask_for_nothing_will_have_room_anywhere():
    nothing = Shape()
    assert capacity(0).place_soonest([Group(nothing, 1)], capacity(0)) == (Placement(0, nothing, 1),)
