"""Every state of what is beside the jobs: no sentence of its page is broken, and left alone it comes to rest."""

import os
from dataclasses import replace

import pytest

from proof import engine
from proof.others import attempts_world, conversion_world, election_world, hang_world, node_world, tensorboard_world
from proof.others.attempts_world import AttemptsWorld
from proof.others.conversion_world import ConversionWorld
from proof.others.election_world import ElectionWorld
from proof.others.hang_world import HangWorld
from proof.others.node_world import NodeWorld
from proof.others.tensorboard_world import TensorBoardWorld

SIZE = os.environ.get("PROOF", "quick")
SUBJECTS = (
    (ElectionWorld, election_world),
    (ConversionWorld, conversion_world),
    (NodeWorld, node_world),
    (TensorBoardWorld, tensorboard_world),
    (AttemptsWorld, attempts_world),
    (HangWorld, hang_world),
)
BOUNDS = [
    pytest.param(world, bound, id=f"{world.__name__}: {bound.name}")
    for world, module in SUBJECTS
    for bound in module.SIZES["gate" if SIZE == "planted" else SIZE]
]


@pytest.mark.parametrize(("world", "bound"), BOUNDS)
def test_no_state_breaks_a_sentence(world, bound, record_property, capsys):
    outcome = engine.search(world(bound), most=10**8, stops_at_first=SIZE == "planted")

    record_property("states", outcome.states)
    with capsys.disabled():
        print(f"\n{world.__name__}, {bound.name}: {outcome}")  # noqa: T201 (how much was proved is a result)
    assert not outcome.breaks, "\n\n".join(map(str, outcome.breaks))


def test_a_lease_that_is_deleted_while_a_standby_has_just_started_may_have_two_writers():
    """A known limit of docs/faults.md: the shortest history."""
    bound = replace(election_world.EDITED, faults=0, may_novices_create=False)

    outcome = engine.search(ElectionWorld(bound), most=10**6, stops_at_first=True)

    assert outcome.breaks[0].history == (
        "a0 reads",
        "a0 writes",
        "somebody deletes the Lease",
        "b0 reads",
        "b0 writes",
    )
