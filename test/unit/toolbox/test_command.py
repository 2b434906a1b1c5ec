"""The command line: usage errors are 2, other errors 1, paths and lists go to standard output."""

import subprocess
import sys
from pathlib import Path

import pytest

from toolbox import command
from toolbox.command import Script
from toolbox.errors import UsageError

HACK = Path(__file__).resolve().parents[3] / "hack"


def run(script, *arguments, **environ):
    """Run the script as a process, as its user does."""
    done = subprocess.run(
        [sys.executable, HACK / script, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("main", "script", "arguments", "why"),
    [
        (command.tool, "tool", [], "name at least one tool"),
        (command.tool, "tool", ["--lsit"], "unrecognized arguments: --lsit"),
        (command.verify, "verify-tools", ["helm"], "unrecognized arguments: helm"),
        (command.update, "update-tools", ["helm"], "unrecognized arguments: helm"),
    ],
)
def test_a_wrong_command_line_is_told_so(main, script, arguments, why):
    with pytest.raises(UsageError) as refused:
        main(Script(str(HACK / script)), arguments, {})

    assert refused.value.message == why
    assert refused.value.advice == f"see hack/{script} --help"


@pytest.mark.parametrize(
    ("arguments", "environ", "status", "lines"),
    [
        ([], {}, 2, ["error: name at least one tool", "see hack/tool --help"]),
        (
            ["etcd"],
            {"KUBERNETES_MINOR": "1.2"},
            1,
            [
                "error: KUBERNETES_MINOR=1.2: there is no such release in the catalogue",
                "set KUBERNETES_MINOR to one of 1.36, 1.34, or unset it",
            ],
        ),
    ],
    ids=["usage", "anything else"],
)
def test_an_error_is_two_lines_and_a_status_and_no_traceback(arguments, environ, status, lines):
    assert run("tool", *arguments, **environ) == (status, "", "".join(f"hack/tool: {line}\n" for line in lines))


def test_help_names_the_variables(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.tool(Script(str(HACK / "tool")), ["--help"], {})

    out = capsys.readouterr().out
    assert all(name in out for name in ("KUBEBUILDER_ASSETS", "TF_OPERATOR_CACHE", "KUBERNETES_MINOR", "GOPROXY"))


def test_list_prints_a_line_per_tool_with_the_version_that_was_asked_for():
    lines = command.tool(Script(str(HACK / "tool")), ["--list"], {"KUBERNETES_MINOR": "1.34"})

    words = [line.split() for line in lines]
    assert ["kube-apiserver", "1.34.4", "hack/tools/kubernetes-1.34"] in words
    assert ["etcd", "3.6.8", "hack/tools/kubernetes-1.36"] in words
