"""hack/pythons finds the interpreters of a machine; hack/busy keeps it busy, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def interpreter(path, version, executable="", *, has_venv=True):
    """What says that it is this Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{'' if has_venv else 'exit 1'}\necho {version} {executable or path}\n")
    path.chmod(0o755)


def listed(path, pyenv):
    environment = {**os.environ, "PATH": f"{path}:/usr/bin:/bin", "PYENV_ROOT": str(pyenv)}
    command = ["hack/pythons", "--list"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_interpreters_are_found_and_those_that_are_missing_are_named(tmp_path):
    interpreter(tmp_path / "bin/python3.12", "3.12.99")
    interpreter(tmp_path / "bin/python3.10", "3.10.99")
    interpreter(tmp_path / "bin/python3", "3.13.98", "/base/python3")
    for version in ("3.13.98", "3.13.99", "3.9.99"):
        interpreter(tmp_path / f"pyenv/versions/{version}/bin/python", version)

    lines = listed(tmp_path / "bin", tmp_path / "pyenv").splitlines()

    assert lines[0].startswith("pythons: supported: 3.11 3.12 ")
    assert f"pythons: found 3.12.99: {tmp_path}/bin/python3.12" in lines
    assert f"pythons: found 3.13.98: {tmp_path}/pyenv/versions/3.13.98/bin/python" in lines, "one for each version"
    assert f"pythons: found 3.13.99: {tmp_path}/pyenv/versions/3.13.99/bin/python" in lines
    assert not re.search(r"found 3\.(9|10)\.", "\n".join(lines)), "they are not supported"
    assert ("pythons: not found: any 3.14" in lines) is not any("found 3.14." in line for line in lines)


def test_an_interpreter_that_makes_no_environments_is_none(tmp_path):
    interpreter(tmp_path / "bin/python3.12", "3.12.99", has_venv=False)

    assert "3.12.99" not in listed(tmp_path / "bin", tmp_path / "pyenv")


def spinners_of(output):
    """The processes that a command has seen beside itself."""
    return [int(pid) for pid in output.split()]


@pytest.mark.parametrize("end", ["exit 7", "kill -9 $PPID"], ids=["the command ends", "the script is killed"])
def test_nothing_spins_when_a_busy_command_is_over(end):
    script = f"cat /proc/$PPID/task/*/children; {end}"
    process = subprocess.run(["hack/busy", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    spinners = spinners_of(process.stdout)
    assert len(spinners) == 5, "four, and the command"
    assert process.returncode == (7 if end == "exit 7" else -signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in spinners):
        assert time.monotonic() < deadline
        time.sleep(0.02)
