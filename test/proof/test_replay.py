"""A history of the search goes the same way with a whole operator, on an API server of this process or of another."""

import asyncio

import pytest

from proof import bounds, engine, planner, replay
from proof.world import JobWorld
from tf_operator.controller.writing import steps as real
from tf_operator.job.profile import ExitCodes

BOUND = bounds.FEW["chief and worker, ExitCode"]
SENTENCE = "a failure is stored in the status before its pod is deleted"


@pytest.fixture
def defect():
    """What actions destroy the evidence of is stored after them."""
    order = real.steps

    def steps(plan):
        in_order = order(plan)
        return in_order[::-1] if plan.status_first else in_order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "steps", steps)
        patch.setattr(planner, "steps", steps)
        yield patch


@pytest.fixture
def file(defect, tmp_path):
    """The history by which the search finds it."""
    outcome = engine.search(JobWorld(BOUND), most=10**8, stops_at_first=True)
    replay.write(tmp_path / "break.json", BOUND, outcome.breaks[0], states=outcome.states)
    return tmp_path / "break.json"


def test_a_history_breaks_its_sentence_with_the_defect(file, capsys):
    assert replay.main([str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"breaks: {SENTENCE}"


def test_a_history_breaks_nothing_without_the_defect(file, defect):
    defect.undo()
    assert replay.main([str(file)]) == 0


def test_a_history_breaks_its_sentence_on_an_api_server_of_its_own(file, control_plane):
    assert asyncio.run(replay.Replay(replay.read(file), control_plane).run()) == [SENTENCE]


def test_what_a_job_has_used_until_its_break_makes_no_difference(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ExitCodes, "are_retryable", lambda *_: False)
    outcome = engine.search(JobWorld(BOUND), most=10**8, stops_at_first=True)
    replay.write(tmp_path / "break.json", BOUND, outcome.breaks[0], states=outcome.states)

    assert replay.main([str(tmp_path / "break.json")]) == 1
    assert "breaks: a job fails with TFJobFailed" in capsys.readouterr().out
