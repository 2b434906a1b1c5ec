"""The searches find defects by themselves: each is put back, and no test but the search runs."""

import json
import subprocess
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import mutants

FOLDER = Path(__file__).parent
DEFECTS = tuple(mutants.read(sorted(FOLDER.rglob("defects.yaml"))))
OF_JOBS = frozenset(mutants.read([FOLDER / "defects.yaml"]))
HOLDS, BREAKS = 0, 1


@pytest.fixture(scope="module")
def tree():
    with pytest.MonkeyPatch.context() as patch, mutants.copies_of(mutants.ROOT, 1) as copies:
        patch.setenv("PROOF", "planted")
        yield copies[0]


@cache
def status_of(tree, search):
    """What pytest exits with, without a defect."""
    return mutants.run_tests(tree, [search], "--timeout=0")[0]


def replay(tree, history):
    command = [tree / ".venv/bin/python", "-m", "proof.replay", history]
    path = ":".join(str(tree / folder) for folder in ("", "hack", "test"))
    return subprocess.run(command, cwd=tree, env={"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", DEFECTS, ids=attrgetter("name"))
def test_a_search_finds_a_planted_defect(defect, tree, tmp_path, monkeypatch, capsys):
    assert status_of(tree, defect.test) == 0, "without a defect it finds nothing; else it would prove nothing"

    monkeypatch.setenv("BREAKS", str(tmp_path))
    with mutants.changed_file(tree, defect):
        status, output = mutants.run_tests(tree, [defect.test], "--timeout=0", "-x")
        assert status == 1, output
        if defect not in OF_JOBS:
            return
        history = tmp_path / "break-1.json"
        content = json.loads(history.read_text())
        with_defect = replay(tree, history)
    without = replay(tree, history)

    with capsys.disabled():
        print(f"\n{defect.name}: {content['states']} states, {len(content['moves'])} moves")  # noqa: T201
    assert with_defect.returncode == BREAKS, with_defect.stdout
    assert f"breaks: {content['sentence']}" in with_defect.stdout
    assert without.returncode == HOLDS, without.stdout
