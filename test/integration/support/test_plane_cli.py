"""hack/control-plane as a process: the door to the command line, with and without a virtual environment."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def door(tmp_path):
    """hack/control-plane in a copy of the repository that has no virtual environment."""
    (tmp_path / "hack").mkdir()
    shutil.copy(REPOSITORY / "hack" / "control-plane", tmp_path / "hack")
    (tmp_path / "test").symlink_to(REPOSITORY / "test")
    return tmp_path / "hack" / "control-plane"


def test_without_its_dependencies_the_script_says_what_to_run(door):
    answer = subprocess.run(
        [sys.executable, "-S", door, "status", "--dir", "d"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert answer.stderr == "control-plane: No module named 'yaml'; run `make venv`\n"


def test_the_script_runs_with_the_python_of_the_virtual_environment(door, tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "venv: $@"\n')
    python.chmod(0o755)
    answer = subprocess.run([sys.executable, door, "status", "--dir", "d"], capture_output=True, text=True, check=False)
    assert answer.stdout == f"venv: {door} status --dir d\n"
