"""``tf-operator``: its commands, its exit codes, and the two ways to start it."""

import gc
import subprocess
import sys

import pytest

from tf_operator.app import command, run

pytestmark = pytest.mark.usefixtures("own_signals")


@pytest.fixture
def started(monkeypatch):
    """The options of each process that would have been run."""
    options, thresholds = [], gc.get_threshold()
    monkeypatch.setattr(run, "run", lambda run_options: options.append(run_options) or 3)
    yield options
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-v=1", "-version"]])
def test_version_prints_one_line_fit_for_a_bug_report(arguments, capsys):
    assert command.main(arguments) == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("tf-operator ")
    assert "Python 3." in line


@pytest.mark.parametrize("arguments", [[], ["fly"], ["crd", "--no-such-flag"]], ids=["none", "unknown", "unknown-flag"])
def test_a_wrong_command_line_is_answered_with_usage_and_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)

    assert stopped.value.code == 2
    assert "usage: tf-operator" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["-h", "-help", "--help"])
def test_run_explains_its_flags_in_groups(flag, capsys):
    assert command.main(["run", flag]) == 0

    page = capsys.readouterr().out
    assert page.startswith("usage: tf-operator run")
    assert "Leader election:" in page


def test_a_wrong_flag_of_run_is_one_line_and_exit_code_2(capsys, started):
    assert command.main(["run", "--kube-api-qps=fast"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tf-operator run: --kube-api-qps=fast: must be")
    assert started == []


def test_the_arguments_of_the_process_are_used_when_none_are_given(started, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tf-operator", "run", "--leader-elect=false"])

    assert command.main() == 3
    assert started[0].election is None


def test_the_collector_leaves_what_is_imported_alone_and_runs_rarely(started):
    threshold = gc.get_threshold()[0]

    command.main(["run", "--leader-elect=false"])

    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] > 5 * threshold


def test_the_package_can_be_started_as_a_module():
    process = subprocess.run(
        [sys.executable, "-m", "tf_operator", "version"], capture_output=True, text=True, check=True
    )

    assert process.stdout.startswith("tf-operator ")


def test_a_signal_before_the_operator_runs_ends_the_first_process_of_a_container():
    """The kernel drops a signal to process 1 that has no handler; here it is ignored until there is one."""
    program = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
from tf_operator.app import command

class Imports:
    def find_spec(self, name, *_):
        if name == "tf_operator.app.options":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Imports())
sys.exit(command.main(["run", "--no-such-flag"]))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (process.returncode, process.stderr) == (0, "")


def test_the_signal_handlers_are_set_before_anything_slow_is_imported():
    program = "import sys, tf_operator.app.command; print(*(name for name in sys.modules if name.startswith('tf_op')))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    light = "tf_operator tf_operator.app tf_operator.app.command tf_operator.app.crd_command tf_operator.app.version"
    assert set(process.stdout.split()) == set(light.split())
