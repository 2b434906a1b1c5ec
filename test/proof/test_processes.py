"""Whole lives of three operators, many seeds: whatever happens to them, everything ends in order.

The number of seeds is that of ``PROOF``, or ``SEEDS``. The seed of a life that does not hold is printed, with the
command that lives it again.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.processes import life

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"quick": 20, "gate": 500, "planted": 300}
SEEDS = int(os.environ.get("SEEDS") or SIZES[os.environ.get("PROOF", "quick")])
AT_ONCE = 20
"""Seeds of one test."""


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE), ids="seeds from {}".format)
def test_three_operators_leave_everything_in_order(first):
    for seed in range(first, min(first + AT_ONCE, SEEDS)):
        complaints = "\n".join(life.play(seed).complaints)
        assert not complaints, (
            f"{complaints}\nagain: PYTHONPATH=hack:test .venv/bin/python -m proof.processes.life {seed}"
        )


def test_a_seed_brings_the_same_life_again_here_and_in_another_process():
    """One in which operators try again after they have logged something."""
    seed = "42218"
    command = [sys.executable, "-m", "proof.processes.life", seed]
    environment = {"PYTHONPATH": "hack:test", "PYTHONHASHSEED": "1"}
    output = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    for _ in range(2):
        assert output.endswith("\n".join([*life.play(int(seed)).record.lines(), "holds", ""]))
