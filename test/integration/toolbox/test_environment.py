"""hack/environment: a venv for each lock, whole or not at all."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "hack" / "environment"


@pytest.fixture
def run(tmp_path):
    """The script in a tree of its own, whose lock is given; nothing in it comes from the network."""
    (tmp_path / "hack" / "requirements").mkdir(parents=True)
    script = shutil.copy(SCRIPT, tmp_path / "hack")

    def call(lock):
        (tmp_path / "hack" / "requirements" / "x.txt").write_text(lock)
        return subprocess.run(
            [script, "x"],
            env={**os.environ, "TF_OPERATOR_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_a_venv_is_made_once_for_each_lock_and_its_python_is_told(run, tmp_path):
    first, again = run("# one"), run("# one")

    assert first.returncode == 0, first.stderr
    assert "making" in first.stderr
    assert (again.stdout, again.stderr) == (first.stdout, "")
    python = Path(first.stdout.strip())
    prefix = subprocess.check_output([python, "-c", "import sys; print(sys.prefix)"], text=True).strip()
    assert Path(prefix) == python.parents[1]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [python.parents[1].name]


def test_a_venv_that_could_not_be_filled_is_not_left_behind(run, tmp_path):
    failed = run(f"nothing-of-the-kind==1 --hash=sha256:{'0' * 64}\n")

    assert failed.returncode != 0
    assert "nothing-of-the-kind" in failed.stderr
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_a_name_it_says_how_to_call_it():
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "usage: hack/environment NAME" in done.stderr
