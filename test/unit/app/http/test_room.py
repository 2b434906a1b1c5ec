"""Who has room for a body, and who makes way."""

import pytest

from support.fake_clock import FakeClock
from tf_operator.app.http import policies
from tf_operator.app.http.room import LARGEST, MOST, SMALL, STALLED, BodyRoom, NeverFits, NoRoom, Place

MIB = 1024 * 1024
FOR_LARGE = MOST - SMALL * policies.REVIEWS.most


class Taken:
    """A room, and places that say when they have made way."""

    def __init__(self):
        self.clock = FakeClock()
        self.room = BodyRoom(self.clock)
        self.left = []

    def place(self, client, name, size, *, is_complete=False):
        place = Place(self.room, client, self.clock.monotonic())
        self.room._places.append(place)
        place.make_way = lambda: self.left.append(name)
        place.take(size)
        place.is_complete = is_complete
        return place


@pytest.fixture
def taken():
    return Taken()


def test_a_small_body_has_room_at_every_connection_whatever_large_ones_take(taken):
    for number in range(FOR_LARGE // LARGEST):
        taken.place("greedy", number, LARGEST)
    for number in range(policies.REVIEWS.most):
        taken.place("greedy", number, SMALL)
    taken.place("api server", "small", SMALL)

    assert taken.left == []


def test_a_client_that_holds_more_makes_way_with_its_incomplete_bodies_first(taken):
    taken.place("greedy", "complete", LARGEST, is_complete=True)
    taken.place("greedy", "incomplete", LARGEST)
    taken.place("modest", "other", LARGEST)
    taken.place("api server", "new", LARGEST)

    assert taken.left == ["incomplete"]


def test_what_waits_for_its_answer_makes_way_when_its_client_has_nothing_else(taken):
    for number in range(3):
        taken.place("greedy", number, LARGEST, is_complete=True)
    taken.place("api server", "new", LARGEST)

    assert len(taken.left) == 1


def test_nobody_makes_way_for_a_client_that_would_hold_more(taken):
    for number in range(2):
        taken.place("modest", number, LARGEST)
    taken.place("greedy", "first", LARGEST)
    with pytest.raises(NoRoom):
        taken.place("greedy", "second", LARGEST)

    assert taken.left == []


def test_bodies_of_one_client_make_way_for_each_other_only_when_nothing_comes_any_more(taken):
    for number in range(3):
        taken.place("api server", number, LARGEST)
        taken.clock._monotonic += STALLED * 0.4
    taken.place("api server", "next", LARGEST)
    with pytest.raises(NoRoom):
        taken.place("api server", "another", 2 * MIB)

    assert taken.left == [0]


def test_a_body_that_never_fits_is_told_how_much_would(taken):
    with pytest.raises(NeverFits) as refused:
        taken.place("api server", "huge", LARGEST + 1)

    assert refused.value.args == (LARGEST,)
