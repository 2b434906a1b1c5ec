"""Every state of small jobs: no sentence of the oracle is broken, and left alone each job comes to rest."""

import os
from pathlib import Path

import pytest

from proof import bounds, cluster, engine, replay
from proof.world import JobWorld

SIZE = os.environ.get("PROOF", "quick")
WORDINGS = {
    "is killed": "the operator is killed",
    "is succeeded": "another operator leads",
    "loses a reply": "and the reply is lost",
    "is refused": "the server fails when",
    "exceeds a quota": "and exceeds a quota",
    "lags": "which the cache does not show",
    "loses a node": "the node of all pods is lost",
    "is collected": "is collected",
    "ends when stopped": "when it is stopped",
}
"""What the moves of faults are called that are no rows of ``cluster``."""


@pytest.mark.parametrize("bound", bounds.SIZES[SIZE], ids=lambda bound: bound.name)
def test_no_state_breaks_a_sentence(bound, record_property, capsys, tmp_path):
    outcome = engine.search(JobWorld(bound), most=10**8, stops_at_first=SIZE == "planted")

    record_property("states", outcome.states)
    with capsys.disabled():
        print(f"\n{bound.name}: {outcome}")  # noqa: T201 (how much was proved is a result)
    assert not outcome.breaks, "\n\n".join(broken(outcome, bound, Path(os.environ.get("BREAKS", tmp_path))))
    if SIZE in {"gate", "night"}:
        assert not list(never_happening(bound, outcome.moves)), "a bound names what can happen to its job"


def never_happening(bound, moves):
    """What a bound lets happen, and does not."""
    texts = {f"somebody {name}" for name in bound.people}
    texts |= {wording for fault, wording, _ in cluster.FAULTS if fault in bound.may}
    texts |= {wording for fault, wording in WORDINGS.items() if fault in bound.may}
    return (text for text in sorted(texts) if not any(text in move for move in moves))


def broken(outcome, bound, folder):
    """Each break, and how to see it again."""
    for number, brk in enumerate(outcome.breaks, 1):
        file = folder / f"break-{number}.json"
        replay.write(file, bound, brk, states=outcome.states)
        yield f"{brk}\nagain: PYTHONPATH=hack:test .venv/bin/python -m proof.replay {file}"
