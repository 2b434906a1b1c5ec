"""``tf-operator``: its commands, its exit codes, and the two ways to start it."""

import subprocess
import sys

import pytest

from tf_operator.app import cli


def test_version_prints_one_line_fit_for_a_bug_report(capsys):
    assert cli.main(["version"]) == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("tf-operator ")
    assert "Python 3." in line


@pytest.mark.parametrize("arguments", [[], ["fly"], ["--no-such-flag"]], ids=["none", "unknown", "unknown-flag"])
def test_a_wrong_command_line_is_answered_with_usage_and_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)

    assert stopped.value.code == 2
    assert "usage: tf-operator" in capsys.readouterr().err


def test_the_package_can_be_started_as_a_module():
    done = subprocess.run([sys.executable, "-m", "tf_operator", "version"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("tf-operator ")
