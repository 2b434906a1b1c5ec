"""The environment of ``make demo``: uv installs what the lock says, and pip does where uv cannot."""

import gc
import io
import subprocess
import sys
from pathlib import Path

import pytest

from demonstration import training
from lab.tools.progress import Progress

TOLD = training._told


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Prepare an environment; return which program installed from which list, of those that did not refuse."""
    monkeypatch.chdir(training.ROOT)
    monkeypatch.setattr(training, "VENV", tmp_path / "venv")
    monkeypatch.setattr(training.venv, "create", lambda folder, **_: folder.mkdir())  # `make demo` makes a real one

    def prepare(*refused):
        done = []

        def told(command, _):
            program = "uv" if command[0].endswith("/uv") else "pip"
            done.append(f"{program} {Path(command[-1]).name}")
            if done[-1] in refused:
                raise subprocess.CalledProcessError(1, command)

        monkeypatch.setattr(training, "_told", told)
        training.prepare(Progress(io.StringIO(), prefix="demo"))
        return done

    return prepare


def test_uv_is_installed_from_the_lock_of_the_tools_and_installs_the_packages(installed):
    assert installed() == ["pip uv.txt", "uv demo.txt", "pip "]
    first, *hashes = (training.VENV / "uv.txt").read_text().splitlines()
    assert first.startswith("uv==")
    assert hashes
    assert all(line.lstrip().startswith("--hash=sha256:") for line in hashes)


def test_what_is_whole_is_not_installed_again(installed):
    installed()

    assert installed() == []


@pytest.mark.parametrize("refused", ["pip uv.txt", "uv demo.txt"])
def test_pip_installs_the_packages_where_uv_cannot_and_that_is_said(installed, refused, capsys):
    assert installed(refused)[-2:] == ["pip demo.txt", "pip "]
    assert capsys.readouterr().out == "demo: uv could not; pip, which has settings of its own, takes longer\n"


def test_packages_are_kept_when_only_the_last_step_failed(installed):
    with pytest.raises(subprocess.CalledProcessError):
        installed("pip ")

    assert installed() == ["pip "]


def test_what_is_half_made_is_removed(installed):
    with pytest.raises(subprocess.CalledProcessError):
        installed("uv demo.txt", "pip demo.txt")

    assert not training.VENV.exists()


def test_a_lock_without_uv_is_named(installed, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "TOOLS_LOCK", tmp_path / "ci.txt")
    training.TOOLS_LOCK.write_text("ruff==1\n")

    with pytest.raises(OSError, match=r"ci\.txt has no uv"):
        installed()
    assert not training.VENV.exists()


def test_what_programs_keep_at_home_is_in_the_environment_of_the_demo(installed, monkeypatch, tmp_path):
    home = tmp_path / "home"
    (home / ".pip").mkdir(parents=True)
    (home / ".pip/pip.conf").touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setattr(training, "VENV", tmp_path / "demo")
    (training.VENV / "bin").mkdir(parents=True)
    (training.VENV / "tmp").mkdir()
    keep = "#!/bin/sh\ntouch ~/.keras ${XDG_DATA_HOME:-$HOME}/.data\n"
    (training.VENV / "bin/tfjob").write_text(keep)
    (training.VENV / "bin/tfjob").chmod(0o755)

    assert training._run(Progress(io.StringIO(), prefix="demo")) == 0
    with Progress(io.StringIO(), prefix="demo").step("") as step:
        TOLD(
            ["sh", "-c", 'touch ~/.rustup; echo "$XDG_CACHE_HOME $XDG_CONFIG_HOME $PIP_CONFIG_FILE" >~/settings'], step
        )

    content = {path.name: path.read_text() for path in (training.VENV / "home").iterdir()}
    assert content.keys() == {".keras", ".data", ".rustup", "settings"}
    assert content["settings"] == f"{home}/.cache  {home}/.pip/pip.conf\n"  # there is no folder of settings
    assert [path.name for path in home.iterdir()] == [".pip"]


def test_the_last_words_of_a_program_that_fails_are_shown_and_its_pipe_is_closed(installed, capsys):
    installed()
    words = [sys.executable, "-c", "import sys; print(*range(40), sep='\\n'); sys.exit(3)"]

    with (
        pytest.raises(subprocess.CalledProcessError, match="exit status 3"),
        Progress(io.StringIO(), prefix="demo").step("failing") as step,
    ):
        TOLD(words, step)

    gc.collect()  # whatever is still open now fails the test
    assert capsys.readouterr().out.split() == [str(number) for number in range(25, 40)]
