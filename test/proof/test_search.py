"""Every state of small jobs: no sentence of the oracle is broken, and left alone each job comes to rest."""

import os

import pytest

from proof import bounds, engine
from proof.world import JobWorld

SIZE = os.environ.get("PROOF", "quick")


@pytest.mark.parametrize("bound", bounds.SIZES[SIZE], ids=lambda bound: bound.name)
def test_no_state_breaks_a_sentence(bound, record_property, capsys):
    outcome = engine.search(JobWorld(bound), most=10**8, stops_at_first=SIZE == "planted")

    record_property("states", outcome.states)
    with capsys.disabled():
        print(f"\n{bound.name}: {outcome}")  # noqa: T201 (how much was proved is a result)
    assert not outcome.breaks, "\n\n".join(map(str, outcome.breaks))
