"""The command line: what is accepted, and what help and lists say."""

from pathlib import Path

import pytest

from toolbox import command
from toolbox.command import Script
from toolbox.errors import UsageError

HACK = Path(__file__).resolve().parents[3] / "hack"


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
