"""The search itself: it finds the shortest history and every circle, and what it leaves out loses nothing."""

from dataclasses import dataclass, field

from proof import bounds, engine
from proof.engine import Move
from proof.world import NOTHING, JobWorld, State

CROWDED = bounds.FEW["chief and worker, ExitCode"]


@dataclass
class Graph:
    """States that are numbers, and the moves between them."""

    edges: dict[int, list[int]]
    bad: frozenset[int] = frozenset()
    unfair: frozenset[tuple[int, int]] = frozenset()
    visits: list[int] = field(default_factory=list)

    def start(self):
        return (0,)

    def moves(self, state):
        number = state[0]
        return [
            Move(f"{number}-{after}", (after,), is_fair=(number, after) not in self.unfair)
            for after in self.edges.get(number, ())
        ]

    def resting(self, state):
        self.visits.append(state[0])
        return ["bad"] if state[0] in self.bad else []


@dataclass
class Recurring(Graph):
    """Moves that may happen again and again; those that have to happen, and time, are named."""

    fair: frozenset[tuple[int, int]] = frozenset()
    time: frozenset[tuple[int, int]] = frozenset()

    def moves(self, state):
        number = state[0]
        return [
            Move(
                f"to {after}",
                (after,),
                is_fair=(number, after) in self.fair,
                is_recurring=True,
                is_time=(number, after) in self.time,
            )
            for after in self.edges.get(number, ())
        ]


class Patient(JobWorld):
    """The same world in which nothing that happens to pods is put off until a plan is carried out."""

    def _untouched(self, state):
        return frozenset()


def test_a_break_has_the_shortest_history():
    graph = Graph({0: [1, 2], 1: [3], 2: [4], 3: [4], 4: []}, bad=frozenset({4}))

    outcome = engine.search(graph, most=100)

    assert [brk.history for brk in outcome.breaks] == [("0-2", "2-4")]


def test_every_state_is_visited_once():
    graph = Graph({0: [1, 2], 1: [3], 2: [3], 3: []})

    outcome = engine.search(graph, most=100)

    assert sorted(graph.visits) == [0, 1, 2, 3]
    assert outcome.is_complete


def test_a_circle_of_fair_moves_is_a_break():
    outcome = engine.search(Graph({0: [1], 1: [2], 2: [1, 3]}), most=100)

    assert [brk.sentence for brk in outcome.breaks] == ["left alone, the job never comes to rest"]


def test_a_circle_that_needs_a_fault_is_none():
    outcome = engine.search(Graph({0: [1], 1: [0]}, unfair=frozenset({(1, 0)})), most=100)

    assert outcome.breaks == []


def waits(edges, *, fair=(), time=(), in_states=(0, 1, 2)):
    """Who waits for ever in a world whose moves are recurring, but for these."""
    graph = Recurring(edges, fair=frozenset(fair), time=frozenset(time))
    outcome = engine.search(graph, most=100, waits_in=lambda state: ["waits"] if state[0] in in_states else [])
    return "waits" in [brk.sentence for brk in outcome.breaks]


def test_somebody_waits_for_ever_where_others_come_again_and_again():
    assert waits({0: [1], 1: [0]})
    assert not waits({0: [1], 1: [0]}, in_states=(0,), fair={(0, 1)})


def test_nobody_waits_for_ever_where_what_ends_the_wait_is_always_possible():
    assert not waits({0: [1, 3], 1: [0, 3], 3: []}, fair={(0, 3), (1, 3)})
    assert waits({0: [1, 3], 1: [0], 3: []}, fair={(0, 3)})


def test_nothing_happens_infinitely_often_in_a_moment():
    assert not waits({0: [1, 3], 1: [0], 3: []}, fair={(0, 3)}, time={(0, 3)})
    assert waits({0: [1, 3], 1: [0], 3: []}, fair={(0, 3), (0, 1)}, time={(0, 3), (0, 1)})


def test_a_state_in_which_nothing_happens_any_more_lasts_for_ever():
    assert waits({0: [1], 1: []}, fair={(0, 1)}, in_states=(1,))


def test_a_history_can_be_replayed():
    graph = Graph({0: [1, 2], 2: [4]})

    assert list(engine.replayed(graph, ("0-2", "2-4"))) == [(0,), (2,), (4,)]


def test_what_is_put_off_until_a_plan_is_carried_out_loses_no_state_between_plans():
    assert idle_states(JobWorld(CROWDED)) == idle_states(Patient(CROWDED))


def idle_states(world):
    """All that can be between two plans, apart from what has become possible while one was carried out."""
    remembered = world.start()
    ahead, visited, idle = [remembered], {remembered}, set()
    while ahead:
        state = ahead.pop()
        if State._make(state).plan == NOTHING:
            idle.add(_spelled(world, State._make(state)))
        for move in world.moves(state):
            if move.state not in visited:
                visited.add(move.state)
                ahead.append(move.state)
    return idle


def _spelled(world, state):
    """Without the numbers of this world."""
    status = str(world.planner.statuses[state.status])
    late = () if state.late and isinstance(state.late[0][1], int) else state.late
    return state._replace(status=status, happened=0, settled=0, late=late)
