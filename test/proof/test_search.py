"""Every state of small jobs: no sentence of the oracle is broken, and left alone each job comes to rest."""

import os
from pathlib import Path

import pytest

from proof import bounds, engine, replay
from proof.world import JobWorld

SIZE = os.environ.get("PROOF", "quick")


@pytest.mark.parametrize("bound", bounds.SIZES[SIZE], ids=lambda bound: bound.name)
def test_no_state_breaks_a_sentence(bound, record_property, capsys, tmp_path):
    outcome = engine.search(JobWorld(bound), most=10**8, stops_at_first=SIZE == "planted")

    record_property("states", outcome.states)
    with capsys.disabled():
        print(f"\n{bound.name}: {outcome}")  # noqa: T201 (how much was proved is a result)
    assert not outcome.breaks, "\n\n".join(broken(outcome, bound, Path(os.environ.get("BREAKS", tmp_path))))


def broken(outcome, bound, folder):
    """Each break, and how to see it again."""
    for number, brk in enumerate(outcome.breaks, 1):
        file = folder / f"break-{number}.json"
        replay.write(file, bound, brk, states=outcome.states)
        yield f"{brk}\nagain: PYTHONPATH=hack:test .venv/bin/python -m proof.replay {file}"
